/* Operations and their handlers. Runs in: cloched-engine, on its loop, with the rights of the
 * daemon's user. */
#include "daemon/images/operations.h"
#include "auth.h"
#include "client.h"
#include "connection.h"
#include "daemon/mcp/mcp.h"
#include "daemon/run/changes.h"
#include "daemon/run/prefix.h"
#include "daemon/run/run.h"

#include "base/err.h"
#include "sandbox/core/sandbox.h"
#include "user/guards.h"
#include "user/notice.h"

#include <cloche/cloche.h>
#include <errno.h>
#include <string.h>

static int not_packed(json_t *answer, struct cloche_err *e)
{
        return answer ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
}

static json_t *missing_guards(const cloche_engine *engine)
{
        uint32_t missing = guards_missing(engine);
        json_t *names = json_array();

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                if (missing & 1u << g)
                        json_array_append_new(names, json_string(cloche_guard_name((enum cloche_guard)g)));
        return names;
}

/* Return a notice to print, for callers that started this daemon for their user. NULL: none. */
static json_t *notice(const struct client_request *request)
{
        const struct daemon *d = request->client->daemon;
        char text[NOTICE_BYTES];

        if (!json_is_true(json_object_get(request->params, "notice")) ||
            d->options.engine.profile == CLOCHE_PROFILE_NONE ||
            !notice_take(d->notice_fd, notice_missing(d->engine), text))
                return NULL;
        return json_string(text);
}

static int hello(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        struct client *client = request->client;
        const json_t *token = json_object_get(request->params, "token");
        int is_token = auth_is_token(&client->daemon->options, token), r;

        if (client->is_greeted)
                return err_set(e, CLOCHE_E_STATE, "hello was sent already: it is sent once per connection");
        if (client->needs_token && !is_token)
                return err_set(e, CLOCHE_E_UNAUTHORIZED, "hello on TCP must carry the daemon's token");
        if (token && !is_token)
                return err_set(e, CLOCHE_E_UNAUTHORIZED, "the token of hello is not this daemon's");
        r = client->connection ? connection_known(client->connection, client->connection->caller.lane, e) : 0;
        if (r < 0)
                return r;
        client->is_greeted = 1;
        if (is_token) { /* its sandboxes are those of all who have the token, and so are its rights */
                client->principal = PRINCIPAL_TOKEN;
                client->peer_fd = -EBADF;
        }
        *ret = json_pack("{s:s, s:s, s:i, s:o, s:o*}", "server", "cloche", "version", CLOCHE_VERSION, "protocol", 1,
                         "missing", missing_guards(client->daemon->engine), "notice", notice(request));
        return not_packed(*ret, e);
}

static int languages(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        *ret = json_pack("{s:O}", "languages", request->client->daemon->languages.list);
        return not_packed(*ret, e);
}

static int guards(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        json_t *list = json_array();

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                const char *reason;
                enum cloche_guard_state state =
                        cloche_engine_guard(request->client->daemon->engine, (enum cloche_guard)g, &reason);

                json_array_append_new(list,
                                      json_pack("{s:s, s:s, s:s}", "name", cloche_guard_name((enum cloche_guard)g),
                                                "state", cloche_guard_state_name(state), "reason", reason));
        }
        *ret = json_pack("{s:o}", "guards", list);
        return not_packed(*ret, e);
}

static int stats(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        *ret = stats_object(request->client->daemon);
        return not_packed(*ret, e);
}

static int packages_list(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        *ret = json_pack("{s:o}", "layers",
                         sandboxes_layers(request->client->daemon->sandboxes, request->client->principal));
        return not_packed(*ret, e);
}

static int packages_delete(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        int r = sandboxes_layer_delete(request->client->daemon->sandboxes, request->client->principal,
                                       json_string_value(json_object_get(request->params, "layer")), e);

        *ret = r < 0 ? NULL : json_object();
        return r < 0 ? r : not_packed(*ret, e);
}

/* NULL: not available over frames. */
static int (*const handlers[OPERATION_COUNT])(const struct client_request *request, json_t **ret,
                                              struct cloche_err *e) = {
        [OPERATION_HELLO] = hello,
        [OPERATION_LANGUAGES] = languages,
        [OPERATION_GUARDS] = guards,
        [OPERATION_CALL] = run_begin,
        [OPERATION_SCRIPT] = run_begin,
        [OPERATION_EVALUATE] = run_begin,
        [OPERATION_CANCEL] = client_cancel,
        [OPERATION_HOLD] = client_hold,
        [OPERATION_PREFIX_CREATE] = prefix_create,
        [OPERATION_PREFIX_LIST] = prefix_list,
        [OPERATION_PREFIX_DISPOSE] = prefix_dispose,
        [OPERATION_SYNC] = changes_sync,
        [OPERATION_CHANGESET_DROP] = changes_drop,
        [OPERATION_STATS] = stats,
        [OPERATION_IMAGE_UPLOAD] = image_import,
        [OPERATION_IMAGE_IMPORT] = image_import,
        [OPERATION_IMAGE_LIST] = image_operate,
        [OPERATION_IMAGE_GET] = image_operate,
        [OPERATION_IMAGE_DELETE] = image_operate,
        [OPERATION_IMAGE_VERIFY] = image_operate,
        [OPERATION_IMAGE_PRUNE] = image_operate,
        [OPERATION_IMAGE_WARM] = image_warm,
        [OPERATION_PACKAGES_LIST] = packages_list,
        [OPERATION_PACKAGES_DELETE] = packages_delete,
        [OPERATION_MCP] = mcp_operate,
};

int operation_permit(const struct client_request *request, struct cloche_err *e)
{
        if (!request->client->is_greeted && request->operation->symbol != OPERATION_HELLO)
                return err_set(e, request->client->needs_token ? CLOCHE_E_UNAUTHORIZED : CLOCHE_E_STATE,
                               "the first request of a connection must be hello");
        return 0;
}

int operation_run(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        int r = operation_permit(request, e);

        if (r == 0)
                r = operation_check(request->operation, request->params, e);
        return r < 0 ? r : handlers[request->operation->symbol](request, ret, e);
}
