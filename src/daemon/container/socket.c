/* Requests of the API over one WebSocket. Text messages of the client:
 *   {type: "request", id, method, path, body?, headers?} and {type: "cancel", id};
 * ours:
 *   {type: "response", id, status, body?, done: true}, {type: "stream", id, data} and
 *   {type: "error", id?, code, message, status}.
 *
 * Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE_OVERHEAD (1u << 20)
#define REQUESTS_MAX 1024 /* running on one connection */
#define UNREAD_BYTES_MAX (256u << 20)
#define STALL_NS UINT64_C(60000000000)

struct container_socket {
        TAILQ_ENTRY(container_socket) link;
        struct daemon *daemon;
        struct websocket *socket; /* NULL before it is open, and after it is closed */
        int64_t principal;
        char *sandbox;
        unsigned request_count;
};

/* -- sending --------------------------------------------------------------------------------------------------- */

static void send_text(struct container_socket *s, const char *text, size_t size)
{
        if (s->socket && websocket_waiting(s->socket) > UNREAD_BYTES_MAX)
                websocket_close(s->socket, 1008, "what is sent is not read");
        else if (s->socket)
                (void)websocket_queue(s->socket, 1, text, size);
}

/* message is stolen. */
static void send_json(struct container_socket *s, json_t *message)
{
        char *text = json_dump_text(message, JSON_COMPACT);

        json_decref(message);
        if (text)
                send_text(s, text, strlen(text));
        free(text);
}

static void complain(struct container_socket *s, const json_t *id, const char *message)
{
        json_t *error = json_pack("{s:s, s:s, s:s, s:i}", "type", "error", "code", "INVALID_REQUEST", "message",
                                  message, "status", 400);

        send_json(s, door_put(error, "id", json_incref((json_t *)id)));
}

/* -- the transport of answers ---------------------------------------------------------------------------------- */

static void request_closed(struct container_request *q)
{
        q->socket->request_count--;
        container_request_free(q);
}

/* Send the message with text, which is JSON, as its body. A large body is not parsed for that:
 * it would be most of the request's processor time. message is stolen. */
static void send_around(struct container_socket *s, json_t *message, const char *text, size_t size)
{
        _cleanup_buf_ struct buf whole = BUF_INIT(SIZE_MAX / 2);
        char *around = json_dump_text(message, JSON_COMPACT);

        json_decref(message);
        if (around && buf_append(&whole, around, strlen(around) - 1) == 0 && buf_append(&whole, ",\"body\":", 8) == 0 &&
            buf_append(&whole, text, size) == 0 && buf_append(&whole, "}", 1) == 0)
                send_text(s, whole.data, whole.size);
        free(around);
}

static void socket_answer(struct container_request *q, unsigned status, const char *type, const char *text, size_t size)
{
        json_t *message = json_pack("{s:s, s:O, s:i, s:b}", "type", "response", "id", q->socket_id, "status",
                                    (int)status, "done", 1);

        if (strcmp(type, "application/json") == 0)
                send_around(q->socket, message, text, size);
        else
                send_json(q->socket, door_put(message, "body", json_stringn(text, size)));
        request_closed(q);
}

static void socket_begin(struct container_request *q)
{
        (void)q;
}

static void socket_line(struct container_request *q, const char *json, size_t size)
{
        send_json(q->socket, json_pack("{s:s, s:O, s:s%}", "type", "stream", "id", q->socket_id, "data", json, size));
}

/* The protocol has no such message; the client waits for five minutes. */
static void socket_alive(struct container_request *q)
{
        (void)q;
}

static void socket_end(struct container_request *q)
{
        send_json(q->socket,
                  json_pack("{s:s, s:O, s:i, s:b}", "type", "response", "id", q->socket_id, "status", 200, "done", 1));
        request_closed(q);
}

static size_t socket_waiting(const struct container_request *q)
{
        return q->socket->socket ? websocket_waiting(q->socket->socket) : 0;
}

static const struct container_carrier carrier = {
        .answer = socket_answer,
        .begin = socket_begin,
        .line = socket_line,
        .alive = socket_alive,
        .end = socket_end,
        .waiting = socket_waiting,
};

/* -- receiving ------------------------------------------------------------------------------------------------- */

static struct container_request *find(struct container_socket *s, const json_t *id)
{
        struct container_request *q;

        TAILQ_FOREACH (q, &s->daemon->container->requests, link)
                if (q->socket == s && json_equal(q->socket_id, id))
                        return q;
        return NULL;
}

static void on_cancel(struct container_socket *s, const json_t *id)
{
        struct container_request *q = find(s, id);

        if (q)
                request_closed(q);
}

