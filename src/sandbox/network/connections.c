/* The network policy of a sandbox, and the decisions made under it. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "connections.h"
#include "sandbox/core/sandboxes.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/box/denials.h"

#include <stdio.h>
#include <string.h>

#define DECISIONS_MAX 1000
#define HOST_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

static void on_decision(void *data, const json_t *decision)
{
        struct sandbox *s = data;
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
        struct sandbox *s = data;
        json_t *decision = json_pack("{s:s, s:s, s:s}", "kind", "tcp", "verdict", "denied", "why", e->msg);

        if (decision)
                on_decision(s, decision);
        json_decref(decision);
        s->network_is_lost = 1;
        sandbox_connections_ready(s, e);
}

static void on_ready(void *data)
{
        sandbox_connections_ready(data, NULL);
}

int sandbox_connections_open(struct sandbox *s, const json_t *policy, struct cloche_err *e)
{
        static const struct network_face template = {.on_ready = on_ready,
                                                     .on_decision = on_decision,
                                                     .on_end = on_end};
        struct network_face face = template;

        face.data = s;
        if (json_object_size(policy) == 0 && !s->network)
                return 0;
        if (s->network && !s->network_is_lost)
                return network_set_policy(s->network, policy, e);
        network_stop(s->network);
        s->network = NULL;
        s->network_is_lost = 0;
        return network_start(s->all->engine->keeper, s->box, &s->all->engine->loop, policy, &face, &s->network, e);
}

void sandbox_connections_restart(struct sandbox *s)
{
        struct cloche_err e = {0};

        if (sandbox_connections_open(s, s->network_policy, &e) < 0)
                s->network_is_lost = 1; /* tried again in the next round */
}

void sandbox_connections_close(struct sandbox *s)
{
        network_stop(s->network);
        s->network = NULL;
        s->network_is_lost = 0;
}

int handle_NETWORK_LOG(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        uint64_t after = sandbox_request_count(request, "after", 0);
        json_t *list = json_array(), *decision;
        size_t i;

        (void)e;
        json_array_foreach (s->decisions, i, decision)
                if ((uint64_t)json_integer_value(json_object_get(decision, "number")) > after)
                        json_array_append(list, decision);
        sandbox_request_result(request,
                               json_pack("{s:o, s:I}", "decisions", list, "next", (json_int_t)s->decision_count), NULL);
        return 0;
}

/* The command that permits it. The operator's shell receives names of a guest's choice, so only
 * those of hosts are in it. */
static json_t *remedy_of(const struct sandbox *s, const json_t *denied)
{
        const char *host = json_string_value(json_object_get(denied, "host"));
        json_int_t port = json_integer_value(json_object_get(denied, "port"));

        host = host ? host : json_string_value(json_object_get(denied, "address"));
        if (!host || host[strspn(host, HOST_CHARACTERS)] != '\0')
                return NULL;
        if (port > 0 && strcmp(json_string_value(json_object_get(denied, "kind")), "dns") != 0)
                return json_sprintf("cloche net %s --allow %s:%lld", s->name, host, (long long)port);
        return json_sprintf("cloche net %s --allow %s", s->name, host);
}

json_t *sandbox_denials(struct sandbox *s, uint64_t since)
{
        json_t *rows = json_array(), *decision, *row;
        size_t i;

        if (s->network)
                network_drain(s->network);
        json_array_foreach (s->decisions, i, decision)
                if ((uint64_t)json_integer_value(json_object_get(decision, "number")) > since)
                        denials_add(rows, decision);
        json_array_foreach (rows, i, row) {
                json_t *remedy = remedy_of(s, row);

                if (remedy)
                        json_object_set_new(row, "remedy", remedy);
        }
        if (json_array_size(rows) > 0)
                return rows;
        json_decref(rows);
        return NULL;
}

/* Return the last denied connection, or NULL. */
static const json_t *last_denied(const struct sandbox *s)
{
        for (size_t i = json_array_size(s->decisions); i-- > 0;) {
                const json_t *decision = json_array_get(s->decisions, i);
                const char *verdict = json_string_value(json_object_get(decision, "verdict"));

                if (verdict && strcmp(verdict, "denied") == 0)
                        return decision;
        }
        return NULL;
}

void sandbox_explain_network(const struct sandbox *s, char *ret, size_t size)
{
        const json_t *denied = last_denied(s);
        const char *host = json_string_value(json_object_get(denied, "host")), *name = s->name;

        host = host ? host : json_string_value(json_object_get(denied, "address"));
        if (json_array_size(json_object_get(s->network_policy, "allow")) == 0)
                snprintf(ret, size, "the sandbox %s has no network", name);
        else if (host)
                snprintf(ret, size, "the network policy of the sandbox %s does not allow %.200s", name, host);
        else
                snprintf(ret, size, "the sandbox %s may connect only to where its network policy allows", name);
        size -= strlen(ret);
        ret += strlen(ret);
        snprintf(ret, size,
                 "; whoever runs it can allow more: cloche net %s --allow %.200s, or for new sandboxes cloched "
                 "--network",
                 name, host ? host : "HOST");
}

int sandboxes_explain_network(const struct sandboxes *all, int64_t principal, const char *name, char *ret, size_t size)
{
        const struct sandbox *s = sandbox_find(all, principal, name);

        if (s)
                sandbox_explain_network(s, ret, size);
        return s != NULL;
}
