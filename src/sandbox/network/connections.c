/* The network policy of a sandbox, and the decisions made under it. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "connections.h"
#include "sandbox/context/context.h"
#include "sandbox/core/update.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/box/denials.h"
#include "engine/box/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECISIONS_MAX 1000

static void on_decision(void *data, const json_t *decision)
{
        struct sandbox *s = ((struct connections *)data)->sandbox;
        json_t *copy = json_copy((json_t *)decision);

        if (!copy)
                return;
        json_object_set_new(copy, "number", json_integer((json_int_t)++s->decision_count));
        json_object_set_new(copy, "time", sandbox_time_json(clock_real_ms()));
        if (json_array_size(s->decisions) == DECISIONS_MAX)
                json_array_remove(s->decisions, 0);
        json_array_append(s->decisions, copy);
        sandbox_send_event(s, "network", copy);
}

/* The box continues without a network; connecting fails at once. */
static void on_end(void *data, const struct cloche_err *e)
{
        struct connections *c = data;
        json_t *decision =
                json_pack("{s:s, s:s, s:s, s:i}", "kind", "tcp", "verdict", "denied", "why", e->msg, "count", 1);

        if (decision)
                on_decision(c, decision);
        json_decref(decision);
        c->is_lost = 1;
        c->pending = 0;
        sandbox_updates_settle(c->sandbox);
        if (c->on_change)
                c->on_change(c, e);
}

static void on_traffic(void *data, uint64_t sent, uint64_t received)
{
        struct sandbox *s = ((struct connections *)data)->sandbox;

        s->sent_bytes += sent;
        s->received_bytes += received;
}

static void on_ready(void *data)
{
        struct connections *c = data;

        c->pending--;
        sandbox_updates_settle(c->sandbox);
        if (c->on_change)
                c->on_change(c, NULL);
}

int connections_open(struct connections *c, const json_t *policy, struct cloche_err *e)
{
        const struct network_face face = {.on_ready = on_ready,
                                          .on_decision = on_decision,
                                          .on_traffic = on_traffic,
                                          .on_end = on_end,
                                          .data = c};
        struct cloche_engine *engine = c->sandbox->all->engine;
        int r;

        if (json_object_size(policy) == 0 && !c->network) {
                c->is_lost = 0;
                return 0;
        }
        if (!c->network || c->is_lost) {
                connections_close(c);
                r = network_start(engine->keeper, engine->network_names, c->box, &engine->loop, policy, &face,
                                  &c->network, e);
        } else {
                r = network_set_policy(c->network, policy, e);
        }
        if (r == 0)
                c->pending++;
        return r;
}

int connections_are_settled(const struct connections *c)
{
        return !c->network || c->pending == 0;
}

void connections_close(struct connections *c)
{
        network_stop(c->network);
        c->network = NULL;
        c->is_lost = 0;
        c->pending = 0;
}

/* -- all of a sandbox ------------------------------------------------------------------------------------------- */

static int has_box(const struct context *context)
{
        return context->connections.box != KEEPER_NO_BOX;
}

/* How a reader of its denials changes its rules. */
static enum sandboxes_reach reach_of(const struct sandbox *s)
{
        return s->principal < 0 ? s->all->options.token_reach : s->all->options.reach;
}

/* A saved policy may name what this daemon was not started with: a port of the host, or a
 * preset. */
static void explain_refused(const struct sandbox *s, struct cloche_err *e)
{
        const struct cloche_err found = *e;

        if (found.code == CLOCHE_E_INVALID_ARGUMENT)
                err_set(e, found.code,
                        "the network of the sandbox \"%s\" has a rule that this daemon does not know%s%s: %s", s->name,
                        reach_of(s) == SANDBOXES_BY_COMMAND ? "; change it by cloche net " : "",
                        reach_of(s) == SANDBOXES_BY_COMMAND ? s->name : "", found.msg);
}

int sandbox_connections_open(struct sandbox *s, const json_t *policy, struct cloche_err *e)
{
        struct context *context;
        struct cloche_err lost;
        int r = connections_open(&s->connections, policy, e);

        if (r == 0)
                TAILQ_FOREACH (context, &s->contexts, link)
                        if (has_box(context) && connections_open(&context->connections, policy, &lost) < 0)
                                context->connections.is_lost = 1;
        if (r < 0)
                explain_refused(s, e);
        return r;
}

int sandbox_connections_are_settled(const struct sandbox *s)
{
        const struct context *context;

        TAILQ_FOREACH (context, &s->contexts, link)
                if (!connections_are_settled(&context->connections))
                        return 0;
        return connections_are_settled(&s->connections);
}

static void restart(struct connections *c)
{
        struct cloche_err e = {0};

        if (c->is_lost && connections_open(c, c->sandbox->network_policy, &e) < 0)
                c->is_lost = 1; /* tried again in the next round */
}

void sandbox_connections_restart(struct sandbox *s)
{
        struct context *context;

        restart(&s->connections);
        TAILQ_FOREACH (context, &s->contexts, link)
                if (has_box(context))
                        restart(&context->connections);
}

static void drain(struct sandbox *s)
{
        struct context *context;

        if (s->connections.network)
                network_drain(s->connections.network);
        TAILQ_FOREACH (context, &s->contexts, link)
                if (context->connections.network)
                        network_drain(context->connections.network);
}

/* The index in s->decisions of the first one after that number: the kept ones are numbered in a
 * row. */
static size_t first_after(const struct sandbox *s, uint64_t number)
{
        size_t kept = json_array_size(s->decisions);
        uint64_t later = number < s->decision_count ? s->decision_count - number : 0;

        return later < kept ? kept - (size_t)later : 0; /* later == 0: behind the last */
}

