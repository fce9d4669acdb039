/* Changes to the options of a sandbox. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "update.h"
#include "sandbox/life/deadline.h"
#include "sandbox/network/connections.h"
#include "spawn.h"
#include "store.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/box/network.h"

#include <stdlib.h>
#include <string.h>

#define SETTLE_PATIENCE_S 10

/* A request that waits for the keeper, then for the networks. The keeper answers in the order of
 * the requests, and before a later drop of the box. */
struct update {
        STAILQ_ENTRY(update) link;
        struct sandbox_request *request; /* NULL: cancelled */
        int is_new;                      /* the request that creates the sandbox */
        uint64_t settling_ns;            /* monotonic: the time when it joined s->settling */
        json_t *params;
        void (*done)(struct sandbox_request *request, const struct cloche_err *e);
};

static void update_free(struct update *u)
{
        json_decref(u->params);
        free(u);
}

void sandbox_updates_free(struct sandbox *s)
{
        struct update *u;

        STAILQ_CONCAT(&s->updates, &s->settling);
        while ((u = STAILQ_FIRST(&s->updates))) {
                STAILQ_REMOVE_HEAD(&s->updates, link);
                update_free(u);
        }
}

/* -- limits ----------------------------------------------------------------------------------------------------- */

static int check_names(const json_t *limits, struct cloche_err *e)
{
        for (const char *const *name = limits_of_runs; *name; name++)
                if (json_object_get(limits, *name))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "sandboxes have no limit %s: only runs have it",
                                       *name);
        return 0;
}

/* ret: receives the new limits; NULL: they are set. */
static int resolve_limits(struct sandbox *s, const json_t *limits, struct cloche_limits *ret, struct cloche_err *e)
{
        struct cloche_limits requested = s->requested_limits, before = s->limits;
        int r;

        limits_read(limits, &requested);
        r = sandbox_set_limits(s, &requested, e);
        if (r == 0 && ret)
                *ret = s->limits;
        if (r < 0 || ret)
                s->limits = before;
        else
                s->requested_limits = requested;
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

/* -- the network policy ------------------------------------------------------------------------------------------ */

/* Append the rules that the list lacks. */
static void add_rules(json_t *policy, const char *list, const json_t *rules)
{
        json_t *present = json_object_get(policy, list), *rule;
        size_t i;

        if (json_array_size(rules) == 0)
                return;
        if (!present)
                json_object_set_new(policy, list, present = json_array());
        json_array_foreach (rules, i, rule) {
                size_t k = 0;

                while (k < json_array_size(present) && !json_equal(json_array_get(present, k), rule))
                        k++;
                if (k == json_array_size(present))
                        json_array_append(present, rule);
        }
}

static int is_of_network(const json_t *params)
{
        return json_object_get(params, "network") || json_object_get(params, "addNetwork");
}

/* The policy after the request: a new reference, or NULL: it stays. Rules are added to the
 * policy of the moment, so that no other request's are lost. */
static json_t *policy_after(const struct sandbox *s, const json_t *params)
{
        const json_t *add = json_object_get(params, "addNetwork");
        json_t *policy = add ? json_deep_copy(s->network_policy) : json_incref(json_object_get(params, "network"));

        add_rules(policy, "allow", json_object_get(add, "allow"));
        add_rules(policy, "deny", json_object_get(add, "deny"));
        return policy;
}

/* The error names the member by which the rule came. */
static int check_added(const struct sandbox *s, const json_t *add, struct cloche_err *e)
{
        static const char own[] = "network.";
        int r = network_policy_check(s->all->engine->network_names, add, e);

        if (r < 0 && strncmp(e->msg, own, sizeof(own) - 1) == 0) {
                const struct cloche_err found = *e;

                err_set(e, found.code, "addNetwork.%s", found.msg + sizeof(own) - 1);
        }
        return r;
}

static int check_policy(const struct sandbox *s, const json_t *params, struct cloche_err *e)
{
        static const char *const whole[] = {"dns", "headers"};
        const json_t *add = json_object_get(params, "addNetwork");
        json_t *after = NULL;
        int r = 0;

        if (add && json_object_get(params, "network"))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "network and addNetwork exclude each other: use one");
        for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
                if (json_object_get(add, whole[i]))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "addNetwork: there is no '%s'; expected allow or deny", whole[i]);
        if (add)
                r = check_added(s, add, e);
        if (r == 0)
                after = policy_after(s, params);
        if (json_object_size(after) > 0)
                r = network_policy_check(s->all->engine->network_names, after, e);
        json_decref(after);
        return r;
}

/* -- the whole update ------------------------------------------------------------------------------------------- */

static int check(struct sandbox *s, const json_t *params, struct cloche_limits *ret, struct cloche_err *e)
{
        const json_t *env = json_object_get(params, "env"), *limits = json_object_get(params, "limits");
        int r = check_names(limits, e);

        if (r == 0)
                r = sandbox_deadline_check(s->all->engine->keeper, &s->deadline, params, e);
        if (r == 0 && env)
                r = sandbox_env_check_of_all(env, e);
        /* The program of a new network would be born in groups that are frozen. */
        if (r == 0 && is_of_network(params) && !s->connections.network && s->are_timers_held)
                r = err_set(e, CLOCHE_E_STATE,
                            "the sandbox \"%s\" is paused and has no network yet: resume it, then give it rules",
                            s->name);
        if (r == 0 && is_of_network(params))
                r = check_policy(s, params, e);
        return r < 0 ? r : resolve_limits(s, limits, ret, e);
}

