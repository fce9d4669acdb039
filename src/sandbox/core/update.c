#include "update.h"

#include "base/err.h"

#include <stdlib.h>

/* A request that waits for the keeper. The keeper answers in the order of the requests, and before
 * a later drop of the box. */
struct update {
        STAILQ_ENTRY(update) link;
        struct sandbox_ask *ask; /* NULL: cancelled */
        int is_new;              /* the request that creates the sandbox */
        json_t *params;
        void (*done)(struct sandbox_ask *ask, const struct cloche_err *e);
};

static void update_free(struct update *u)
{
        json_decref(u->params);
        free(u);
}

void updates_free(struct sandbox *s)
{
        struct update *u;

        while ((u = STAILQ_FIRST(&s->updates))) {
                STAILQ_REMOVE_HEAD(&s->updates, link);
                update_free(u);
        }
}

/* -- limits --------------------------------------------------------------------------------------------------- */

static int check_names(const json_t *limits, struct cloche_err *e)
{
        for (const char *const *name = limits_of_runs; *name; name++)
                if (json_object_get(limits, *name))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "sandboxes have no limit %s: it is one of runs",
                                       *name);
        return 0;
}

/* ret: receives the new limits; NULL: they are set. */
static int resolve_limits(struct sandbox *s, const json_t *limits, struct cloche_limits *ret, struct cloche_err *e)
{
        struct cloche_limits asked = s->asked_limits, before = s->limits;
        int r;

        limits_read(limits, &asked);
        r = sandbox_set_limits(s, &asked, e);
        if (r == 0 && ret)
                *ret = s->limits;
        if (r < 0 || ret)
                s->limits = before;
        else
                s->asked_limits = asked;
        return r;
}

/* Copy only the limits that the request names: another request may be under way. 0: none of them
 * concerns the running box. */
static int describe_limits(const json_t *limits, const struct cloche_limits *wanted, struct keeper_box_limits *ret)
{
        struct keeper_box_limits box = limits_of_box(wanted);

        *ret = (struct keeper_box_limits){
                .memory_bytes = json_object_get(limits, "memoryBytes") ? box.memory_bytes : 0,
                .pids = json_object_get(limits, "pids") ? box.pids : 0,
                .cpu_percent = json_object_get(limits, "cpuPercent") ? box.cpu_percent : 0,
        };
        return ret->memory_bytes || ret->pids || ret->cpu_percent;
}

/* -- the whole update ----------------------------------------------------------------------------------------- */

static int check(struct sandbox *s, const json_t *params, struct cloche_limits *ret, struct cloche_err *e)
{
        const json_t *env = json_object_get(params, "env"), *network = json_object_get(params, "network"),
                     *limits = json_object_get(params, "limits");
        int r = check_names(limits, e);

        if (r == 0 && env)
                r = env_check_of_all(env, e);
        if (r == 0 && json_object_size(network) > 0)
                r = network_policy_check(network, e);
        return r < 0 ? r : resolve_limits(s, limits, ret, e);
}

static void replace(json_t **member, json_t *by)
{
        if (!by)
                return;
        json_decref(*member);
        *member = json_incref(by);
}

/* The options that an update changes, except limits. It holds references to the objects. */
struct definition {
        uint64_t idle_ms;
        json_t *env, *labels, *network;
};

static struct definition definition_of(const struct sandbox *s)
{
        return (struct definition){s->idle_ms, json_incref(s->env), json_incref(s->labels),
                                   json_incref(s->network_policy)};
}

static void definition_done(struct definition *d)
{
        json_decref(d->env);
        json_decref(d->labels);
        json_decref(d->network);
}

static void define(struct sandbox *s, const struct definition *d)
{
        s->idle_ms = d->idle_ms;
        replace(&s->env, d->env);
        replace(&s->labels, d->labels);
        replace(&s->network_policy, d->network);
}

static int apply(struct sandbox *s, const json_t *params, struct cloche_err *e)
{
        const json_t *idle = json_object_get(params, "idleMs");
        json_t *network = json_object_get(params, "network");
        const struct definition after = {idle ? (uint64_t)json_integer_value(idle) : s->idle_ms,
                                         json_object_get(params, "env"), json_object_get(params, "labels"), network};
        struct cloche_limits asked_limits = s->asked_limits, limits = s->limits;
        struct definition before = definition_of(s);
        int r = resolve_limits(s, json_object_get(params, "limits"), NULL, e);

        define(s, &after);
        if (r == 0)
                r = store_define(s, e);
        if (r == 0 && network && s->state == SANDBOX_RUNNING)
                r = connections_open(s, network, e);
        if (r < 0) {
                define(s, &before);
                s->asked_limits = asked_limits;
                s->limits = limits;
                (void)store_define(s, NULL); /* if this fails, the file may be newer than the sandbox until the next
                                                change writes it */
        }
        definition_done(&before);
        return r;
}

static void on_limit(void *data, struct keeper_reply *reply)
{
        struct sandbox *s = data;
        struct update *u = STAILQ_FIRST(&s->updates);
        struct cloche_err e = {0};

        STAILQ_REMOVE_HEAD(&s->updates, link);
        if (reply->error)
                e = *reply->error;
        else
                (void)apply(s, u->params, &e);
        if (u->ask) {
                u->ask->cancel = NULL;
                u->done(u->ask, e.code ? &e : NULL);
        } else if (u->is_new && e.code) {
                sandbox_delete(s);
        }
        update_free(u);
}

static void cancel(struct sandbox_ask *ask)
{
        struct update *u;

        STAILQ_FOREACH (u, &ask->sandbox->updates, link)
                if (u->ask == ask)
                        u->ask = NULL;
}

int update_begin(struct sandbox *s, struct sandbox_ask *ask, const json_t *params,
                 void (*done)(struct sandbox_ask *ask, const struct cloche_err *e), struct cloche_err *e)
{
        struct keeper_box_limits box;
        struct cloche_limits wanted;
        struct update *u;
        int r = check(s, params, &wanted, e);

        if (r < 0)
                return r;
        if (s->state != SANDBOX_RUNNING || !describe_limits(json_object_get(params, "limits"), &wanted, &box))
                return apply(s, params, e);
        u = calloc(1, sizeof(*u));
        if (!u)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "change a sandbox");
        r = keeper_box_limit_later(s->all->engine->keeper, s->box, &box, on_limit, s, e);
        if (r < 0) {
                free(u);
                return r;
        }
        *u = (struct update){.ask = ask,
                             .is_new = ask->method->begin == begin_CREATE,
                             .params = json_incref((json_t *)params),
                             .done = done};
        STAILQ_INSERT_TAIL(&s->updates, u, link);
        ask->cancel = cancel;
        return 1;
}