int handle_NETWORK_LOG(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        uint64_t after = sandbox_request_count(request, "after", 0);
        json_t *list = json_array();

        (void)e;
        for (size_t i = first_after(s, after); i < json_array_size(s->decisions); i++)
                json_array_append(list, json_array_get(s->decisions, i));
        sandbox_request_result(request,
                               json_pack("{s:o, s:I}", "decisions", list, "next", (json_int_t)s->decision_count), NULL);
        return 0;
}

static json_t *command_of(const struct sandbox *s, const json_t *allow)
{
        json_t *command = json_sprintf("cloche net %s", s->name);
        const json_t *rule;
        size_t i;

        json_array_foreach (allow, i, rule) {
                json_t *longer = json_sprintf("%s --add %s", json_string_value(command), json_string_value(rule));

                json_decref(command);
                command = longer;
        }
        return command;
}

static json_t *operation_of(const struct sandbox *s, const json_t *allow)
{
        json_t *params = json_pack("{s:s, s:{s:O}}", "sandbox", s->name, "addNetwork", "allow", (json_t *)allow);
        char *text = params ? json_dumps(params, 0) : NULL;
        json_t *operation = text ? json_sprintf("sandbox.update %s", text) : NULL;

        free(text);
        json_decref(params);
        return operation;
}

/* The act of that reader that adds these rules. A new reference, or NULL: none reaches it. */
static json_t *remedy_of(const struct sandbox *s, const json_t *allow)
{
        enum sandboxes_reach reach = reach_of(s);

        return reach == SANDBOXES_BY_COMMAND     ? command_of(s, allow)
               : reach == SANDBOXES_BY_OPERATION ? operation_of(s, allow)
                                                 : NULL;
}

static void set_remedies(const struct sandbox *s, json_t *rows)
{
        json_t *row;
        size_t i;

        denials_set_rules(rows, s->all->engine->network_names, s->network_policy);
        json_array_foreach (rows, i, row) {
                const json_t *allow = json_object_get(row, "allow");
                json_t *remedy = allow ? remedy_of(s, allow) : NULL;

                if (remedy)
                        json_object_set_new(row, "remedy", remedy);
        }
}

json_t *sandbox_denials(struct sandbox *s, uint64_t since)
{
        json_t *rows;
        size_t i;

        drain(s);
        if (s->decision_count == since) /* the usual case */
                return NULL;
        rows = json_array();
        for (i = first_after(s, since); i < json_array_size(s->decisions); i++)
                denials_add(rows, json_array_get(s->decisions, i));
        set_remedies(s, rows);
        if (json_array_size(rows) > 0)
                return rows;
        json_decref(rows);
        return NULL;
}

/* Return the last denied connection as the only row of an array, with its remedy; an empty one:
 * none. */
static json_t *last_denied(const struct sandbox *s)
{
        json_t *rows = json_array();

        for (size_t i = json_array_size(s->decisions); i-- > 0 && json_array_size(rows) == 0;)
                denials_add(rows, json_array_get(s->decisions, i));
        set_remedies(s, rows);
        return rows;
}

/* A sentence about a denial that no further rule permits. */
static void explain_final(const struct sandbox *s, const json_t *denied, const char *host, char *ret, size_t size)
{
        const char *why = json_string_value(json_object_get(denied, "why")),
                   *rule = json_string_value(json_object_get(denied, "rule"));
        const char *by = reach_of(s) == SANDBOXES_BY_COMMAND ? "cloche net" : "sandbox.get";

        snprintf(ret, size, "the network of the sandbox %s refused %.200s: %.200s%s%.300s (%s %s shows its rules)",
                 s->name, host, why ? why : "", rule ? ": deny " : "", rule ? rule : "", by, s->name);
}

static void explain_remedy(const struct sandbox *s, const json_t *denied, char *ret, size_t size)
{
        json_t *any = json_pack("[s]", "HOST"), *allow = json_object_get(denied, "allow");
        json_t *remedy = remedy_of(s, allow ? allow : any);

        snprintf(ret, size, "; whoever runs it can allow more: %.400s%sfor new sandboxes cloched --network",
                 remedy ? json_string_value(remedy) : "", remedy ? ", or " : "");
        json_decref(remedy);
        json_decref(any);
}

void sandbox_explain_network(const struct sandbox *s, char *ret, size_t size)
{
        json_t *rows = last_denied(s);
        const json_t *denied = json_array_get(rows, 0);
        const char *host = json_string_value(json_object_get(denied, "host")), *name = s->name;
        int is_open = json_array_size(json_object_get(s->network_policy, "allow")) > 0;

        host = host ? host : json_string_value(json_object_get(denied, "address"));
        if (host && !json_object_get(denied, "allow")) {
                explain_final(s, denied, host, ret, size);
                json_decref(rows);
                return;
        }
        if (!is_open)
                snprintf(ret, size, "the sandbox %s has no network", name);
        else if (host)
                snprintf(ret, size, "the network policy of the sandbox %s does not allow %.200s", name, host);
        else
                snprintf(ret, size, "the sandbox %s may connect only to where its network policy allows", name);
        explain_remedy(s, denied, ret + strlen(ret), size - strlen(ret));
        json_decref(rows);
}

int sandboxes_explain_network(const struct sandboxes *all, int64_t principal, const char *name, char *ret, size_t size)
{
        const struct sandbox *s = sandbox_find(all, principal, name);

        if (s)
                sandbox_explain_network(s, ret, size);
        return s != NULL;
}
