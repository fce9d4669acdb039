/* Connections, from their first byte to their end. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "connection.h"
#include "daemon/web/web.h"
#include "log.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "daemon/http/server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define GREETING "CLOCHE1\n"
#define TLS_HANDSHAKE 0x16 /* RFC 8446, 5.1 */
#define GREETING_SIZE (sizeof(GREETING) - 1)
#define SECOND_NS UINT64_C(1000000000)
#define FRAME_NS (300 * SECOND_NS)     /* from a frame's first byte to its last */
#define STALL_NS (60 * SECOND_NS)      /* without progress in writing */
#define STRANGER_BYTES_MAX (64u << 10) /* of a frame before hello */
#define FRAME_OVERHEAD (1u << 20)

static void update_poll(struct connection *c);

/* -- closing -------------------------------------------------------------------------------------------------- */

/* Connections are closed at the end of a loop iteration: the client may be in use on the stack. */
static void schedule_close(struct connection *c, const char *why)
{
        if (c->is_closing)
                return;
        c->is_closing = 1;
        c->why = why;
        uv_poll_stop(&c->poll);
}

static void carrier_close(struct client *client, const char *why)
{
        log_event(LEVEL_INFO, "connection-cut", "{s:I, s:s}", "client", (json_int_t)client->number, "why", why);
        schedule_close(client->data, "cut");
}

static void on_closed(uv_handle_t *handle)
{
        struct connection *c = handle->data;

        peer_close(&c->fd);
        free(c);
}

