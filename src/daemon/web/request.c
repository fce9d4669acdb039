#include "request.h"
#include "daemon/core/log.h"
#include "daemon/core/sandbox-request.h"
#include "daemon/run/request.h"
#include "daemon/run/run.h"

#include "base/err.h"
#include "wire/base64.h"
#include "wire/json.h"
#include "wire/value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_HIGH_BYTES (1u << 20)
#define OUT_LOW_BYTES (256u << 10)
#define JSON_TYPE "application/json"

/* One request: a client with a single operation. */
struct web_ask {
        struct client client;
        struct http_request *request;
        const struct operation *operation;
        int is_stream; /* requested; it begins when a run starts */
};

/* -- errors --------------------------------------------------------------------------------------------------- */

static const unsigned short statuses[CLOCHE_CODE_COUNT] = {
#define CLOCHE_ERROR(symbol, name, fault, http, text) [CLOCHE_E_##symbol] = http,
#include <cloche/errors.def>
#undef CLOCHE_ERROR
};

char *web_error_text(const struct cloche_err *e, json_t *data)
{
        json_t *root = json_pack("{s:o}", "error", client_error(e, data));
        char *text = json_dump_text(root, JSON_COMPACT);

        json_decref(root);
        return text;
}

void web_refuse_with(struct http_request *request, unsigned status, const struct cloche_err *e, json_t *data)
{
        char *text = web_error_text(e, data);

        if (status == 401)
                http_add_header(request, "WWW-Authenticate", "Bearer");
        http_answer(request, status, JSON_TYPE, text ? text : "{}", text ? strlen(text) : 2);
        free(text);
}

unsigned web_status(const struct cloche_err *e)
{
        return statuses[e->code] ? statuses[e->code] : 500;
}

void web_refuse(struct http_request *request, const struct cloche_err *e)
{
        web_refuse_with(request, web_status(e), e, NULL);
}

void web_answer(struct http_request *request, unsigned status, json_t *object)
{
        char *text = json_dump_text(object, JSON_COMPACT);

        http_answer(request, text ? status : 500, JSON_TYPE, text ? text : "{}", text ? strlen(text) : 2);
        free(text);
        json_decref(object);
}

/* -- answers over HTTP ---------------------------------------------------------------------------------------- */

static void hold(struct web_ask *ask)
{
        size_t size = http_stream_waiting(ask->request);
        int wanted = ask->client.is_held ? size > OUT_LOW_BYTES : size > OUT_HIGH_BYTES;

        if (wanted == ask->client.is_held)
                return;
        ask->client.is_held = wanted;
        run_client_hold(&ask->client, wanted);
        sandbox_client_hold(&ask->client);
}

static void web_fail(struct client *client, const json_t *id, const struct cloche_err *e, json_t *data)
{
        struct web_ask *ask = client->data;
        char *text;

        (void)id;
        client->daemon->stats.errors_total++;
        if (!ask->is_stream) {
                web_refuse_with(ask->request, web_status(e), e, data);
                return;
        }
        text = web_error_text(e, data);
        (void)http_stream_event(ask->request, "error", text ? text : "{}");
        free(text);
        http_stream_end(ask->request);
}

static void web_result(struct client *client, const struct operation *operation, const json_t *id, const json_t *result)
{
        struct web_ask *ask = client->data;
        char *text = value_dump(result, JSON_COMPACT);
        struct cloche_err e;

        if (!text) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
                web_fail(client, id, &e, NULL);
                return;
        }
        client->daemon->stats.bytes_written += strlen(text);
        if (ask->is_stream) {
                (void)http_stream_event(ask->request, "result", text);
                http_stream_end(ask->request);
        } else {
                http_answer(ask->request, operation->success, JSON_TYPE, text, strlen(text));
        }
        free(text);
}

static void web_output(struct client *client, const json_t *id, int stream, const void *bytes, size_t size)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        struct web_ask *ask = client->data;
        char head[80];

        (void)id;
        snprintf(head, sizeof(head), "{\"stream\":\"%s\",\"data\":{\"$\":\"bytes\",\"b64\":\"",
                 stream == 1 ? "stdout" : "stderr");
        if (buf_append(&text, head, strlen(head)) < 0 || base64_encode(&text, bytes, size) < 0 ||
            buf_append(&text, "\"}}", 4) < 0 || http_stream_event(ask->request, "output", text.data) < 0)
                log_event(LEVEL_WARNING, "output-lost", "{s:I, s:I}", "client", (json_int_t)client->number, "bytes",
                          (json_int_t)size);
        client->daemon->stats.bytes_written += text.size;
        hold(ask);
}

static void web_tell(struct client *client, const json_t *id, const char *event, const char *about)
{
        struct web_ask *ask = client->data;

        (void)id;
        if (ask->is_stream && http_stream_event(ask->request, event, about) < 0)
                log_event(LEVEL_WARNING, "event-lost", "{s:I, s:s}", "client", (json_int_t)client->number, "name",
                          event);
}

static void web_event(struct client *client, const json_t *id, const char *event, const json_t *about,
                      const struct buf *attachments)
{
        struct web_ask *ask = client->data;
        json_t *said = ask->is_stream ? sandbox_to_text(about, attachments) : NULL;
        char *text = said ? json_dump_text(said, JSON_COMPACT) : NULL;

        (void)id;
        if (ask->is_stream && (!text || http_stream_event(ask->request, event, text) < 0))
                log_event(LEVEL_WARNING, "event-lost", "{s:I, s:s}", "client", (json_int_t)client->number, "name",
                          event);
        client->daemon->stats.bytes_written += text ? strlen(text) : 0;
        json_decref(said);
        free(text);
        hold(ask);
}