static void begin(struct container_socket *s, const json_t *id, const json_t *message)
{
        const char *verb = json_string_value(json_object_get(message, "method")),
                   *target = json_string_value(json_object_get(message, "path"));
        json_t *body = json_object_get(message, "body");
        size_t path_size = strcspn(target, "?");
        struct container_request *q = container_request_new(s->daemon, &carrier, s->principal, s->sandbox,
                                                            target + path_size + (target[path_size] == '?'));
        char *path = strndup(target, path_size);

        if (q && path) {
                q->socket = s;
                q->socket_id = json_incref((json_t *)id);
                q->is_new = 1;
                q->body = body && !json_is_null(body) ? json_incref(body) : NULL;
                s->request_count++;
                container_request_handle(q, verb, path, NULL, 0);
        } else {
                if (q)
                        container_request_free(q);
                complain(s, id, "out of memory");
        }
        free(path);
}

static void on_request(struct container_socket *s, const json_t *id, const json_t *message)
{
        if (!json_is_string(json_object_get(message, "method")) || !json_is_string(json_object_get(message, "path")))
                complain(s, id, "a request needs 'method' and 'path', both strings");
        else if (find(s, id))
                complain(s, id, "a request of this id is under way");
        else if (s->request_count >= REQUESTS_MAX)
                complain(s, id, "too many requests are under way on this connection");
        else
                begin(s, id, message);
}

static void on_text(void *data, char *text, size_t size)
{
        struct container_socket *s = data;
        struct cloche_err e = {0};
        json_t *message = NULL, *id;
        const char *type;

        if (json_load_text(text, size, &message, &e) < 0) {
                complain(s, NULL, e.msg);
                return;
        }
        id = json_object_get(message, "id");
        type = json_string_value(json_object_get(message, "type"));
        if (!json_is_string(id) || !type)
                complain(s, NULL, "a message needs 'type' and 'id', both strings");
        else if (strcmp(type, "cancel") == 0)
                on_cancel(s, id);
        else if (strcmp(type, "request") == 0)
                on_request(s, id, message);
        else
                complain(s, id, "'type' must be request or cancel");
        json_decref(message);
}

static void on_message(void *data, char *bytes, size_t size)
{
        struct container_socket *s = data;

        (void)bytes;
        (void)size;
        websocket_close(s->socket, 1003, "text messages are spoken here");
}

static void on_sent(void *data)
{
        struct container_socket *s = data;
        struct container_request *q, *following;

        for (q = TAILQ_FIRST(&s->daemon->container->requests); q; q = following) {
                following = TAILQ_NEXT(q, link);
                if (q->socket == s)
                        container_request_taken(q);
        }
}

/* A client that reads nothing for STALL_NS is disconnected. */
void container_sockets_sweep(struct container *c, uint64_t now_ns)
{
        struct container_socket *s, *following;

        for (s = TAILQ_FIRST(&c->sockets); s; s = following) {
                following = TAILQ_NEXT(s, link);
                if (s->socket && websocket_waiting(s->socket) > 0 &&
                    now_ns > websocket_progress_ns(s->socket) + STALL_NS)
                        websocket_abort(s->socket);
        }
}

/* -- life ------------------------------------------------------------------------------------------------------ */

static void on_open(void *data, struct websocket *socket)
{
        struct container_socket *s = data;

        s->socket = socket;
}

static void on_closed(void *data)
{
        struct container_socket *s = data;
        struct container_request *q, *following;

        s->socket = NULL;
        for (q = TAILQ_FIRST(&s->daemon->container->requests); q; q = following) {
                following = TAILQ_NEXT(q, link);
                if (q->socket == s)
                        request_closed(q);
        }
        TAILQ_REMOVE(&s->daemon->container->sockets, s, link);
        free(s->sandbox);
        free(s);
}

static const struct websocket_handler handler = {
        .on_open = on_open,
        .on_message = on_message,
        .on_text = on_text,
        .on_sent = on_sent,
        .on_closed = on_closed,
};

void container_socket(struct container_request *q)
{
        struct container_socket *s = q->request ? calloc(1, sizeof(*s)) : NULL;
        struct cloche_err e = {0};

        if (s)
                s->sandbox = strdup(q->door.sandbox);
        if (!s || !s->sandbox) {
                free(s);
                container_refuse(q, q->request ? CONTAINER_INTERNAL_ERROR : CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 q->request ? "out of memory" : "this is that WebSocket already");
                return;
        }
        s->daemon = q->door.daemon;
        s->principal = q->door.principal;
        TAILQ_INSERT_TAIL(&q->door.daemon->container->sockets, s, link);
        if (http_upgrade(q->request, &handler, s, q->door.daemon->options.body_bytes_max + MESSAGE_OVERHEAD, &e) < 0) {
                on_closed(s);
                container_refuse(q, container_code_of(q, e.code), NULL, NULL, "%s", e.msg);
        }
}