/* Write the last answer, which may hold the reason for closing, if that does not block. */
static void flush_now(struct connection *c)
{
        size_t left = client_unwritten(&c->client);

        if (c->kind == CONNECTION_FRAMES && left > 0)
                (void)send(c->fd, c->client.out.data + c->client.out_at, left, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void close_now(struct connection *c)
{
        struct daemon *d = c->daemon;

        flush_now(c);
        TAILQ_REMOVE(&d->connections, c, link);
        d->connection_count--;
        caller_remove(&d->callers, &c->caller);
        if (c->kind == CONNECTION_FRAMES)
                client_done(&c->client);
        frame_reader_done(&c->reader);
        log_event(LEVEL_DEBUG, "connection-closed", "{s:I, s:s}", "client", (json_int_t)c->client.number, "why",
                  c->why ? c->why : "end");
        if (c->is_private)
                daemon_stop(d, 0, "the connection ended");
        uv_close((uv_handle_t *)&c->poll, on_closed);
}

void connections_tidy(struct daemon *d)
{
        struct connection *c, *next;

        for (c = TAILQ_FIRST(&d->connections); c; c = next) {
                next = TAILQ_NEXT(c, link);
                if (c->is_closing)
                        close_now(c);
        }
}

void connections_close_all(struct daemon *d)
{
        struct connection *c;

        TAILQ_FOREACH (c, &d->connections, link)
                if (c->kind != CONNECTION_WEB)
                        schedule_close(c, "the daemon ends");
        connections_tidy(d);
}

int connections_are_idle(const struct daemon *d)
{
        const struct connection *c;

        if (d->http && http_server_open(d->http) > 0)
                return 0;
        TAILQ_FOREACH (c, &d->connections, link)
                if (c->kind == CONNECTION_FRAMES && client_unwritten(&c->client) > 0)
                        return 0;
        return 1;
}

void connections_sweep(struct daemon *d, uint64_t now_ns)
{
        struct connection *c;

        callers_sweep(&d->callers, now_ns);
        TAILQ_FOREACH (c, &d->connections, link) {
                if (c->kind == CONNECTION_WEB)
                        continue;
                if (c->deadline_ns && now_ns > c->deadline_ns)
                        schedule_close(c, "too slow");
                if (c->kind == CONNECTION_FRAMES && client_unwritten(&c->client) > 0 &&
                    now_ns > c->progress_ns + STALL_NS)
                        schedule_close(c, "does not read");
        }
}

void connection_drop(struct caller *caller, const char *why)
{
        struct connection *c = (struct connection *)((char *)caller - offsetof(struct connection, caller));

        if (c->kind != CONNECTION_WEB)
                schedule_close(c, why);
        else if (c->web)
                http_server_cut(c->daemon->http, c->web);
}

int connection_known(struct connection *c, enum caller_lane lane, struct cloche_err *e)
{
        return caller_known(&c->daemon->callers, &c->caller, lane, e);
}

/* -- writing -------------------------------------------------------------------------------------------------- */

static void carrier_flush(struct client *client)
{
        struct connection *c = client->data;

        while (!c->is_closing && client_unwritten(client) > 0) {
                ssize_t n = send(c->fd, client->out.data + client->out_at, client_unwritten(client),
                                 MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n > 0) {
                        c->progress_ns = clock_now_ns();
                        client_written(client, (size_t)n);
                } else if (n < 0 && errno == EAGAIN) {
                        break;
                } else if (n < 0 && errno != EINTR) {
                        schedule_close(c, "gone");
                }
        }
        update_poll(c);
}

/* -- reading -------------------------------------------------------------------------------------------------- */

static ssize_t receive(const struct connection *c, void *to, size_t room)
{
        return c->is_tcp ? recv(c->fd, to, room, MSG_DONTWAIT) : peer_receive(c->fd, to, room);
}

/* 0: continue; -1: close the connection. */
static int take_frames(struct connection *c)
{
        struct cloche_err e = {0};
        struct frame frame;
        int r = 0;

        while (!c->is_closing && !client_is_stopped(&c->client) &&
               (r = frame_reader_next(&c->reader, &frame, &e)) > 0) {
                client_receive(&c->client, &frame);
                if (c->client.is_greeted)
                        c->reader.max_bytes = c->daemon->options.body_bytes_max + FRAME_OVERHEAD;
        }
        if (r < 0) {
                log_event(LEVEL_INFO, "connection-cut", "{s:I, s:s}", "client", (json_int_t)c->client.number, "why",
                          e.msg);
                c->client.face->fail(&c->client, NULL, &e, NULL);
                schedule_close(c, "no frames");
        }
        return c->is_closing ? -1 : 0;
}

/* A partial frame has a deadline. */
static void set_deadline(struct connection *c)
{
        uint64_t partial = frame_reader_pending(&c->reader) > 0;

        if (!c->client.is_greeted)
                return;
        if (!partial || client_is_stopped(&c->client))
                c->deadline_ns = 0;
        else if (!c->deadline_ns)
                c->deadline_ns = clock_now_ns() + FRAME_NS;
}

/* An idle connection holds no receive buffer. */
static void let_go_of_memory(struct connection *c)
{
        size_t max = c->reader.max_bytes;

        if (frame_reader_pending(&c->reader) > 0)
                return;
        frame_reader_done(&c->reader);
        frame_reader_init(&c->reader, max);
        c->reader.in.max = (size_t)c->daemon->options.body_bytes_max + FRAME_OVERHEAD + (128u << 10);
}

static void carrier_hold(struct client *client, int hold)
{
        struct connection *c = client->data;

        if (!hold)
                (void)take_frames(c);
        set_deadline(c);
        update_poll(c);
}

static const struct carrier carrier = {
        .flush = carrier_flush,
        .hold = carrier_hold,
        .close = carrier_close,
};

/* Read the eight bytes before the first frame. 1: complete. */
static int take_greeting(struct connection *c)
{
        char bytes[GREETING_SIZE];
        ssize_t n = receive(c, bytes, GREETING_SIZE - c->greeting_at);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0 || memcmp(bytes, &GREETING[c->greeting_at], (size_t)n) != 0) {
                schedule_close(c, n <= 0 ? "end" : "no greeting");
                return 0;
        }
        c->greeting_at += (size_t)n;
        return c->greeting_at == GREETING_SIZE;
}

static void read_frames(struct connection *c)
{
        size_t room;
        char *to = frame_reader_room(&c->reader, &room);
        ssize_t n = to ? receive(c, to, room) : -1;

        if (n < 0 && to && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                schedule_close(c, !to ? "out of memory" : n == 0 ? "end" : "gone");
                return;
        }
        c->daemon->stats.bytes_read += (uint64_t)n;
        frame_reader_filled(&c->reader, (size_t)n);
        if (take_frames(c) == 0) {
                set_deadline(c);
                let_go_of_memory(c);
        }
}

static void become_frames(struct connection *c)
{
        c->kind = CONNECTION_FRAMES;
        frame_reader_init(&c->reader, STRANGER_BYTES_MAX);
        let_go_of_memory(c);
        client_init(&c->client, c->daemon, &client_frames, c->principal, c->peer_fd);
        c->client.carrier = &carrier;
        c->client.data = c;
        c->client.connection = c;
        c->client.needs_token = c->is_tcp;
}

/* -- hand-over to HTTP ---------------------------------------------------------------------------------------- */

static void on_poll_closed(uv_handle_t *handle)
{
        struct connection *c = handle->data;

        c->is_poll_closed = 1;
        if (c->is_web_closed)
                free(c);
}

void connection_on_closed(struct connection *c)
{
        TAILQ_REMOVE(&c->daemon->connections, c, link);
        c->daemon->connection_count--;
        caller_remove(&c->daemon->callers, &c->caller);
        c->web = NULL;
        c->is_web_closed = 1;
        if (c->is_poll_closed)
                free(c);
}

static void become_web(struct connection *c, int is_tls)
{
        c->kind = CONNECTION_WEB;
        uv_close((uv_handle_t *)&c->poll, on_poll_closed);
        web_take(c, TAKE_FD(c->fd), is_tls);
}

/* The first byte shows the protocol: frames begin with a C, TLS with 0x16, and no HTTP verb that is
 * accepted here with either. */
static void meet(struct connection *c)
{
        char first;
        ssize_t n = recv(c->fd, &first, 1, MSG_DONTWAIT | MSG_PEEK);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        c->caller.first_byte_ns = 0;
        if (n <= 0)
                schedule_close(c, "end");
        else if (c->entrance.kind != ENTRANCE_DAEMON)
                become_web(c, 0);
        else if (c->is_tcp && first != TLS_HANDSHAKE && http_server_has_tls(c->daemon->http))
                schedule_close(c, "TLS only"); /* the token would be sent in clear text */
        else if (first == GREETING[0])
                become_frames(c);
        else if (c->is_private)
                schedule_close(c, "no frames");
        else if (first == TLS_HANDSHAKE && !(c->is_tcp && http_server_has_tls(c->daemon->http)))
                schedule_close(c, "no TLS here");
        else
                become_web(c, first == TLS_HANDSHAKE);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct connection *c = poll->data;

        if (c->is_closing)
                return;
        if (status < 0 || (events & UV_DISCONNECT)) {
                schedule_close(c, "gone");
                return;
        }
        if (events & UV_WRITABLE)
                carrier_flush(&c->client);
        if (!(events & UV_READABLE) || c->is_closing)
                return;
        if (c->kind == CONNECTION_UNKNOWN)
                meet(c);
        if (c->kind != CONNECTION_FRAMES || c->is_closing)
                return;
        if (c->greeting_at < GREETING_SIZE && !take_greeting(c))
                return;
        if (!client_is_stopped(&c->client))
                read_frames(c);
}

static void update_poll(struct connection *c)
{
        int events = UV_DISCONNECT;

        if (c->is_closing)
                return;
        if (c->kind != CONNECTION_FRAMES || !client_is_stopped(&c->client))
                events = UV_READABLE;
        if (c->kind == CONNECTION_FRAMES && client_unwritten(&c->client) > 0)
                events |= UV_WRITABLE;
        /* Else libuv would take the socket off the loop and put it on again
         * (engine/loop/watch.h). */
        if (events == c->events)
                return;
        c->events = events;
        uv_poll_start(&c->poll, events, on_poll);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

static struct connection *make(struct daemon *d, int fd, int is_tcp, int64_t principal)
{
        struct connection *c = calloc(1, sizeof(*c));

        if (!c || uv_poll_init(&d->loop, &c->poll, fd) < 0) {
                free(c);
                return NULL;
        }
        c->daemon = d;
        c->fd = fd;
        c->is_tcp = is_tcp;
        c->principal = principal;
        c->peer_fd = is_tcp ? -EBADF : fd;
        c->poll.data = c;
        c->progress_ns = clock_now_ns();
        TAILQ_INSERT_TAIL(&d->connections, c, link);
        d->connection_count++;
        d->stats.connections_total++;
        return c;
}

static void set_up_tcp(int fd)
{
        const int yes = 1;

        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes)); /* detects a host that vanished */
}

void connection_new(struct daemon *d, int fd, int is_tcp, int64_t principal, struct entrance entrance,
                    const struct caller *caller)
{
        struct connection *c = make(d, fd, is_tcp, principal);

        if (!c) {
                peer_close(&fd);
                d->stats.connections_refused++;
                return;
        }
        c->entrance = entrance;
        c->caller = *caller;
        caller_add(&d->callers, &c->caller, c->progress_ns);
        if (is_tcp)
                set_up_tcp(fd);
        update_poll(c);
}

int connection_private(struct daemon *d, int fd, struct cloche_err *e)
{
        struct connection *c;
        int type = 0;
        socklen_t size = sizeof(type);

        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "--connect-fd %d", fd);
        if (type != SOCK_STREAM)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "--connect-fd %d must be a stream socket", fd);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        peer_open(fd);
        c = make(d, fd, 0, getuid());
        if (!c)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "serve --connect-fd %d", fd);
        c->is_private = 1;
        c->peer_fd = -EBADF; /* its caller started it, and has the same rights */
        update_poll(c);
        return 0;
}
