/* WebSockets of sandboxes: the common part, and that for a single request. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox-socket.h"
#include "access.h"
#include "daemon/core/sandbox-request.h"
#include "daemon/run/request.h"
#include "request.h"

#include "base/clock.h"
#include "base/err.h"
#include "wire/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STALL_NS UINT64_C(60000000000) /* without progress while messages are queued */
#define CLOSE_DONE 1000
#define CLOSE_POLICY 1008

/* -- for all WebSockets of sandboxes -------------------------------------------------------------------------- */

void sandbox_socket_init(struct sandbox_socket *s, struct daemon *d)
{
        s->daemon = d;
        TAILQ_INSERT_TAIL(&d->sandbox_sockets, s, link);
}

void sandbox_socket_done(struct sandbox_socket *s)
{
        TAILQ_REMOVE(&s->daemon->sandbox_sockets, s, link);
}

void sandbox_socket_send(struct sandbox_socket *s, json_t *object)
{
        char *text = json_dump_text(object, JSON_COMPACT);

        json_decref(object);
        if (!text)
                websocket_close(s->socket, 1011, "out of memory");
        else
                (void)websocket_queue(s->socket, 1, text, strlen(text));
        s->daemon->stats.bytes_written += text ? strlen(text) : 0;
        free(text);
}

void sandbox_socket_finish(struct sandbox_socket *s)
{
        s->is_ending = 1;
        if (websocket_waiting(s->socket) == 0)
                websocket_close(s->socket, CLOSE_DONE, "");
}

void sandbox_socket_sent(struct sandbox_socket *s)
{
        if (s->is_ending &&
            websocket_waiting(s->socket) == 0) /* releasing the held output may have delivered the answer */
                websocket_close(s->socket, CLOSE_DONE, "");
}

void sandbox_sockets_sweep(struct daemon *d, uint64_t now_ns)
{
        struct sandbox_socket *s;

        TAILQ_FOREACH (s, &d->sandbox_sockets, link)
                if (s->socket && websocket_waiting(s->socket) > 0 &&
                    now_ns > websocket_progress_ns(s->socket) + STALL_NS)
                        websocket_abort(s->socket);
}

/* -- one request ---------------------------------------------------------------------------------------------- */

struct request_socket {
        struct sandbox_socket base;
        struct client client;
        const struct operation *operation;
        json_t *sandbox;
        int has_request;
};

static void hold(struct request_socket *s)
{
        size_t size = websocket_waiting(s->base.socket);
        int wanted = size > (s->client.is_held ? SOCKET_LOW_BYTES : SOCKET_HIGH_BYTES);

        if (wanted == s->client.is_held)
                return;
        client_hold_all(&s->client, wanted);
}

static void socket_event(struct client *client, const json_t *id, const char *event, const json_t *about,
                         const struct buf *attachments)
{
        struct request_socket *s = client->data;

        (void)id;
        sandbox_socket_send(&s->base,
                            json_pack("{s:s, s:o}", "event", event, "about", sandbox_to_text(about, attachments)));
        hold(s);
}

static void socket_fail(struct client *client, const json_t *id, const struct cloche_err *e, json_t *data)
{
        struct request_socket *s = client->data;

        (void)id;
        client->daemon->stats.errors_total++;
        sandbox_socket_send(&s->base, json_pack("{s:o}", "error", client_error(e, data)));
        sandbox_socket_finish(&s->base);
}

static void socket_answer(struct client *client, const struct operation *operation, const json_t *id,
                          const json_t *result, const struct buf *attachments)
{
        struct request_socket *s = client->data;
        struct cloche_err e = {0};
        json_t *object = sandbox_to_text(result, attachments);

        (void)operation;
        (void)id;
        if (!object) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
                socket_fail(client, NULL, &e, NULL);
                return;
        }
        sandbox_socket_send(&s->base, json_pack("{s:o}", "result", object));
        sandbox_socket_finish(&s->base);
}

static const struct face face = {.name = "socket", .event = socket_event, .answer = socket_answer, .fail = socket_fail};

static int read_params(const struct request_socket *s, const char *text, size_t size, json_t **ret,
                       struct cloche_err *e)
{
        int r = json_load_human(text, size, ret, e);

        if (r < 0)
                return r;
        if (!json_is_object(*ret))
                return err_set(e, CLOCHE_E_INVALID_JSON,
                               "the first message must be a JSON object: the parameters of %s", s->operation->method);
        if (json_object_get(*ret, "sandbox"))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "\"sandbox\" is in the path already: leave it out of the message");
        json_object_set(*ret, "sandbox", s->sandbox);
        if (s->operation->symbol == OPERATION_SANDBOX_EXEC && !json_object_get(*ret, "stream"))
                json_object_set_new(*ret, "stream", json_true());
        return 0;
}

static int begin(struct request_socket *s, const char *text, size_t size, struct cloche_err *e)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        struct client_request request = {.client = &s->client, .operation = s->operation, .bytes = size};
        json_t *object = NULL, *held = NULL, *params = NULL;
        int r = read_params(s, text, size, &object, e);

        if (r == 0)
                r = request_hold_params(object, VALUE_TEXT, NULL, 0, &held, e);
        if (r == 0)
                r = value_write(held, VALUE_FRAME, &attachments, &params, e);
        request.params = params;
        if (r == 0)
                r = sandbox_job_begin(&request, &attachments, e);
        json_decref(object);
        json_decref(held);
        json_decref(params);
        return r;
}

static void on_text(void *data, char *bytes, size_t size)
{
        struct request_socket *s = data;
        struct cloche_err e = {0};

        s->base.daemon->stats.bytes_read += size;
        if (s->has_request) {
                websocket_close(s->base.socket, CLOSE_POLICY, "one request a connection");
                return;
        }
        s->has_request = 1;
        if (begin(s, bytes, size, &e) < 0)
                socket_fail(&s->client, NULL, &e, NULL);
}

static void on_open(void *data, struct websocket *socket)
{
        struct request_socket *s = data;

        s->base.socket = socket;
}

static void on_sent(void *data)
{
        struct request_socket *s = data;

        hold(s);
        sandbox_socket_sent(&s->base);
}

static void on_closed(void *data)
{
        struct request_socket *s = data;

        sandbox_socket_done(&s->base);
        client_done(&s->client);
        json_decref(s->sandbox);
        free(s);
}

static const struct websocket_handler handler = {.on_open = on_open,
                                                 .on_text = on_text,
                                                 .on_sent = on_sent,
                                                 .on_closed = on_closed};

int sandbox_socket_open(struct daemon *d, struct http_request *request, int64_t principal, const char *sandbox,
                        const struct operation *operation, struct cloche_err *e)
{
        struct request_socket *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "open a WebSocket");
        sandbox_socket_init(&s->base, d);
        client_init(&s->client, d, &face, principal, -EBADF);
        s->client.data = s;
        s->client.is_greeted = 1;
        s->operation = operation;
        s->sandbox = json_string(sandbox);
        web_choose_protocol(request);
        r = http_upgrade(request, &handler, s, d->options.body_bytes_max, e);
        if (r < 0)
                on_closed(s);
        return r;
}
