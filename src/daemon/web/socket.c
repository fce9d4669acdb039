/* Frames as messages of a WebSocket. Runs in: cloched-engine, on its loop, with the rights of the
 * daemon's user. */
#include "socket.h"
#include "daemon/core/client.h"
#include "daemon/core/log.h"

#include "base/clock.h"
#include "base/err.h"
#include "daemon/http/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_OVERHEAD (1u << 20)
#define STRANGER_BYTES_MAX (64u << 10)
#define SECOND_NS UINT64_C(1000000000)
#define HELLO_NS (30 * SECOND_NS)
#define STALL_NS (60 * SECOND_NS)

struct web_socket {
        TAILQ_ENTRY(web_socket) link;
        struct client client;
        uint64_t opened_ns;
        struct websocket *socket; /* NULL before it is open, and after it is closed */
        size_t sending;           /* bytes of client.out that are being sent */
        struct buf early;         /* frames that were read before they may be handled */
};

/* -- writing: each frame in a message ------------------------------------------------------------------------- */

static size_t next_frame(const struct client *client)
{
        const unsigned char *b = (const unsigned char *)client->out.data + client->out_at;

        return 4 + ((size_t)b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24);
}

static void carrier_flush(struct client *client)
{
        struct web_socket *s = client->data;
        int r = 1;

        while (r > 0 && s->socket && s->sending == 0 && client_unwritten(client) > 0) {
                s->sending = next_frame(client);
                r = websocket_send(s->socket, client->out.data + client->out_at, s->sending);
                if (r > 0) {
                        client_written(client, s->sending);
                        s->sending = 0;
                }
        }
}

static void on_sent(void *data)
{
        struct web_socket *s = data;
        size_t size = s->sending;

        s->sending = 0;
        client_written(&s->client, size);
        carrier_flush(&s->client);
}

static void take_early(struct web_socket *s);

static void carrier_hold(struct client *client, int hold)
{
        struct web_socket *s = client->data;

        if (!hold)
                take_early(s);
        if (s->socket)
                websocket_hold(s->socket, client_is_stopped(client));
}

static void carrier_close(struct client *client, const char *why)
{
        struct web_socket *s = client->data;

        log_event(LEVEL_INFO, "connection-cut", "{s:I, s:s}", "client", (json_int_t)client->number, "why", why);
        carrier_flush(client); /* sends the reason for closing */
        if (s->socket)
                websocket_close(s->socket, 1008, "");
}

void web_sockets_sweep(struct daemon *d, uint64_t now_ns)
{
        struct web_socket *s;

        TAILQ_FOREACH (s, &d->web_sockets, link) {
                int is_mute = !s->client.is_greeted && now_ns > s->opened_ns + HELLO_NS;

                if (s->socket && (is_mute || (s->sending > 0 && now_ns > websocket_progress_ns(s->socket) + STALL_NS)))
                        websocket_abort(s->socket);
        }
}

static const struct carrier carrier = {
        .flush = carrier_flush,
        .hold = carrier_hold,
        .close = carrier_close,
};

/* -- reading: each message holds a frame ---------------------------------------------------------------------- */

static int read_frame(const struct web_socket *s, const char *bytes, size_t size, struct frame *ret,
                      struct cloche_err *e)
{
        size_t max =
                s->client.is_greeted ? s->client.daemon->options.body_bytes_max + FRAME_OVERHEAD : STRANGER_BYTES_MAX;
        ssize_t n;

        if (size > max + 4)
                return err_set(e, CLOCHE_E_TOO_LARGE, "a message of %zu bytes, at most %zu are accepted", size,
                               max + 4);
        n = frame_parse(bytes, size, max < FRAME_BYTES_MAX ? max : FRAME_BYTES_MAX, ret, e);
        if (n >= 0 && (size_t)n != size)
                return err_set(e, CLOCHE_E_PROTOCOL, "a message of %zu bytes is not one whole frame", size);
        return n < 0 ? (int)n : 0;
}

static void refuse(struct web_socket *s, const struct cloche_err *e)
{
        s->client.face->fail(&s->client, NULL, e, NULL);
        carrier_close(&s->client, e->msg);
}

/* libwslay delivers what its buffer holds, although nothing more is read. */
static void on_message(void *data, char *bytes, size_t size)
{
        struct web_socket *s = data;
        struct cloche_err e = {0};
        struct frame frame;

        s->client.daemon->stats.bytes_read += size;
        if (read_frame(s, bytes, size, &frame, &e) < 0)
                refuse(s, &e);
        else if (!client_is_stopped(&s->client))
                client_receive(&s->client, &frame);
        else if (buf_append(&s->early, bytes, size) < 0)
                refuse(s, (err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "hold a request"), &e));
}

static void take_early(struct web_socket *s)
{
        struct buf early = s->early;
        struct frame frame;
        size_t at = 0;

        s->early = (struct buf)BUF_INIT(FRAME_BYTES_MAX);
        while (s->socket && at < early.size && !client_is_stopped(&s->client)) {
                ssize_t n = frame_parse(early.data + at, early.size - at, FRAME_BYTES_MAX, &frame, NULL);

                client_receive(&s->client, &frame);
                at += (size_t)n; /* whole frames only: each was read before */
        }
        if (at < early.size && buf_append(&s->early, early.data + at, early.size - at) < 0 && s->socket)
                carrier_close(&s->client, "out of memory");
        buf_done(&early);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

static void on_open(void *data, struct websocket *socket)
{
        struct web_socket *s = data;

        s->socket = socket;
}

static void on_closed(void *data)
{
        struct web_socket *s = data;

        s->socket = NULL;
        TAILQ_REMOVE(&s->client.daemon->web_sockets, s, link);
        client_done(&s->client);
        buf_done(&s->early);
        free(s);
}

static const struct websocket_handler handler = {
        .on_open = on_open,
        .on_message = on_message,
        .on_sent = on_sent,
        .on_closed = on_closed,
};

int web_socket_open(struct daemon *d, struct http_request *request, int64_t principal, int peer_fd, int needs_token,
                    struct cloche_err *e)
{
        struct web_socket *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "open a WebSocket");
        client_init(&s->client, d, &client_frames, principal, peer_fd);
        s->client.carrier = &carrier;
        s->client.data = s;
        s->early = (struct buf)BUF_INIT(FRAME_BYTES_MAX);
        s->client.connection = http_request_socket_data(request);
        s->client.needs_token = needs_token;
        s->opened_ns = clock_now_ns();
        TAILQ_INSERT_TAIL(&d->web_sockets, s, link);
        r = http_upgrade(request, &handler, s, d->options.body_bytes_max + FRAME_OVERHEAD + 4, e);
        if (r < 0)
                on_closed(s);
        return r;
}
