/* HTTP and WebSocket: from a path to its handler. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "web.h"
#include "access.h"
#include "daemon/container/container.h"
#include "daemon/core/log.h"
#include "daemon/e2b/e2b.h"
#include "daemon/jupyter/gateway.h"
#include "daemon/mcp/mcp.h"
#include "daemon/preview/preview.h"
#include "image-body.h"
#include "request.h"
#include "sandbox-raw.h"
#include "sandbox-socket.h"
#include "socket.h"
#include "terminal.h"

#include "base/clock.h"
#include "base/err.h"
#include "daemon/http/openapi.h"
#include "daemon/http/query.h"
#include "daemon/http/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define JSON_TYPE "application/json"
#define SANDBOXES "/v1/sandboxes/"
#define CONTAINER "/container"
#define NAME_MAX_SIZE 63
#define STRANGER_BYTES_MAX (64u << 10) /* of the body of a request without a token, to an operation that needs none */

/* -- the container API ---------------------------------------------------------------------------------------- */

/* The rule of spec/sandbox.md. The core checks it too, but some answers of the container API do not
 * involve the core. */
static int is_name(const char *name, size_t size)
{
        if (size == 0 || size > NAME_MAX_SIZE || name[0] == '-' || name[size - 1] == '-')
                return 0;
        return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") >= size;
}

/* True if a request is for the container API: it came by such a listener, or its path is below a
 * sandbox's. *ret_path: after the base. *ret_name: owned by the caller. */
static int is_container(const struct connection *c, const char *path, char **ret_name, const char **ret_path)
{
        size_t size;

        if (c->entrance.kind == ENTRANCE_CONTAINER) {
                *ret_name = strdup(c->entrance.sandbox);
                *ret_path = path;
                return *ret_name != NULL;
        }
        if (strncmp(path, SANDBOXES, sizeof(SANDBOXES) - 1) != 0)
                return 0;
        path += sizeof(SANDBOXES) - 1;
        size = strcspn(path, "/");
        if (!is_name(path, size) || strncmp(path + size, CONTAINER, sizeof(CONTAINER) - 1) != 0)
                return 0;
        *ret_path = path + size + sizeof(CONTAINER) - 1;
        if (**ret_path != '/' && **ret_path != '\0')
                return 0;
        *ret_name = strndup(path, size);
        *ret_path = **ret_path ? *ret_path : "/";
        return *ret_name != NULL;
}

static int comes_from_page(const struct http_request *request)
{
        return strcmp(http_request_verb(request), "OPTIONS") == 0 && http_request_header(request, "Origin");
}

/* Admit a request. On TCP some requests need no token, and leave the caller unknown: hello or
 * another request must follow. */
static int let_in(struct connection *c, struct http_request *request, struct cloche_err *e)
{
        if (!c->is_tcp || c->entrance.kind == ENTRANCE_CONTAINER || web_has_token(&c->daemon->options, request))
                return connection_known(c, c->caller.lane, e);
        http_body_limit(request, STRANGER_BYTES_MAX);
        caller_renew(&c->daemon->callers, &c->caller, clock_now_ns());
        return 0;
}

static int is_mcp(const struct connection *c, const struct http_request *request)
{
        return c->entrance.kind == ENTRANCE_DAEMON && mcp_is_path(c->daemon, http_request_path(request));
}

static int is_gateway(const struct connection *c, const struct http_request *request)
{
        return c->entrance.kind == ENTRANCE_DAEMON && gateway_is_path(c->daemon, http_request_path(request));
}

/* Refuse in the format of the API of the request. */
static void refuse(struct http_request *request, unsigned status, const struct cloche_err *e)
{
        const struct connection *c = http_request_socket_data(request);
        const char *path;
        char *name = NULL;

        if (c->entrance.kind == ENTRANCE_E2B)
                e2b_refuse_request(request, status, e);
        else if (is_mcp(c, request))
                mcp_refuse_request(request, status, e);
        else if (is_gateway(c, request))
                gateway_refuse_request(request, status, e);
        else if (is_container(c, http_request_path(request), &name, &path))
                container_refuse_request(request, status, e);
        else
                web_refuse_with(request, status, e, NULL);
        free(name);
}

