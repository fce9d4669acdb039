#include "web.h"
#include "auth.h"
#include "log.h"
#include "prefix.h"
#include "run.h"
#include "web-socket.h"

#include "base/clock.h"
#include "base/err.h"
#include "http/openapi.h"
#include "http/server.h"
#include "wire/base64.h"
#include "wire/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OUT_HIGH_BYTES (1u << 20)
#define OUT_LOW_BYTES (256u << 10)
#define JSON_TYPE "application/json"

/* One request: a client that asks once. */
struct web_ask {
        struct client client;
        struct http_request *request;
        const struct operation *operation;
        int is_stream; /* wanted; begun once a run is */
};

/* -- errors --------------------------------------------------------------------------------------------------- */

static const unsigned short statuses[CLOCHE_CODE_COUNT] = {
#define CLOCHE_ERROR(symbol, name, fault, http, text) [CLOCHE_E_##symbol] = http,
#include <cloche/errors.def>
#undef CLOCHE_ERROR
};

static char *error_text(const struct cloche_err *e, json_t *data)
{
        json_t *root = json_pack("{s:o}", "error", client_error(e, data));
        char *text = json_dumps(root, JSON_COMPACT);

        json_decref(root);
        return text;
}

static void refuse_with(struct http_request *request, unsigned status, const struct cloche_err *e, json_t *data)
{
        char *text = error_text(e, data);

        if (status == 401)
                http_add_header(request, "WWW-Authenticate", "Bearer");
        http_answer(request, status, JSON_TYPE, text ? text : "{}", text ? strlen(text) : 2);
        free(text);
}

static void refuse(struct http_request *request, const struct cloche_err *e)
{
        refuse_with(request, statuses[e->code] ? statuses[e->code] : 500, e, NULL);
}

/* -- the face of HTTP ----------------------------------------------------------------------------------------- */

static void hold(struct web_ask *ask)
{
        size_t size = http_stream_waiting(ask->request);
        int wanted = ask->client.is_held ? size > OUT_LOW_BYTES : size > OUT_HIGH_BYTES;

        if (wanted == ask->client.is_held)
                return;
        ask->client.is_held = wanted;
        run_client_hold(&ask->client, wanted);
}

static void web_result(struct client *client, const struct operation *operation, const json_t *id, const char *text, json_t *root)
{
        struct web_ask *ask = client->data;

        (void)id;
        (void)root;
        client->daemon->stats.bytes_written += strlen(text);
        if (!ask->is_stream) {
                http_answer(ask->request, operation->success, JSON_TYPE, text, strlen(text));
                return;
        }
        (void)http_stream_event(ask->request, "result", text);
        http_stream_end(ask->request);
}

static void web_fail(struct client *client, const json_t *id, const struct cloche_err *e, json_t *data)
{
        struct web_ask *ask = client->data;
        char *text;

        (void)id;
        client->daemon->stats.errors_total++;
        if (!ask->is_stream) {
                refuse_with(ask->request, statuses[e->code] ? statuses[e->code] : 500, e, data);
                return;
        }
        text = error_text(e, data);
        (void)http_stream_event(ask->request, "error", text ? text : "{}");
        free(text);
        http_stream_end(ask->request);
}

static void web_output(struct client *client, const json_t *id, int stream, const void *bytes, size_t size)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        struct web_ask *ask = client->data;
        char head[80];

        (void)id;
        snprintf(head, sizeof(head), "{\"stream\":\"%s\",\"data\":{\"$\":\"bytes\",\"b64\":\"", stream == 1 ? "stdout" : "stderr");
        if (buf_append(&text, head, strlen(head)) < 0 || base64_encode(&text, bytes, size) < 0 || buf_append(&text, "\"}}", 4) < 0 ||
            http_stream_event(ask->request, "output", text.data) < 0)
                log_event(LEVEL_WARNING, "output-lost", "{s:I, s:I}", "client", (json_int_t)client->number, "bytes", (json_int_t)size);
        client->daemon->stats.bytes_written += text.size;
        hold(ask);
}