/* The options that an update changes, except limits. It holds references to the objects. */
struct definition {
        uint64_t idle_ms;
        struct deadline deadline;
        json_t *env, *labels, *network;
};

static struct definition definition_of(const struct sandbox *s)
{
        return (struct definition){s->idle_ms, s->deadline, json_incref(s->env), json_incref(s->labels),
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
        s->deadline = d->deadline;
        sandbox_replace(&s->env, d->env);
        sandbox_replace(&s->labels, d->labels);
        sandbox_replace(&s->network_policy, d->network);
}

static int apply(struct sandbox *s, const json_t *params, struct cloche_err *e)
{
        const json_t *idle = json_object_get(params, "idleMs");
        json_t *network = policy_after(s, params);
        const struct definition after = {idle ? (uint64_t)json_integer_value(idle) : s->idle_ms, s->deadline,
                                         json_object_get(params, "env"), json_object_get(params, "labels"), network};
        struct cloche_limits requested_limits = s->requested_limits, limits = s->limits;
        struct definition before = definition_of(s);
        int r = resolve_limits(s, json_object_get(params, "limits"), NULL, e);

        define(s, &after);
        sandbox_deadline_take(&s->deadline, params);
        if (r == 0)
                r = sandbox_store_define(s, e);
        /* Also of a box that starts or is saved: it may run on after both. */
        if (r == 0 && network && s->has_box)
                r = sandbox_connections_open(s, network, e);
        if (r < 0) {
                define(s, &before);
                s->requested_limits = requested_limits;
                s->limits = limits;
                (void)sandbox_store_define(s, NULL); /* if this fails, the file may be newer than the sandbox until the
                                                next change writes it */
        }
        definition_done(&before);
        json_decref(network);
        return r;
}

static void conclude(struct update *u, struct sandbox *s, const struct cloche_err *e)
{
        if (u->request) {
                u->request->cancel = NULL;
                u->done(u->request, e);
        } else if (u->is_new && e) {
                sandbox_delete(s);
        }
        update_free(u);
}

static int is_settling(const struct sandbox *s, const json_t *params)
{
        return is_of_network(params) && !sandbox_connections_are_settled(s);
}

static void settle_later(struct sandbox *s, struct update *u)
{
        u->settling_ns = clock_now_ns();
        STAILQ_INSERT_TAIL(&s->settling, u, link);
}

void sandbox_updates_settle(struct sandbox *s)
{
        struct cloche_err late;
        struct update *u;
        int is_settled;

        if (STAILQ_EMPTY(&s->settling)) /* the usual case, in each round of all sandboxes */
                return;
        is_settled = sandbox_connections_are_settled(s);
        if (!is_settled)
                err_set(&late, CLOCHE_E_TIMEOUT,
                        "the network policy of the sandbox \"%s\" is stored, but was not in force after %d s, as the "
                        "program that enforces it did not answer, perhaps for want of the sandbox's processor time: "
                        "stop the sandbox to be sure",
                        s->name, SETTLE_PATIENCE_S);
        while ((u = STAILQ_FIRST(&s->settling)) &&
               (is_settled || clock_now_ns() - u->settling_ns > SETTLE_PATIENCE_S * UINT64_C(1000000000))) {
                STAILQ_REMOVE_HEAD(&s->settling, link);
                conclude(u, s, is_settled ? NULL : &late);
        }
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
        if (e.code == 0 && is_settling(s, u->params))
                settle_later(s, u);
        else
                conclude(u, s, e.code ? &e : NULL);
}

static void forget(const struct update_list *list, const struct sandbox_request *request)
{
        struct update *u;

        STAILQ_FOREACH (u, list, link)
                if (u->request == request)
                        u->request = NULL;
}

static void cancel(struct sandbox_request *request)
{
        forget(&request->sandbox->updates, request);
        forget(&request->sandbox->settling, request);
}

/* NULL with e: no memory. */
static struct update *update_new(struct sandbox_request *request, const json_t *params,
                                 void (*done)(struct sandbox_request *request, const struct cloche_err *e),
                                 struct cloche_err *e)
{
        struct update *u = calloc(1, sizeof(*u));

        if (!u) {
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "change a sandbox");
                return NULL;
        }
        *u = (struct update){.request = request,
                             .is_new = request->method->handle == handle_CREATE,
                             .params = json_incref((json_t *)params),
                             .done = done};
        return u;
}

int sandbox_update_begin(struct sandbox *s, struct sandbox_request *request, const json_t *params,
                         void (*done)(struct sandbox_request *request, const struct cloche_err *e),
                         struct cloche_err *e)
{
        struct keeper_box_limits box;
        struct cloche_limits wanted;
        int r = check(s, params, &wanted, e), is_limit;
        struct update *u = r == 0 ? update_new(request, params, done, e) : NULL;

        if (!u)
                return -(int)e->code;
        is_limit = sandbox_is_live(s) && describe_limits(json_object_get(params, "limits"), &wanted, &box);
        r = is_limit ? s->all->boxes->limit(s->all, s->box, &box, on_limit, s, e) : apply(s, params, e);
        if (r == 0 && is_limit)
                STAILQ_INSERT_TAIL(&s->updates, u, link);
        else if (r == 0 && is_settling(s, params))
                settle_later(s, u);
        else {
                update_free(u);
                return r;
        }
        request->cancel = cancel;
        return 1;
}