static void on_refused(void *data, struct http_request *request, unsigned status, enum cloche_code code,
                       const char *message)
{
        struct cloche_err e = {0};

        (void)data;
        err_set(&e, code, "%s", message);
        refuse(request, status, &e);
}

static void container_head(struct connection *c, struct http_request *request, const char *sandbox, const char *path)
{
        struct cloche_err e = {0};
        int r = 0;

        if (c->entrance.kind != ENTRANCE_CONTAINER && !comes_from_page(request))
                r = web_check_token(c, request, operation_at(OPERATION_STATS), &e);
        if (r == 0)
                r = let_in(c, request, &e);
        if (r < 0) {
                refuse(request, web_status(&e), &e);
        } else if (container_takes_head(request, path)) {
                c->daemon->stats.requests_total++;
                container_handle(c->daemon, request, c->principal, sandbox, path);
        }
}

/* -- the E2B API ----------------------------------------------------------------------------------------------- */

/* Hosts of ports are PORT-ID.localhost. */
static const char *without_port_label(const char *host)
{
        size_t digits = host ? strspn(host, "0123456789") : 0;
        const char *dot = digits > 0 && host[digits] == '-' ? strchr(host, '.') : NULL;

        return dot ? dot + 1 : host;
}

static void e2b_head(struct connection *c, struct http_request *request)
{
        struct cloche_err e = {0};
        int r = web_check_host(&c->daemon->options, without_port_label(http_request_header(request, "Host")), &e);

        if (r == 0)
                r = web_check_origin(&c->daemon->options, request, &e);
        if (r == 0 && e2b_is_known(c->daemon, request))
                r = connection_known(c, c->caller.lane, &e);
        else if (r == 0)
                http_body_limit(request, STRANGER_BYTES_MAX);
        if (r < 0) {
                refuse(request, web_status(&e), &e);
        } else if (e2b_takes_head(request)) {
                c->daemon->stats.requests_total++;
                e2b_handle(c->daemon, request, PRINCIPAL_TOKEN);
        }
}

/* -- the MCP API ----------------------------------------------------------------------------------------------- */

static void mcp_head(struct connection *c, struct http_request *request)
{
        struct cloche_err e = {0};
        int r = web_check_token(c, request, operation_at(OPERATION_MCP), &e);

        if (r == 0)
                r = let_in(c, request, &e);
        if (r < 0)
                refuse(request, web_status(&e), &e);
}

/* -- the gateway of Jupyter ------------------------------------------------------------------------------------ */

static void gateway_head(struct connection *c, struct http_request *request)
{
        struct cloche_err e = {0};
        int r = !c->is_tcp || gateway_has_token(c->daemon, request)
                        ? connection_known(c, c->caller.lane, &e)
                        : err_set(&e, CLOCHE_E_UNAUTHORIZED,
                                  "the header Authorization must be token TOKEN, with the daemon's token");

        if (r < 0)
                refuse(request, web_status(&e), &e);
}

/* -- request heads -------------------------------------------------------------------------------------------- */

static void preflight(struct http_request *request)
{
        http_add_header(request, "Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE");
        http_add_header(request, "Access-Control-Allow-Headers",
                        "Authorization, Content-Type, Range, MCP-Protocol-Version, Mcp-Method, Mcp-Name, "
                        "Mcp-Param-Sandbox, "
                        "Mcp-Session-Id");
        http_answer(request, 204, NULL, "", 0);
}

static void no_such_path(struct http_request *request, const char *allowed)
{
        struct cloche_err e = {0};

        if (*allowed) {
                http_add_header(request, "Allow", allowed);
                err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "the method %.20s is not supported at this path, expected %.60s",
                        http_request_verb(request), allowed);
                web_refuse_with(request, 405, &e, NULL);
                return;
        }
        err_set(&e, CLOCHE_E_NOT_FOUND, "there is nothing at %.100s (GET /openapi.json lists the paths)",
                http_request_path(request));
        web_refuse(request, &e);
}

