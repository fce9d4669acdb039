/* Runs in: cloched, on its loop. Requests come from anyone who can connect. */
#include "server-internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/watch.h"
#include "wire/base64.h"

#include <errno.h>
#include <nettle/sha1.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, 1.3 */
#define KEY_SIZE 24
#define CONTROL_MAX 64 /* queued pongs; more are a flood */
#define READS_AT_ONCE 16

struct websocket {
        struct http_request *request;
        const struct websocket_handler *handler;
        void *data;
        size_t message_bytes_max;
        struct MHD_UpgradeResponseHandle *urh; /* NULL until it is open */
        int fd;                                /* owned by libmicrohttpd */
        struct watch *watch;
        wslay_event_context_ptr wslay;
        struct buf extra; /* read together with the request */
        size_t extra_at;
        int is_held, is_sending, is_closing, reads;
        size_t queued; /* our messages since the queue was empty */
        uint64_t progress_ns;
        char accept[32];
};

/* -- closing -------------------------------------------------------------------------------------------------- */

/* Give the socket back, which ends the request. */
static void close_now(struct websocket *s)
{
        struct MHD_UpgradeResponseHandle *urh = s->urh;

        watch_close(s->watch);
        s->watch = NULL;
        s->urh = NULL;
        s->request->server->is_due = 1;
        if (urh)
                MHD_upgrade_action(urh, MHD_UPGRADE_ACTION_CLOSE);
}

void websocket_request_over(struct websocket *s)
{
        watch_close(s->watch);
        if (s->wslay)
                wslay_event_context_free(s->wslay);
        s->handler->on_closed(s->data);
        buf_done(&s->extra);
        free(s);
}