static void web_tell(struct client *client, const json_t *id, const char *event, const char *about)
{
        struct web_ask *ask = client->data;

        (void)id;
        if (ask->is_stream && http_stream_event(ask->request, event, about) < 0)
                log_event(LEVEL_WARNING, "event-lost", "{s:I, s:s}", "client", (json_int_t)client->number, "name", event);
}

static const struct face face = {
        .name = "http",
        .result = web_result,
        .fail = web_fail,
        .output = web_output,
        .tell = web_tell,
};

/* -- who may ask ---------------------------------------------------------------------------------------------- */

static int is_address(const char *host, size_t size)
{
        return host[0] == '[' || strspn(host, "0123456789.") >= size;
}

/* A page of a site whose name was made to point here has that name in Host: only names that are ours are answered. */
static int check_host(const struct daemon_options *o, const char *host, struct cloche_err *e)
{
        size_t size = host ? (host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":")) : 0;

        if (size == 0)
                return err_set(e, CLOCHE_E_FORBIDDEN, "the header Host is missing");
        if (is_address(host, size) || (size == 9 && strncasecmp(host, "localhost", 9) == 0))
                return 0;
        for (unsigned i = 0; i < o->hosts.count; i++)
                if (strlen(o->hosts.names[i]) == size && strncasecmp(host, o->hosts.names[i], size) == 0)
                        return 0;
        return err_set(e, CLOCHE_E_FORBIDDEN, "the host \"%.*s\" is not one of this daemon's (--allow-host)",
                       (int)(size < 80 ? size : 80), host);
}

/* Browsers say which page asks; nothing else sends it. */
static int check_origin(const struct daemon_options *o, struct http_request *request, struct cloche_err *e)
{
        const char *origin = http_request_header(request, "Origin");

        if (!origin)
                return 0;
        for (unsigned i = 0; i < o->origins.count; i++)
                if (strcmp(origin, o->origins.names[i]) == 0) {
                        http_add_header(request, "Access-Control-Allow-Origin", o->origins.names[i]);
                        http_add_header(request, "Vary", "Origin");
                        return 0;
                }
        return err_set(e, CLOCHE_E_FORBIDDEN, "pages of \"%.80s\" may not ask here (--allow-origin)", origin);
}

static int has_token(const struct daemon_options *o, const struct http_request *request)
{
        const char *text = http_request_header(request, "Authorization");

        return text && strncasecmp(text, "Bearer ", 7) == 0 && auth_is_token_text(o, text + 7, strlen(text + 7));
}

static int check_token(const struct connection *c, const struct http_request *request, const struct operation *operation,
                       struct cloche_err *e)
{
        /* A browser's WebSocket cannot have the header: hello brings the token then. */
        if (!c->is_tcp || operation->symbol == OPERATION_HEALTH || operation->symbol == OPERATION_RPC ||
            has_token(&c->daemon->options, request))
                return 0;
        return err_set(e, CLOCHE_E_UNAUTHORIZED, "the header Authorization must be: Bearer, and the daemon's token");
}

/* A form on any page can post text; only a script that was permitted can post JSON. */
static int check_type(const struct http_request *request, const struct operation *operation, struct cloche_err *e)
{
        const char *type = http_request_header(request, "Content-Type");

        if (strcmp(operation->verb, "POST") != 0 || (type && strncasecmp(type, JSON_TYPE, 16) == 0 && strchr("; ", type[16])))
                return 0;
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the header Content-Type must be application/json");
}

/* -- a request's head ----------------------------------------------------------------------------------------- */

static void preflight(struct http_request *request)
{
        http_add_header(request, "Access-Control-Allow-Methods", "GET, POST, DELETE");
        http_add_header(request, "Access-Control-Allow-Headers", "Authorization, Content-Type");
        http_answer(request, 204, NULL, "", 0);
}

