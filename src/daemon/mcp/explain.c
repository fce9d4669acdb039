/* The tool explain_denial: a connection is tried, and the decision about it is told. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HTTPS 443
#define TRY_MS 10000
#define HOST_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

struct attempt {
        json_t *ended; /* the command */
        json_t *why;   /* its last line on standard error */
};

static void attempt_done(void *state)
{
        struct attempt *attempt = state;

        json_decref(attempt->ended);
        json_decref(attempt->why);
        free(attempt);
}

/* A new reference, or NULL. remedy: of the sandbox; the user of a private daemon, whose client is
 * cloche mcp, has no connection to it. */
static json_t *remedy_for(const struct mcp_exchange *x, int is_allowed, const json_t *remedy)
{
        if (!remedy || is_allowed || x->door.daemon->options.connect_fd < 0)
                return json_incref((json_t *)(uintptr_t)remedy);
        return json_sprintf("add %s:%lld to the rules of cloche mcp --network", mcp_text(x->arguments, "host"),
                            (long long)mcp_count(x, "port", HTTPS));
}

/* why, remedy: may be NULL. */
static void answer(struct mcp_exchange *x, int is_allowed, const json_t *rule, const json_t *why, const json_t *remedy)
{
        json_t *text = json_sprintf("%s%s%s", is_allowed ? "allowed" : "denied", why ? ": " : "",
                                    why ? json_string_value(why) : ""),
               *content = json_pack("[o]", mcp_text_block(text)), *act = remedy_for(x, is_allowed, remedy);

        mcp_add_text(content, act);
        mcp_tool_answer(x, content,
                        json_pack("{s:b, s:O*, s:O*, s:O*}", "allowed", is_allowed, "rule", rule, "why", why, "remedy",
                                  act),
                        0);
        json_decref(act);
        json_decref(text);
}

/* The denial of this host; commands that run at the same time have theirs in the list too. */
static const json_t *denial_of(const struct mcp_exchange *x, const json_t *ended)
{
        const char *host = mcp_text(x->arguments, "host");
        const json_t *denials = json_object_get(ended, "denials");

        for (size_t i = 0; i < json_array_size(denials); i++) {
                const json_t *denial = json_array_get(denials, i);
                const char *name = mcp_text(denial, "host"), *address = mcp_text(denial, "address");

                if ((name && strcasecmp(name, host) == 0) || (!name && address && strcmp(address, host) == 0))
                        return denial;
        }
        return NULL;
}

/* Nothing was refused: either there is no network at all, or the connection failed elsewhere. */
static void on_policy(struct mcp_exchange *x, const struct door_reply *reply)
{
        const struct attempt *attempt = x->state;
        const json_t *allow = json_object_get(json_object_get(reply->result, "network"), "allow"),
                     *warning = json_array_get(json_object_get(attempt->ended, "warnings"), 0);
        json_t *none = json_string("the sandbox has no network");

        if (json_array_size(allow) == 0)
                answer(x, 0, NULL, none, warning);
        else
                answer(x, 1, NULL, attempt->why, warning);
        json_decref(none);
}

static void on_tried(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct attempt *attempt = x->state;
        const json_t *denial = denial_of(x, reply->result);

        if (denial) {
                answer(x, 0, json_object_get(denial, "rule"), json_object_get(denial, "why"),
                       json_object_get(denial, "remedy"));
        } else if (json_integer_value(json_object_get(reply->result, "exitCode")) == 0) {
                answer(x, 1, NULL, NULL, NULL);
        } else {
                attempt->ended = json_deep_copy(reply->result);
                attempt->why = door_string(json_object_get(reply->result, "stderr"), reply->attachments);
                mcp_call(x, "sandbox.get", json_object(), NULL, on_policy);
        }
}

/* bash connects; a copy of the shell, so that the session is as it was. The egress program takes
 * each connection, reports the decision, and then closes one that it denies: the command ends after
 * that, or after a second of silence. */
void mcp_explain_denial(struct mcp_exchange *x)
{
        const char *host = mcp_text(x->arguments, "host");

        if (host[strspn(host, HOST_CHARACTERS)] != '\0') {
                mcp_refuse(x, MCP_BAD_PARAMS, "explain_denial: 'host' must be a name or an IPv4 address");
                return;
        }
        x->state = calloc(1, sizeof(struct attempt));
        x->state_done = x->state ? attempt_done : NULL;
        if (!x->state) {
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
                return;
        }
        mcp_call(x, "exec",
                 json_pack("{s:s, s:b, s:{s:O, s:o}, s:i, s:i}", "command",
                           "exec 3<>\"/dev/tcp/$CLOCHE_HOST/$CLOCHE_PORT\" && { read -rt 1 -n 1 -u 3; true; }", "fork",
                           1, "env", "CLOCHE_HOST", json_object_get(x->arguments, "host"), "CLOCHE_PORT",
                           json_sprintf("%lld", (long long)mcp_count(x, "port", HTTPS)), "timeoutMs", TRY_MS,
                           "outputBytes", 2000),
                 NULL, on_tried);
}
