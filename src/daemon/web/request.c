/* Operations over HTTP, and all HTTP errors. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "request.h"
#include "daemon/core/log.h"
#include "daemon/core/sandbox-request.h"
#include "daemon/http/query.h"
#include "daemon/images/names.h"
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
struct web_request {
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

/* Return {"error": …} as text, owned by the caller; NULL: out of memory. data: further members of
 * the error, stolen, or NULL. */
static char *error_text(const struct cloche_err *e, json_t *data)
{
        json_t *root = json_pack("{s:o}", "error", client_error(e, data));
        char *text = json_dump_text(root, JSON_COMPACT);

        json_decref(root);
        return text;
}

void web_refuse_with(struct http_request *request, unsigned status, const struct cloche_err *e, json_t *data)
{
        char *text = error_text(e, data);

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

static void hold(struct web_request *web)
{
        size_t size = http_stream_waiting(web->request);
        int wanted = web->client.is_held ? size > OUT_LOW_BYTES : size > OUT_HIGH_BYTES;

        if (wanted == web->client.is_held)
                return;
        client_hold_all(&web->client, wanted);
}

static void web_fail(struct client *client, const json_t *id, const struct cloche_err *e, json_t *data)
{
        struct web_request *web = client->data;
        char *text;

        (void)id;
        client->daemon->stats.errors_total++;
        if (!web->is_stream) {
                web_refuse_with(web->request, web_status(e), e, data);
                return;
        }
        text = error_text(e, data);
        (void)http_stream_event(web->request, "error", text ? text : "{}");
        free(text);
        http_stream_end(web->request);
}

static void web_result(struct client *client, const struct operation *operation, const json_t *id, const json_t *result)
{
        struct web_request *web = client->data;
        char *text = value_dump(result, JSON_COMPACT);
        struct cloche_err e;

        if (!text) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
                web_fail(client, id, &e, NULL);
                return;
        }
        client->daemon->stats.bytes_written += strlen(text);
        if (web->is_stream) {
                (void)http_stream_event(web->request, "result", text);
                http_stream_end(web->request);
        } else {
                http_answer(web->request, operation->success, JSON_TYPE, text, strlen(text));
        }
        free(text);
}

static void web_output(struct client *client, const json_t *id, int stream, const void *bytes, size_t size)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        struct web_request *web = client->data;
        char head[80];

        (void)id;
        snprintf(head, sizeof(head), "{\"stream\":\"%s\",\"data\":{\"$\":\"bytes\",\"b64\":\"",
                 stream == 1 ? "stdout" : "stderr");
        if (buf_append(&text, head, strlen(head)) < 0 || base64_encode(&text, bytes, size) < 0 ||
            buf_append(&text, "\"}}", 4) < 0 || http_stream_event(web->request, "output", text.data) < 0)
                log_event(LEVEL_WARNING, "output-lost", "{s:I, s:I}", "client", (json_int_t)client->number, "bytes",
                          (json_int_t)size);
        client->daemon->stats.bytes_written += text.size;
        hold(web);
}

static void web_notify(struct client *client, const json_t *id, const char *event, const char *about)
{
        struct web_request *web = client->data;

        (void)id;
        if (web->is_stream && http_stream_event(web->request, event, about) < 0)
                log_event(LEVEL_WARNING, "event-lost", "{s:I, s:s}", "client", (json_int_t)client->number, "name",
                          event);
}

static void web_event(struct client *client, const json_t *id, const char *event, const json_t *about,
                      const struct buf *attachments)
{
        struct web_request *web = client->data;
        json_t *object = web->is_stream ? sandbox_to_text(about, attachments) : NULL;
        char *text = object ? json_dump_text(object, JSON_COMPACT) : NULL;

        (void)id;
        if (web->is_stream && (!text || http_stream_event(web->request, event, text) < 0))
                log_event(LEVEL_WARNING, "event-lost", "{s:I, s:s}", "client", (json_int_t)client->number, "name",
                          event);
        client->daemon->stats.bytes_written += text ? strlen(text) : 0;
        json_decref(object);
        free(text);
        hold(web);
}

static void web_sandbox_answer(struct client *client, const struct operation *operation, const json_t *id,
                               const json_t *result, const struct buf *attachments)
{
        struct cloche_err e = {0};
        json_t *object = sandbox_to_text(result, attachments);

        if (!object)
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
        if (object)
                web_result(client, operation, id, object);
        else
                web_fail(client, id, &e, NULL);
        json_decref(object);
}

static const struct face face = {
        .name = "http",
        .result = web_result,
        .fail = web_fail,
        .output = web_output,
        .notify = web_notify,
        .event = web_event,
        .answer = web_sandbox_answer,
};

/* -- complete requests ---------------------------------------------------------------------------------------- */

static int may_be_empty(const struct operation *operation)
{
        return operation->is_sandbox || operation->symbol == OPERATION_IMAGE_VERIFY ||
               operation->symbol == OPERATION_IMAGE_PRUNE;
}