static void no_such_path(struct http_request *request, char *allowed)
{
        struct cloche_err e = {0};

        if (*allowed) {
                http_add_header(request, "Allow", allowed);
                err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "%.20s is not for this path, expected %.60s", http_request_verb(request), allowed);
                refuse_with(request, 405, &e, NULL);
                return;
        }
        err_set(&e, CLOCHE_E_NOT_FOUND, "there is nothing at %.100s (GET /openapi.json tells what there is)", http_request_path(request));
        refuse(request, &e);
}

static void on_head(void *data, struct http_request *request)
{
        struct daemon *d = data;
        const struct connection *c = http_request_socket_data(request);
        const struct operation *operation;
        struct cloche_err e = {0};
        char allowed[64];
        json_t *params = NULL;
        int r = c->is_tcp ? check_host(&d->options, http_request_header(request, "Host"), &e) : 0;

        if (r == 0)
                r = check_origin(&d->options, request, &e);
        if (r < 0) {
                refuse(request, &e);
                return;
        }
        if (strcmp(http_request_verb(request), "OPTIONS") == 0 && http_request_header(request, "Origin")) {
                preflight(request);
                return;
        }
        operation = operation_by_path(http_request_verb(request), http_request_path(request), &params, allowed, sizeof(allowed));
        json_decref(params);
        if (!operation) {
                no_such_path(request, allowed);
                return;
        }
        r = check_token(c, request, operation, &e);
        if (r == 0)
                r = check_type(request, operation, &e);
        if (r < 0)
                refuse(request, &e);
}

/* -- a request whole ------------------------------------------------------------------------------------------ */

static int read_params(const struct web_ask *ask, json_t *from_path, json_t **ret, struct cloche_err *e)
{
        const struct buf *body = http_request_body(ask->request);
        json_t *params = NULL;
        int r;

        if (strcmp(ask->operation->verb, "POST") != 0) {
                if (body->size > 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s %.80s takes no body", ask->operation->verb, ask->operation->path);
                *ret = from_path ? json_incref(from_path) : json_object();
                return 0;
        }
        r = json_load_human(body->data ? body->data : "", body->size, &params, e);
        if (r < 0)
                return err_wrap(e, "body");
        if (!json_is_object(params)) {
                json_decref(params);
                return err_set(e, CLOCHE_E_INVALID_JSON, "the body must be a JSON object");
        }
        *ret = params;
        return 0;
}

static void set_stream(struct web_ask *ask, json_t *params)
{
        const char *accept = http_request_header(ask->request, "Accept");
        const json_t *said = json_object_get(params, "stream");
        int is_run = ask->operation->symbol == OPERATION_CALL || ask->operation->symbol == OPERATION_SCRIPT ||
                     ask->operation->symbol == OPERATION_EVALUATE;

        ask->is_stream = is_run && accept && strstr(accept, "text/event-stream");
        if (is_run && (!said || json_is_boolean(said))) /* else it is refused like any other field */
                json_object_set_new(params, "stream", json_boolean(ask->is_stream));
}

static void perform(struct web_ask *ask, json_t *from_path)
{
        struct ask what = {.client = &ask->client, .operation = ask->operation, .bytes = http_request_body(ask->request)->size};
        int is_stream;
        struct cloche_err e = {0};
        json_t *params = NULL, *result = NULL;
        char *text;
        int r = read_params(ask, from_path, &params, &e);

        if (r == 0) {
                set_stream(ask, params);
                what.params = params;
                is_stream = ask->is_stream;
                ask->is_stream = 0; /* what is refused at once is refused with a status */
                r = operation_run(&what, &result, &e);
                ask->is_stream = is_stream;
        }
        json_decref(params);
        if (r == 1 && ask->is_stream)
                http_stream(ask->request);
        if (r == 0) {
                text = json_dumps(result, JSON_COMPACT);
                web_result(&ask->client, ask->operation, NULL, text ? text : "{}", NULL);
                free(text);
        }
        json_decref(result);
        if (r < 0) {
                ask->is_stream = 0;
                web_fail(&ask->client, NULL, &e, NULL);
        }
}

static void health(const struct daemon *d, struct http_request *request)
{
        const char *text = d->is_stopping ? "{\"status\":\"stopping\"}" : "{\"status\":\"ok\"}";

        http_answer(request, d->is_stopping ? 503 : 200, JSON_TYPE, text, strlen(text));
}

static void metrics(const struct daemon *d, struct http_request *request)
{
        struct cloche_err e = {0};
        struct buf text;

        if (stats_text(d, &text) == 0) {
                http_answer(request, 200, "text/plain; version=0.0.4", text.data, text.size);
        } else {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "write the metrics");
                refuse(request, &e);
        }
        buf_done(&text);
}