/* -- libwslay's callbacks ------------------------------------------------------------------------------------- */

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *to, size_t room, int flags, void *data)
{
        struct websocket *s = data;
        size_t size = s->extra.size - s->extra_at < room ? s->extra.size - s->extra_at : room;
        ssize_t n;

        (void)flags;
        if (size > 0) {
                memcpy(to, s->extra.data + s->extra_at, size);
                s->extra_at += size;
                return (ssize_t)size;
        }
        /* Let other connections run. While reading is paused, further input stays in the kernel. */
        if (s->is_held || ++s->reads > READS_AT_ONCE) {
                wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
                return -1;
        }
        do
                n = recv(s->fd, to, room, MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n > 0)
                return n;
        wslay_event_set_error(ctx, n < 0 && errno == EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *bytes, size_t size, int flags, void *data)
{
        struct websocket *s = data;
        ssize_t n;

        (void)flags;
        do
                n = send(s->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                wslay_event_set_error(ctx, errno == EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
        else
                s->progress_ns = clock_now_ns();
        return n;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *message, void *data)
{
        struct websocket *s = data;

        (void)ctx;
        if (s->is_closing || wslay_is_ctrl_frame(message->opcode))
                return;
        if (message->opcode == WSLAY_BINARY_FRAME && s->handler->on_message)
                s->handler->on_message(s->data, (char *)message->msg, message->msg_length);
        else if (message->opcode == WSLAY_TEXT_FRAME && s->handler->on_text)
                s->handler->on_text(s->data, (char *)message->msg, message->msg_length);
        else
                websocket_close(s, 1003,
                                s->handler->on_text ? "text messages are spoken here"
                                                    : "binary messages are spoken here");
}

/* -- the loop ------------------------------------------------------------------------------------------------- */

static void update_watch(struct websocket *s)
{
        int events = s->is_held ? UV_DISCONNECT : UV_READABLE;

        if (!s->watch)
                return;
        if (wslay_event_want_write(s->wslay))
                events |= UV_WRITABLE;
        watch_set(s->watch, events);
}

/* -1: the socket is gone. */
static int flush(struct websocket *s)
{
        int was_sending;

        do {
                was_sending = s->is_sending;
                if (wslay_event_send(s->wslay) != 0) {
                        close_now(s);
                        return -1;
                }
                if (was_sending && !s->is_closing && wslay_event_get_queued_msg_count(s->wslay) == 0) {
                        s->is_sending = 0;
                        s->queued = 0;
                        s->handler->on_sent(s->data); /* may send the next */
                }
        } while (s->watch && s->is_sending && !was_sending);
        return s->watch ? 0 : -1;
}

static int is_done(struct websocket *s)
{
        if (s->is_closing || !wslay_event_want_read(s->wslay))
                return !wslay_event_want_write(s->wslay);
        return wslay_event_get_queued_msg_count(s->wslay) > CONTROL_MAX + s->queued;
}

static void serve(struct websocket *s, int readable)
{
        s->reads = 0;
        if (readable && wslay_event_recv(s->wslay) != 0) {
                close_now(s);
                return;
        }
        if (!s->watch || flush(s) < 0)
                return;
        if (!is_done(s)) {
                update_watch(s);
                return;
        }
        /* A peer that still sends, as one of a message that is too long, gets our close frame. */
        if (wslay_event_get_close_sent(s->wslay) && !wslay_event_get_close_received(s->wslay))
                s->request->connection->unread_bytes = DISCARD_TIMES * (uint64_t)s->message_bytes_max;
        close_now(s);
}

static void on_event(void *data, int status, int events)
{
        struct websocket *s = data;

        if (status < 0 || (events & UV_DISCONNECT))
                close_now(s);
        else
                serve(s, events & UV_READABLE);
}

/* -- opening -------------------------------------------------------------------------------------------------- */

static int watch(struct websocket *s)
{
        static const struct wslay_event_callbacks callbacks = {
                .recv_callback = on_recv,
                .send_callback = on_send,
                .on_msg_recv_callback = on_message,
        };
        int r;

        if (wslay_event_context_server_init(&s->wslay, &callbacks, s) != 0)
                return -ENOMEM;
        wslay_event_config_set_max_recv_msg_length(s->wslay, s->message_bytes_max);
        r = watch_new(s->request->server->options.loop, s->fd, &s->watch);
        if (r == 0)
                watch_on_event(s->watch, on_event, s);
        return r;
}

static void on_upgrade(void *data, struct MHD_Connection *mhd, void *slot, const char *extra, size_t extra_size,
                       MHD_socket fd, struct MHD_UpgradeResponseHandle *urh)
{
        struct websocket *s = data;

        (void)mhd;
        (void)slot;
        s->urh = urh;
        s->fd = fd;
        s->extra = BUF_INIT(extra_size);
        if (watch(s) < 0 || buf_append(&s->extra, extra, extra_size) < 0) {
                close_now(s);
                return;
        }
        s->handler->on_open(s->data, s);
        serve(s, 1);
}

static void make_accept(const char *key, char *ret, size_t size)
{
        _cleanup_buf_ struct buf text = BUF_INIT(64);
        uint8_t digest[SHA1_DIGEST_SIZE];
        struct sha1_ctx hash;

        sha1_init(&hash);
        sha1_update(&hash, strlen(key), (const uint8_t *)key);
        sha1_update(&hash, strlen(GUID), (const uint8_t *)GUID);
        sha1_digest(&hash, sizeof(digest), digest);
        if (base64_encode(&text, digest, sizeof(digest)) < 0 || text.size >= size)
                text.size = 0;
        memcpy(ret, text.data ? text.data : "", text.size);
        ret[text.size] = '\0';
}

static int check(const struct http_request *request, struct cloche_err *e)
{
        const char *upgrade = http_request_header(request, "Upgrade"),
                   *version = http_request_header(request, "Sec-WebSocket-Version");
        const char *key = http_request_header(request, "Sec-WebSocket-Key");

        if (!upgrade || strcasecmp(upgrade, "websocket") != 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "expected a WebSocket: the header Upgrade must be websocket");
        if (!version || strcmp(version, "13") != 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the header Sec-WebSocket-Version must be 13");
        if (!key || strlen(key) != KEY_SIZE)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the header Sec-WebSocket-Key must have %d characters",
                               KEY_SIZE);
        return 0;
}

int http_upgrade(struct http_request *request, const struct websocket_handler *handler, void *data,
                 size_t message_bytes_max, struct cloche_err *e)
{
        struct websocket *s;
        int r = check(request, e);

        if (r < 0)
                return r;
        s = calloc(1, sizeof(*s));
        request->response = s ? MHD_create_response_for_upgrade(on_upgrade, s) : NULL;
        if (!request->response) {
                free(s);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "open a WebSocket");
        }
        *s = (struct websocket){.request = request,
                                .handler = handler,
                                .data = data,
                                .message_bytes_max = message_bytes_max,
                                .fd = -1};
        request->websocket = s;
        request->status = MHD_HTTP_SWITCHING_PROTOCOLS;
        make_accept(http_request_header(request, "Sec-WebSocket-Key"), s->accept, sizeof(s->accept));
        MHD_add_response_header(request->response, MHD_HTTP_HEADER_UPGRADE, "websocket");
        MHD_add_response_header(request->response, "Sec-WebSocket-Accept", s->accept);
        http_request_put_headers(request);
        http_request_resume(request);
        return 0;
}

/* -- using ---------------------------------------------------------------------------------------------------- */

int websocket_queue(struct websocket *s, int is_text, const void *bytes, size_t size)
{
        const struct wslay_event_msg message = {.opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
                                                .msg = bytes,
                                                .msg_length = size};

        if (!s->is_sending)
                s->progress_ns = clock_now_ns();
        if (!s->watch || s->is_closing || wslay_event_queue_msg(s->wslay, &message) != 0)
                return -1;
        if (wslay_event_send(s->wslay) != 0) {
                websocket_close(s, 1011, "");
                return -1;
        }
        s->is_sending = wslay_event_get_queued_msg_count(s->wslay) > 0;
        s->queued = s->is_sending ? s->queued + 1 : 0;
        update_watch(s);
        return 0;
}

int websocket_send(struct websocket *s, const void *bytes, size_t size)
{
        return websocket_queue(s, 0, bytes, size) < 0 ? -1 : !s->is_sending;
}

size_t websocket_waiting(const struct websocket *s)
{
        return s->wslay ? wslay_event_get_queued_msg_length(s->wslay) : 0;
}

void websocket_hold(struct websocket *s, int hold)
{
        s->is_held = hold;
        update_watch(s);
}

void websocket_abort(struct websocket *s)
{
        close_now(s);
}

uint64_t websocket_progress_ns(const struct websocket *s)
{
        return s->progress_ns;
}

/* The peer receives a close frame; its reply is optional. */
void websocket_close(struct websocket *s, unsigned code, const char *why)
{
        if (s->is_closing || !s->watch)
                return;
        s->is_closing = 1;
        wslay_event_shutdown_read(s->wslay);
        if (wslay_event_queue_close(s->wslay, (uint16_t)code, (const uint8_t *)why, strlen(why)) == 0)
                (void)wslay_event_send(s->wslay);
        s->is_held = 0;
        watch_set(s->watch, UV_WRITABLE | UV_DISCONNECT); /* close from the loop, not inside the caller */
}
