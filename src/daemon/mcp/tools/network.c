/* The tools about rules: explain_denial tries an access and tells the decision about it,
 * set_network changes a policy, if the user permits it. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "daemon/mcp/internal.h"

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

/* A new reference, or NULL. remedy: of the sandbox, for users of the command line and of
 * operations: an agent has tools, and the user of a private daemon, whose client is cloche mcp,
 * has no other connection to it. */
static json_t *remedy_for(const struct mcp_exchange *x, int is_allowed, const json_t *remedy)
{
        const char *host = mcp_text(x->arguments, "host");
        long long port = mcp_count(x, "port", HTTPS);

        if (!remedy || is_allowed)
                return json_incref((json_t *)(uintptr_t)remedy);
        if (mcp_tool_find(x, "set_network") && json_object_get(mcp_capabilities(x), "elicitation"))
                return json_sprintf("set_network with %s:%lld besides the rules that are to stay asks the user", host,
                                    port);
        if (x->door.daemon->options.connect_fd < 0)
                return json_incref((json_t *)(uintptr_t)remedy);
        return json_sprintf("add %s:%lld to the rules of cloche mcp --network", host, port);
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
static void explain_host(struct mcp_exchange *x)
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

/* -- files ------------------------------------------------------------------------------------------------------- */

/* The rules of a mount that refuse an access are its own to tell: the same file is denied to all
 * programs of the sandbox alike. */
static void on_path_tried(struct mcp_exchange *x, const struct door_reply *reply)
{
        json_t *why = door_string(json_object_get(reply->result, "stderr"), reply->attachments);
        int is_allowed = json_integer_value(json_object_get(reply->result, "exitCode")) == 0;

        answer(x, is_allowed, NULL, is_allowed ? NULL : why, NULL);
        json_decref(why);
}

static void explain_path(struct mcp_exchange *x)
{
        mcp_call(x, "exec",
                 json_pack("{s:s, s:s, s:b, s:{s:O}, s:i, s:i}", "cwd", MCP_HOME, "command",
                           "if [ -d \"$CLOCHE_PATH\" ]; then ls -- \"$CLOCHE_PATH\" >/dev/null; else head -c 1 -- "
                           "\"$CLOCHE_PATH\" >/dev/null; fi",
                           "fork", 1, "env", "CLOCHE_PATH", json_object_get(x->arguments, "path"), "timeoutMs", TRY_MS,
                           "outputBytes", 2000),
                 NULL, on_path_tried);
}

void mcp_explain_denial(struct mcp_exchange *x)
{
        json_t *host = json_object_get(x->arguments, "host"), *path = json_object_get(x->arguments, "path");

        if (!host == !path)
                mcp_refuse(x, MCP_BAD_PARAMS, "explain_denial: expected either 'host' or 'path'");
        else if (host)
                explain_host(x);
        else
                explain_path(x);
}

/* -- set_network ------------------------------------------------------------------------------------------------- */

#define QUESTION "network"

static char *rules_of(const json_t *network, const char *name)
{
        char *text = json_dumps(json_object_get(network, name), JSON_ENCODE_ANY);

        return text ? text : strdup("[]");
}

/* The user sees the rules as JSON: a name with control characters cannot hide others. */
static json_t *question_of(const struct mcp_exchange *x, const json_t *network)
{
        char *allow = rules_of(network, "allow"), *deny = rules_of(network, "deny");
        json_t *question =
                json_pack("{s:{s:s, s:{s:o, s:{s:s, s:{s:{s:s, s:s, s:s}}, s:[s]}}}}", QUESTION, "method",
                          "elicitation/create", "params", "message",
                          json_sprintf("An agent wants programs in the sandbox %s to connect to %s (denied: %s). They "
                                       "can send data "
                                       "there.",
                                       x->door.sandbox ? x->door.sandbox : "that it makes", allow, deny),
                          "requestedSchema", "type", "object", "properties", "permit", "type", "boolean", "title",
                          "Permit", "description", "Let the programs of the sandbox connect as these rules say.",
                          "required", "permit");

        free(allow);
        free(deny);
        return question;
}

int mcp_network_is_granted(struct mcp_exchange *x, const json_t *network)
{
        const json_t *answer = x->kept ? mcp_input(x, QUESTION, "elicitation/create") : NULL;
        const char *action = mcp_text(answer, "action");

        if (!answer) {
                mcp_ask(x, question_of(x, network), json_pack("{s:b}", "asked", 1));
                return 0;
        }
        if (strcmp(action, "accept") == 0 &&
            json_is_true(json_object_get(json_object_get(answer, "content"), "permit")))
                return 1;
        mcp_tool_answer_text(x, json_string("the user did not permit it: nothing was changed"), NULL, 1);
        return 0;
}

static void on_changed(struct mcp_exchange *x, const struct door_reply *reply)
{
        json_t *network = json_object_get(reply->result, "network");
        char *text = json_dumps(network, JSON_COMPACT);

        mcp_tool_answer_text(x, json_sprintf("the network of %s is now %s", x->door.sandbox, text ? text : ""),
                             json_pack("{s:O}", "network", network), 0);
        free(text);
}

/* The sandbox exists: none is made to ask about it. */
void mcp_set_network(struct mcp_exchange *x)
{
        json_t *network;

        if (!sandboxes_has(x->door.daemon->sandboxes, x->door.principal, x->door.sandbox)) {
                mcp_refuse(x, MCP_BAD_PARAMS, "there is no sandbox %s (list_sandboxes lists them)", x->door.sandbox);
                return;
        }
        network = json_pack("{s:O, s:O*}", "allow", json_object_get(x->arguments, "allow"), "deny",
                            json_object_get(x->arguments, "deny"));
        if (mcp_network_is_granted(x, network))
                mcp_call(x, "sandbox.update", json_pack("{s:O}", "network", network), NULL, on_changed);
        json_decref(network);
}