static void openapi(struct http_request *request)
{
        json_t *document = openapi_document();
        char *text = json_dumps(document, JSON_COMPACT);

        http_answer(request, text ? 200 : 500, JSON_TYPE, text ? text : "{}", text ? strlen(text) : 2);
        free(text);
        json_decref(document);
}

static void begin(struct daemon *d, struct http_request *request, const struct operation *operation, json_t *from_path)
{
        const struct connection *c = http_request_socket_data(request);
        struct web_ask *ask = calloc(1, sizeof(*ask));
        struct cloche_err e = {0};

        if (!ask) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "take a request");
                refuse(request, &e);
                return;
        }
        client_init(&ask->client, d, &face, c->principal);
        ask->client.data = ask;
        ask->client.is_greeted = 1;
        ask->request = request;
        ask->operation = operation;
        http_request_set_data(request, ask);
        perform(ask, from_path);
}

static void on_request(void *data, struct http_request *request)
{
        struct daemon *d = data;
        const struct connection *c = http_request_socket_data(request);
        json_t *from_path = NULL;
        char allowed[64];
        const struct operation *operation =
                operation_by_path(http_request_verb(request), http_request_path(request), &from_path, allowed, sizeof(allowed));
        struct cloche_err e = {0};

        d->stats.requests_total++;
        d->stats.bytes_read += http_request_body(request)->size;
        if (operation->symbol == OPERATION_HEALTH)
                health(d, request);
        else if (operation->symbol == OPERATION_METRICS)
                metrics(d, request);
        else if (operation->symbol == OPERATION_OPENAPI)
                openapi(request);
        else if (operation->symbol != OPERATION_RPC)
                begin(d, request, operation, from_path);
        else if (web_socket_open(d, request, c->principal, c->is_tcp && !has_token(&d->options, request), &e) < 0)
                refuse(request, &e);
        json_decref(from_path);
}

static void on_over(void *data, struct http_request *request)
{
        struct web_ask *ask = http_request_data(request);

        (void)data;
        if (!ask)
                return;
        http_request_set_data(request, NULL);
        client_done(&ask->client);
        free(ask);
}

static void on_taken(void *data, struct http_request *request, size_t size)
{
        struct web_ask *ask = http_request_data(request);

        (void)data;
        (void)size;
        if (ask)
                hold(ask);
}

static void on_closed(void *data, void *socket_data)
{
        (void)data;
        connection_over(socket_data);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

int web_start(struct daemon *d, struct cloche_err *e)
{
        const struct http_options opt = {
                .loop = &d->loop,
                .tls_certificate = d->options.tls_certificate,
                .tls_key = d->options.tls_key,
                .body_bytes_max = d->options.body_bytes_max,
                .connections_max = (unsigned)d->options.connections_max,
                .on_head = on_head,
                .on_request = on_request,
                .on_over = on_over,
                .on_taken = on_taken,
                .on_closed = on_closed,
                .data = d,
        };

        return http_server_new(&opt, &d->http, e);
}

void web_take(struct connection *c, int fd, int is_tls)
{
        struct cloche_err e = {0};

        if (http_server_take(c->daemon->http, fd, is_tls, c, &e) < 0)
                log_event(LEVEL_WARNING, "connection-refused", "{s:s}", "why", e.msg);
}

void web_stop(struct daemon *d)
{
        http_server_free(d->http);
        d->http = NULL;
}