static int is_raw(enum operation_symbol symbol)
{
        return symbol == OPERATION_RAW_GET || symbol == OPERATION_RAW_PUT || symbol == OPERATION_TREE_GET ||
               symbol == OPERATION_TREE_PUT || symbol == OPERATION_IMAGE_PUT;
}

/* Read path and query, checked by the table. */
static int read_address(const struct http_request *request, const struct operation *operation, const json_t *from_path,
                        json_t **ret, struct cloche_err *e)
{
        int r = query_parse(http_request_query(request), ret, e);

        if (r == 0)
                r = operation_read_query(operation, *ret, e);
        if (r == 0)
                json_object_update(*ret, (json_t *)from_path);
        return r < 0 ? r : operation_check(operation, *ret, e);
}

static void begin_raw(struct daemon *d, struct http_request *request, const struct operation *operation,
                      const json_t *from_path)
{
        const struct connection *c = http_request_socket_data(request);
        struct cloche_err e = {0};
        json_t *params = NULL;
        int r = read_address(request, operation, from_path, &params, &e);

        d->stats.requests_total++;
        if (r == 0)
                r = operation->symbol == OPERATION_IMAGE_PUT
                            ? image_body_begin(d, request, c->principal, params, &e)
                            : sandbox_raw_begin(d, request, c->principal, operation, params, &e);
        if (r < 0)
                web_refuse(request, &e);
        json_decref(params);
}

static void operation_head(struct daemon *d, struct http_request *request)
{
        struct connection *c = http_request_socket_data(request);
        struct cloche_err e = {0};
        json_t *params = NULL;
        char allowed[64];
        const struct operation *operation = operation_by_path(http_request_verb(request), http_request_path(request),
                                                              &params, allowed, sizeof(allowed));
        int r = operation ? web_check_token(c, request, operation, &e) : 0;

        if (operation && r == 0)
                r = web_check_type(request, operation, &e);
        if (operation && r == 0)
                r = let_in(c, request, &e);
        if (!operation)
                no_such_path(request, allowed);
        else if (r < 0)
                web_refuse(request, &e);
        else if (is_raw(operation->symbol))
                begin_raw(d, request, operation, params);
        json_decref(params);
}

static void on_head(void *data, struct http_request *request)
{
        struct daemon *d = data;
        struct connection *c = http_request_socket_data(request);
        const char *host = http_request_header(request, "Host"), *path;
        struct cloche_err e = {0};
        char *name = NULL;
        int r;

        if (c->entrance.kind == ENTRANCE_E2B) {
                e2b_head(c, request);
                return;
        }
        /* These host names are only for previews: none of our paths is served under them. */
        if (c->entrance.kind != ENTRANCE_CONTAINER && preview_is_host(&d->options, host)) {
                preview_begin(d, request, host);
                return;
        }
        r = c->is_tcp ? web_check_host(&d->options, host, &e) : 0;
        if (r == 0)
                r = web_check_origin(&d->options, request, &e);
        if (r < 0)
                refuse(request, web_status(&e), &e);
        else if (is_container(c, http_request_path(request), &name, &path))
                container_head(c, request, name, path);
        else if (comes_from_page(request))
                preflight(request);
        else if (is_mcp(c, request))
                mcp_head(c, request);
        else if (is_gateway(c, request))
                gateway_head(c, request);
        else
                operation_head(d, request);
        free(name);
}

/* -- complete requests ---------------------------------------------------------------------------------------- */

static void health(const struct daemon *d, struct http_request *request)
{
        const char *text = d->state != DAEMON_RUNNING ? "{\"status\":\"stopping\"}" : "{\"status\":\"ok\"}";

        http_answer(request, d->state != DAEMON_RUNNING ? 503 : 200, JSON_TYPE, text, strlen(text));
}

static void metrics(const struct daemon *d, struct http_request *request)
{
        struct cloche_err e = {0};
        struct buf text;

        if (stats_text(d, &text) == 0) {
                http_answer(request, 200, "text/plain; version=0.0.4", text.data, text.size);
        } else {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "write the metrics");
                web_refuse(request, &e);
        }
        buf_done(&text);
}

