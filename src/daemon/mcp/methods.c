/* The methods of the protocol, of both eras. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define FIXED_TTL_MS 3600000

static const char instructions[] =
        "Cloche runs code that nobody has to trust: each sandbox is a Linux box with files, shells and interpreters of "
        "its own, without network unless its policy permits it. The tools share one sandbox unless they name another "
        "in 'sandbox'; it is made on first use. run_code keeps variables between calls, run_command its directory; "
        "both see the files below /workspace.";

json_t *mcp_cached(const struct mcp_exchange *x, json_t *result, int is_fixed)
{
        if (x->is_modern && result) {
                json_object_set_new(result, "ttlMs", json_integer(is_fixed ? FIXED_TTL_MS : 0));
                json_object_set_new(result, "cacheScope", json_string("private"));
        }
        return result;
}

int mcp_refuse_cursor(struct mcp_exchange *x)
{
        int has_cursor = json_object_get(x->params, "cursor") != NULL;

        if (has_cursor)
                mcp_refuse(x, MCP_BAD_PARAMS, "params.cursor: there is one page, which has no cursor");
        return has_cursor;
}

/* Only fixtures change the lists of tools and prompts while the daemon runs. */
static json_t *capabilities(const struct mcp_exchange *x)
{
        int changes = x->door.daemon->options.is_conformance;

        return json_pack("{s:{}, s:o*, s:{}, s:{s:b}, s:{s:b}, s:{s:b}}", "completions", "extensions",
                         x->is_modern ? mcp_task_extension() : NULL, "logging", "prompts", "listChanged", changes,
                         "resources", "subscribe", 1, "tools", "listChanged", changes);
}

/* A client of HTTP gets a session. Without one it has neither log messages nor subscriptions, and
 * cannot be asked. */
static void remember_client(struct mcp_exchange *x)
{
        struct mcp_client *client;

        if (!x->connection) {
                mcp_random_id(x->new_session);
                x->session = x->new_session;
                x->client = NULL;
        }
        client = mcp_client_of(x);
        if (!client)
                return;
        json_decref(client->capabilities);
        client->capabilities = json_deep_copy(json_object_get(x->params, "capabilities"));
        client->level = MCP_SILENCE;
}

static void on_initialize(struct mcp_exchange *x)
{
        const char *asked = mcp_text(x->params, "protocolVersion");

        if (!asked) {
                mcp_refuse(x, MCP_BAD_PARAMS, "params.protocolVersion is missing, expected a version such as %s",
                           mcp_legacy_version(NULL));
                return;
        }
        remember_client(x);
        mcp_answer(x, json_pack("{s:s, s:o, s:o, s:s}", "protocolVersion", mcp_legacy_version(asked), "capabilities",
                                capabilities(x), "serverInfo", mcp_server_info(), "instructions", instructions));
}

static void on_discover(struct mcp_exchange *x)
{
        mcp_answer(x,
                   mcp_cached(x,
                              json_pack("{s:o, s:o, s:o, s:s}", "supportedVersions", mcp_versions(), "capabilities",
                                        capabilities(x), "serverInfo", mcp_server_info(), "instructions", instructions),
                              1));
}

static void on_ping(struct mcp_exchange *x)
{
        mcp_answer(x, json_object());
}

static void on_tools_list(struct mcp_exchange *x)
{
        json_t *tools, *tool;
        size_t i;

        if (mcp_refuse_cursor(x))
                return;
        tools = json_array();
        mcp_fixtures_list(x, "tools", tools);
        json_array_foreach (x->door.daemon->mcp->tools, i, tool)
                if (mcp_tool_is_served(x, i))
                        json_array_append(tools, tool);
        mcp_answer(x, mcp_cached(x, json_pack("{s:o}", "tools", tools), 1));
}

static void on_tools_call(struct mcp_exchange *x)
{
        const char *name = mcp_text(x->params, "name");
        struct cloche_err e = {0};

        if (!name) {
                mcp_refuse(x, MCP_BAD_PARAMS, "params.name is missing, expected the name of a tool");
                return;
        }
        if (!mcp_inputs_take(x) || mcp_fixture_call(x))
                return;
        x->tool = mcp_tool_find(x, name);
        x->arguments = json_object_get(x->params, "arguments");
        if (!x->tool)
                mcp_refuse(x, MCP_BAD_PARAMS, "there is no tool '%.60s' (tools/list has them)", name);
        else if (mcp_arguments_check(x, &e) < 0)
                mcp_refuse(x, MCP_BAD_PARAMS, "%s: %s", name, e.msg);
        else {
                mcp_task_expect(x); /* the tool may answer at once, and x is gone then */
                mcp_tool_run(x);
        }
}

/* -- notifications ----------------------------------------------------------------------------------------------- */

/* A request that was cancelled has no answer. */
static void on_cancelled(struct mcp_exchange *x)
{
        const json_t *id = json_object_get(x->params, "requestId");
        struct mcp_exchange *other;

        TAILQ_FOREACH (other, &x->door.daemon->mcp->exchanges, link)
                if (id && other->id && mcp_is_same_client(x, other) && json_equal(other->id, id)) {
                        mcp_exchange_abandon(other);
                        other->carrier->answer(other, 202, NULL);
                        break;
                }
        x->carrier->answer(x, 202, NULL);
}

static void on_notified(struct mcp_exchange *x)
{
        x->carrier->answer(x, 202, NULL);
}

/* -- the table --------------------------------------------------------------------------------------------------- */

enum { LEGACY = 1, MODERN = 2 };

static const struct method {
        const char *name;
        int eras, is_notification;
        void (*handle)(struct mcp_exchange *x);
} methods[] = {
        {"initialize", LEGACY, 0, on_initialize},
        {"ping", LEGACY, 0, on_ping},
        {"server/discover", LEGACY | MODERN, 0, on_discover},
        {"tools/list", LEGACY | MODERN, 0, on_tools_list},
        {"tools/call", LEGACY | MODERN, 0, on_tools_call},
        {"resources/list", LEGACY | MODERN, 0, mcp_on_resources_list},
        {"resources/templates/list", LEGACY | MODERN, 0, mcp_on_resource_templates},
        {"resources/read", LEGACY | MODERN, 0, mcp_on_resources_read},
        {"prompts/list", LEGACY | MODERN, 0, mcp_on_prompts_list},
        {"prompts/get", LEGACY | MODERN, 0, mcp_on_prompts_get},
        {"completion/complete", LEGACY | MODERN, 0, mcp_on_complete},
        {"logging/setLevel", LEGACY, 0, mcp_on_set_level},
        {"resources/subscribe", LEGACY, 0, mcp_on_subscribe},
        {"resources/unsubscribe", LEGACY, 0, mcp_on_unsubscribe},
        {"tasks/get", MODERN, 0, mcp_on_task_get},
        {"tasks/update", MODERN, 0, mcp_on_task_update},
        {"tasks/cancel", MODERN, 0, mcp_on_task_cancel},
        {"subscriptions/listen", MODERN, 0, mcp_on_listen},
        {"notifications/cancelled", LEGACY | MODERN, 1, on_cancelled},
};

void mcp_dispatch(struct mcp_exchange *x)
{
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
                if (strcmp(methods[i].name, x->method) == 0 && methods[i].is_notification == !x->id &&
                    methods[i].eras & (x->is_modern ? MODERN : LEGACY)) {
                        methods[i].handle(x);
                        return;
                }
        if (x->id)
                mcp_refuse(x, MCP_NO_METHOD, "there is no method '%.60s'", x->method);
        else
                on_notified(x); /* others tell nothing that this server acts on */
}
