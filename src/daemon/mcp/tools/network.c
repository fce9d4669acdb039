/* The tools about rules: explain_denial tries an access and tells the decision about it,
 * set_network changes a policy, if the user permits it. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "daemon/mcp/internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HTTPS 443
#define TRY_MS 10000
#define HOST_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

struct attempt {
        json_t *ended; /* the command */
        json_t *why;   /* its last line on standard error */
        /* The rest is for a path. */
        struct mcp_exchange *x;
        struct mcp_errand *follower; /* of the sandbox's events; NULL: none */
        json_t *path;                /* absolute */
        json_t *mount;               /* that has it; NULL: none */
        json_t *denial;              /* of that; NULL: none was told */
};

static void attempt_done(void *state)
{
        struct attempt *attempt = state;

        if (attempt->follower)
                mcp_errand_free(attempt->follower);
        json_decref(attempt->ended);
        json_decref(attempt->why);
        json_decref(attempt->path);
        json_decref(attempt->mount);
        json_decref(attempt->denial);
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

#define TOLD_NS UINT64_C(1000000000) /* a decision may come after the command's end */
/* A refusal is told when the number of those of a path doubles; so many tries reach the next
 * one. */
#define TRIES "256"

/* Mounts have rules of the user who made the sandbox; other refusals are the system's. */
static void answer_path(struct mcp_exchange *x)
{
        const struct attempt *attempt = x->state;
        const char *operation = mcp_text(attempt->denial, "operation");
        json_t *why, *remedy;

        x->deadline_ns = 0;
        if (!attempt->mount) {
                answer(x, 0, NULL, attempt->why, NULL);
                return;
        }
        if (attempt->denial)
                why = json_sprintf("the rules of the mount %s do not permit to %s it",
                                   json_string_value(attempt->mount), operation ? operation : "use");
        else
                why = json_sprintf("%s (in the mount %s, which has rules of its own)", json_string_value(attempt->why),
                                   json_string_value(attempt->mount));
        remedy = json_string("the user who made the sandbox gave its mount these rules");
        answer(x, 0, json_object_get(attempt->denial, "rule"), why, remedy);
        json_decref(why);
        json_decref(remedy);
}

static void on_denied(struct mcp_errand *errand, const char *event, const json_t *about, const struct buf *attachments)
{
        struct attempt *attempt = errand->data;

        (void)attachments;
        if (strcmp(event, "fileDenied") != 0 || attempt->denial ||
            !json_equal(json_object_get(about, "path"), attempt->path))
                return;
        attempt->denial = json_deep_copy(about);
        if (attempt->x->deadline_ns)
                attempt->x->deadline_ns = 1; /* the timer's next turn */
}

static void on_followed(struct mcp_errand *errand, const struct door_reply *reply)
{
        struct attempt *attempt = errand->data;

        (void)reply;
        attempt->follower = NULL;
        mcp_errand_free(errand);
}

static void on_mounts(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct attempt *attempt = x->state;
        const char *path = json_string_value(attempt->path);
        json_t *mounts = json_object_get(reply->result, "mounts"), *mount;
        size_t i, longest = 0; /* a mount may lie in another one */

        json_array_foreach (mounts, i, mount) {
                const char *place = mcp_text(mount, "path");
                size_t size = place ? strlen(place) : 0;

                if (path && size > longest && strncmp(place, path, size) == 0 && strchr("/", path[size])) {
                        longest = size;
                        json_decref(attempt->mount);
                        attempt->mount = json_string(place);
                }
        }
        if (attempt->mount && !attempt->denial)
                mcp_set_deadline(x, clock_now_ns() + TOLD_NS, answer_path);
        else
                answer_path(x);
}

static void on_path_tried(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct attempt *attempt = x->state;

        if (json_integer_value(json_object_get(reply->result, "exitCode")) == 0) {
                answer(x, 1, NULL, NULL, NULL);
                return;
        }
        attempt->ended = json_deep_copy(reply->result);
        attempt->why = door_string(json_object_get(reply->result, "stderr"), reply->attachments);
        mcp_call(x, "sandbox.get", json_object(), NULL, on_mounts);
}

/* A sandbox that does not exist yet has no events, and no mounts. */
static void follow(struct attempt *attempt, struct mcp_exchange *x)
{
        if (!sandboxes_has(x->door.daemon->sandboxes, x->door.principal, x->door.sandbox))
                return;
        attempt->follower = mcp_errand_new(&x->door);
        if (!attempt->follower)
                return;
        attempt->follower->heard = on_denied;
        attempt->follower->data = attempt;
        attempt->follower->door.sandbox = strdup(x->door.sandbox);
        mcp_errand_call(attempt->follower, "sandbox.events", json_object(), on_followed);
}

static void explain_path(struct mcp_exchange *x)
{
        struct attempt *attempt = calloc(1, sizeof(*attempt));
        const char *path = mcp_text(x->arguments, "path");

        if (!attempt) {
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
                return;
        }
        x->state = attempt;
        x->state_done = attempt_done;
        attempt->x = x;
        attempt->path = *path == '/' ? json_string(path) : json_sprintf(MCP_HOME "/%s", path);
        follow(attempt, x);
        mcp_call(x, "exec",
                 json_pack("{s:s, s:s, s:b, s:{s:O}, s:i, s:i}", "cwd", MCP_HOME, "command",
                           "if [ -d \"$CLOCHE_PATH\" ]; then ls -- \"$CLOCHE_PATH\" >/dev/null; else head -c 1 -- "
                           "\"$CLOCHE_PATH\" >/dev/null || { for ((i = 0; i < " TRIES
                           "; i++)); do { : <\"$CLOCHE_PATH\"; } 2>/dev/null; done; false; }; fi",
                           "fork", 1, "env", "CLOCHE_PATH", attempt->path, "timeoutMs", TRY_MS, "outputBytes", 2000),
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