/* Open a WebSocket for a terminal, or for a request that gets its parameters in a message. */
static int open_socket(struct daemon *d, struct http_request *request, const struct operation *operation,
                       const json_t *from_path, struct cloche_err *e)
{
        const struct connection *c = http_request_socket_data(request);
        const char *name = json_string_value(json_object_get(from_path, "sandbox"));
        json_t *params = NULL;
        int r = read_address(request, operation, from_path, &params, e);

        if (r == 0 && operation->symbol == OPERATION_TERMINAL)
                r = terminal_open_params(d, request, c->principal, params, e);
        else if (r == 0)
                r = sandbox_socket_open(d, request, c->principal, name,
                                        operation_at(operation->symbol == OPERATION_EXEC_SOCKET
                                                             ? OPERATION_SANDBOX_EXEC
                                                             : OPERATION_SANDBOX_PROCESS_FOLLOW),
                                        e);
        json_decref(params);
        return r;
}

static void perform(struct daemon *d, struct http_request *request, const struct operation *operation,
                    const json_t *from_path)
{
        const struct connection *c = http_request_socket_data(request);
        struct cloche_err e = {0};
        int r = 0;

        if (operation->symbol == OPERATION_HEALTH)
                health(d, request);
        else if (operation->symbol == OPERATION_METRICS)
                metrics(d, request);
        else if (operation->symbol == OPERATION_OPENAPI)
                web_answer(request, 200, json_loads(openapi_document, 0, NULL));
        else if (operation->symbol == OPERATION_RPC)
                r = web_socket_open(d, request, c->principal, c->peer_fd,
                                    c->is_tcp && !web_has_token(&d->options, request), &e);
        else if (operation->success == 101)
                r = open_socket(d, request, operation, from_path, &e);
        else
                web_request_begin(d, request, c->principal, c->peer_fd, operation, from_path);
        if (r < 0)
                web_refuse(request, &e);
}

static void on_request(void *data, struct http_request *request)
{
        struct daemon *d = data;
        const struct connection *c = http_request_socket_data(request);
        const struct operation *operation;
        const char *path;
        json_t *from_path = NULL;
        char allowed[64], *name = NULL;

        d->stats.requests_total++;
        d->stats.bytes_read += http_request_body(request)->size;
        if (c->entrance.kind == ENTRANCE_E2B) {
                e2b_handle(d, request, PRINCIPAL_TOKEN);
        } else if (is_mcp(c, request)) {
                mcp_handle(d, request, c->principal);
        } else if (is_gateway(c, request)) {
                gateway_handle(d, request, c->principal);
        } else if (is_container(c, http_request_path(request), &name, &path)) {
                container_handle(d, request, c->principal, name, path);
        } else {
                operation = operation_by_path(http_request_verb(request), http_request_path(request), &from_path,
                                              allowed, sizeof(allowed));
                perform(d, request, operation, from_path);
        }
        json_decref(from_path);
        free(name);
}

static void on_closed(void *data, void *socket_data)
{
        (void)data;
        connection_on_closed(socket_data);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

int web_start(struct daemon *d, struct cloche_err *e)
{
        const struct http_options opt = {
                .loop = &d->loop,
                .tls_certificate = d->options.tls_certificate,
                .tls_key = d->options.tls_key,
                .body_bytes_max = d->options.body_bytes_max,
                .connections_max = LANE_COUNT * ((unsigned)d->options.connections_max + d->callers.strangers_max),
                .on_head = on_head,
                .on_request = on_request,
                .on_refused = on_refused,
                .on_closed = on_closed,
                .data = d,
        };
        int r = container_start(d, e);

        if (r == 0 && d->options.e2b_listen.count > 0)
                r = e2b_start(d, e);
        return r < 0 ? r : http_server_new(&opt, &d->http, e);
}

void web_take(struct connection *c, int fd, int is_tls)
{
        struct cloche_err e = {0};

        if (http_server_take(c->daemon->http, fd, is_tls, c, &c->web, &e) < 0)
                log_event(LEVEL_WARNING, "connection-refused", "{s:s}", "why", e.msg);
}

void web_stop(struct daemon *d)
{
        http_server_free(d->http);
        d->http = NULL;
        e2b_stop(d);
        container_stop(d);
}