static void web_sandbox_answer(struct client *client, const struct operation *operation, const json_t *id,
                               const json_t *result, const struct buf *attachments)
{
        struct cloche_err e = {0};
        json_t *said = sandbox_to_text(result, attachments);

        if (!said)
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
        if (said)
                web_result(client, operation, id, said);
        else
                web_fail(client, id, &e, NULL);
        json_decref(said);
}

static const struct face face = {
        .name = "http",
        .result = web_result,
        .fail = web_fail,
        .output = web_output,
        .tell = web_tell,
        .event = web_event,
        .answer = web_sandbox_answer,
};

/* -- complete requests ---------------------------------------------------------------------------------------- */

static int read_body(const struct web_ask *ask, json_t **ret, struct cloche_err *e)
{
        const struct buf *body = http_request_body(ask->request);
        int r;

        *ret = NULL;
        if (!operation_has_json(ask->operation) && body->size > 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s %.80s takes no body", ask->operation->verb,
                               ask->operation->path);
        if (!operation_has_json(ask->operation) || (ask->operation->is_sandbox && body->size == 0)) {
                *ret = json_object();
                return 0;
        }
        r = json_load_human(body->data ? body->data : "", body->size, ret, e);
        if (r < 0)
                return err_wrap(e, "body");
        return json_is_object(*ret) ? 0 : err_set(e, CLOCHE_E_INVALID_JSON, "the body must be a JSON object");
}

static int read_params(const struct web_ask *ask, const json_t *from_path, json_t **ret, struct cloche_err *e)
{
        const char *key;
        json_t *value;
        int r = read_body(ask, ret, e);

        if (r < 0)
                return r;
        json_object_foreach ((json_t *)from_path, key, value) {
                if (json_object_get(*ret, key))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "\"%.60s\" stands in the path, and must not stand in the body", key);
                json_object_set(*ret, key, value);
        }
        return 0;
}

static int has_stream(const struct operation *operation)
{
        return operation->symbol == OPERATION_CALL || operation->symbol == OPERATION_SCRIPT ||
               operation->symbol == OPERATION_EVALUATE || operation->symbol == OPERATION_SANDBOX_EXEC ||
               operation->symbol == OPERATION_SANDBOX_CONTEXT_RUN;
}

static void set_stream(struct web_ask *ask, json_t *params)
{
        const char *accept = http_request_header(ask->request, "Accept");
        const json_t *said = json_object_get(params, "stream");
        int can = has_stream(ask->operation);

        ask->is_stream = (can || ask->operation->is_stream) && accept && strstr(accept, "text/event-stream");
        if (can && (!said || json_is_boolean(said))) /* else it is refused like any other field */
                json_object_set_new(params, "stream", json_boolean(ask->is_stream));
}

static int ask_sandbox(struct ask *what, struct cloche_err *e)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        json_t *params = NULL;
        int r = value_write(what->params, VALUE_FRAME, &attachments, &params, e);

        what->params = params;
        if (r == 0)
                r = sandbox_begin(what, &attachments, e);
        json_decref(params);
        return r;
}

static void perform(struct web_ask *ask, const json_t *from_path)
{
        struct ask what = {.client = &ask->client,
                           .operation = ask->operation,
                           .bytes = http_request_body(ask->request)->size};
        int is_stream;
        struct cloche_err e = {0};
        json_t *said = NULL, *params = NULL, *result = NULL;
        int r = read_params(ask, from_path, &said, &e);

        if (r == 0)
                r = request_hold_params(said, VALUE_TEXT, NULL, 0, &params, &e);
        json_decref(said);
        if (r == 0) {
                set_stream(ask, params);
                what.params = params;
                is_stream = ask->is_stream;
                ask->is_stream = 0; /* an immediate error is sent as an HTTP status */
                r = ask->operation->is_sandbox ? ask_sandbox(&what, &e) : operation_run(&what, &result, &e);
                ask->is_stream = is_stream;
        }
        json_decref(params);
        if (r == 1 && ask->is_stream)
                http_stream(ask->request);
        if (r == 0)
                web_result(&ask->client, ask->operation, NULL, result);
        json_decref(result);
        if (r < 0) {
                ask->is_stream = 0;
                web_fail(&ask->client, NULL, &e, NULL);
        }
}

/* -- life ----------------------------------------------------------------------------------------------------- */

static void on_over(void *data)
{
        struct web_ask *ask = data;

        client_done(&ask->client);
        free(ask);
}

static void on_taken(void *data)
{
        hold(data);
}

static const struct http_handler handler = {.on_over = on_over, .on_taken = on_taken};

void web_ask_begin(struct daemon *d, struct http_request *request, int64_t principal, int peer_fd,
                   const struct operation *operation, const json_t *from_path)
{
        struct web_ask *ask = calloc(1, sizeof(*ask));
        struct cloche_err e = {0};

        if (!ask) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "take a request");
                web_refuse(request, &e);
                return;
        }
        client_init(&ask->client, d, &face, principal, peer_fd);
        ask->client.data = ask;
        ask->client.is_greeted = 1;
        ask->request = request;
        ask->operation = operation;
        http_request_handle(request, &handler, ask);
        perform(ask, from_path);
}