static int read_body(const struct web_request *web, json_t **ret, struct cloche_err *e)
{
        const struct buf *body = http_request_body(web->request);
        int r;

        *ret = NULL;
        if (!operation_has_json(web->operation) && body->size > 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s %.80s takes no body", web->operation->verb,
                               web->operation->path);
        if (!operation_has_json(web->operation) || (may_be_empty(web->operation) && body->size == 0)) {
                *ret = json_object();
                return 0;
        }
        r = json_load_human(body->data ? body->data : "", body->size, ret, e);
        if (r < 0)
                return err_wrap(e, "body");
        return json_is_object(*ret) ? 0 : err_set(e, CLOCHE_E_INVALID_JSON, "the body must be a JSON object");
}

static int read_query(const struct web_request *web, json_t *params, struct cloche_err *e)
{
        json_t *query = NULL;
        int r = query_parse(http_request_query(web->request), &query, e);

        if (r == 0)
                r = operation_read_query(web->operation, query, e);
        if (r == 0)
                json_object_update(params, query);
        json_decref(query);
        return r;
}

static int read_params(const struct web_request *web, const json_t *from_path, json_t **ret, struct cloche_err *e)
{
        const char *key;
        json_t *value;
        int r = read_body(web, ret, e);

        if (r == 0 && !operation_has_json(web->operation))
                r = read_query(web, *ret, e);
        if (r < 0)
                return r;
        json_object_foreach ((json_t *)from_path, key, value) {
                if (json_object_get(*ret, key))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "\"%.60s\" is in the path already: leave it out of body and query", key);
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

static void set_stream(struct web_request *web, json_t *params)
{
        const char *accept = http_request_header(web->request, "Accept");
        const json_t *object = json_object_get(params, "stream");
        int can = has_stream(web->operation);

        web->is_stream = (can || web->operation->is_stream) && accept && strstr(accept, "text/event-stream");
        if (can && (!object || json_is_boolean(object))) /* else it is refused like any other field */
                json_object_set_new(params, "stream", json_boolean(web->is_stream));
}

static int begin_sandbox_request(struct client_request *request, struct cloche_err *e)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        json_t *params = NULL;
        int r = value_write(request->params, VALUE_FRAME, &attachments, &params, e);

        request->params = params;
        if (r == 0)
                r = sandbox_job_begin(request, &attachments, e);
        json_decref(params);
        return r;
}

static struct client_request request_of(struct web_request *web)
{
        return (struct client_request){.client = &web->client,
                                       .operation = web->operation,
                                       .bytes = http_request_body(web->request)->size};
}

static void perform_with(struct web_request *web, json_t *object)
{
        struct client_request request = request_of(web);
        int is_stream;
        struct cloche_err e = {0};
        json_t *params = NULL, *result = NULL;
        int r = request_hold_params(object, VALUE_TEXT, NULL, 0, &params, &e);

        if (r == 0) {
                set_stream(web, params);
                request.params = params;
                is_stream = web->is_stream;
                web->is_stream = 0; /* an immediate error is sent as an HTTP status */
                r = web->operation->is_sandbox ? begin_sandbox_request(&request, &e)
                                               : operation_run(&request, &result, &e);
                web->is_stream = is_stream;
        }
        json_decref(params);
        if (r == 1 && web->is_stream)
                http_stream(web->request);
        if (r == 0)
                web_result(&web->client, web->operation, NULL, result);
        json_decref(result);
        if (r < 0) {
                web->is_stream = 0;
                web_fail(&web->client, NULL, &e, NULL);
        }
}

static void on_named(void *data, json_t *params, const struct cloche_err *e)
{
        struct web_request *web = data;

        if (e)
                web_fail(&web->client, NULL, e, NULL);
        else if (params)
                perform_with(web, params);
}

static void perform(struct web_request *web, const json_t *from_path)
{
        const struct client_request request = request_of(web);
        struct cloche_err e = {0};
        json_t *object = NULL;
        int r = read_params(web, from_path, &object, &e);

        if (r == 0 && image_name_is_given(&request, object))
                r = image_name_find(&request, object, on_named, web, &e);
        else if (r == 0)
                perform_with(web, object);
        json_decref(object);
        if (r < 0)
                web_fail(&web->client, NULL, &e, NULL);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

static void on_over(void *data)
{
        struct web_request *web = data;

        client_done(&web->client);
        free(web);
}

static void on_taken(void *data)
{
        hold(data);
}

static const struct http_handler handler = {.on_over = on_over, .on_taken = on_taken};

void web_request_begin(struct daemon *d, struct http_request *request, int64_t principal, int peer_fd,
                       const struct operation *operation, const json_t *from_path)
{
        struct web_request *web = calloc(1, sizeof(*web));
        struct cloche_err e = {0};

        if (!web) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "take a request");
                web_refuse(request, &e);
                return;
        }
        client_init(&web->client, d, &face, principal, peer_fd);
        web->client.data = web;
        web->client.is_greeted = 1;
        web->request = request;
        web->operation = operation;
        http_request_handle(request, &handler, web);
        perform(web, from_path);
}
