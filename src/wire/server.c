/* Runs in: cloche-fs, cloche-sync and cloche-egress, with the rights that the keeper left them; and
 * cloche-files, within a box. */
#include "server.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/state.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define UNSENT_BYTES_MAX (1u << 20) /* with more unsent bytes requests are not read */

static const unsigned transitions[SERVER_STATES] = {
        [SERVER_NEW] = STATE_TO(SERVER_OPEN) | STATE_TO(SERVER_CLOSING) | STATE_TO(SERVER_CLOSED),
        [SERVER_OPEN] = STATE_TO(SERVER_CLOSED),
        [SERVER_CLOSING] = STATE_TO(SERVER_CLOSED),
};

static void set_state(struct server *server, enum server_state state)
{
        STATE_CHECK(transitions, server->state, state);
        server->state = state;
}

void server_init(struct server *server, int socket_fd, const struct server_options *options)
{
        *server = (struct server){.options = *options};
        wire_transport_init(&server->transport, socket_fd, options->request_bytes_max, options->reply_bytes_max);
}

void server_done(struct server *server)
{
        while (server->arrived_count)
                fd_close(&server->arrived[--server->arrived_count]);
        wire_transport_done(&server->transport);
}

size_t server_unsent(const struct server *server)
{
        return wire_transport_unsent(&server->transport);
}

static int flush(struct server *server)
{
        return wire_transport_flush(&server->transport) < 0 ? -1 : 0;
}

/* -- replies ---------------------------------------------------------------------------------------------------- */

int server_notify(struct server *server, const char *method, json_t *params)
{
        int r;

        if (server_unsent(server) > server->options.notify_bytes_max) {
                json_decref(params);
                return -CLOCHE_E_RESOURCE;
        }
        r = rpc_notify(method, params, NULL, 0, wire_transport_out(&server->transport), NULL);
        if (r == 0 && server_unsent(server) > server->options.batch_bytes)
                (void)flush(server); /* the next turn finds that the client has closed */
        return r;
}

int server_fail(struct server *server, const json_t *id, const struct cloche_err *e)
{
        return rpc_failure(id, RPC_ERROR_NUMBER, e, wire_transport_out(&server->transport));
}

static int reply_unknown(struct server *server, const struct rpc_message *m)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "there is no method '%.40s'", m->method);
        return rpc_failure(m->id, RPC_UNKNOWN_METHOD, &e, wire_transport_out(&server->transport));
}

int server_reply(struct server *server, const json_t *id, struct server_reply *reply)
{
        struct buf *out = wire_transport_out(&server->transport);
        size_t at = out->size;
        struct cloche_err e = {0};
        int r = rpc_result(json_incref((json_t *)id), reply->result ? json_incref(reply->result) : json_object(),
                           reply->attachments.data, reply->attachments.size, out, &e);

        if (r == 0 && reply->fd >= 0 && wire_transport_attach(&server->transport, at, TAKE_FD(reply->fd)) < 0) {
                out->size = at;
                r = err_set(&e, CLOCHE_E_RESOURCE,
                            "%d descriptors wait to be received, which is the most: read the replies first",
                            SERVER_FDS_MAX);
        }
        fd_close(&reply->fd); /* unless it was taken */
        return r < 0 ? server_fail(server, id, &e) : 0;
}

int server_forward(struct server *server, const struct frame *f)
{
        return frame_build(wire_transport_out(&server->transport), f->json, f->json_size, f->attachments,
                           f->attachments_size, NULL) < 0
                       ? -1
                       : 0;
}

/* -- requests --------------------------------------------------------------------------------------------------- */

static const char *name_of_opening(const struct server *server)
{
        const struct server_method *method = server->options.methods;

        while (method->name && method->when != SERVER_OPENS)
                method++;
        return method->name ? method->name : "opening";
}

static int handle_method(struct server *server, const struct server_method *method, const struct rpc_message *m,
                         struct server_reply *reply, struct cloche_err *e)
{
        int r;

        if (method->when == SERVER_AFTER && server->state == SERVER_NEW)
                return err_set(e, CLOCHE_E_STATE, "%s: %s comes first", m->method, name_of_opening(server));
        if (method->when == SERVER_OPENS && server->state != SERVER_NEW)
                return err_set(e, CLOCHE_E_STATE, "%s: the request may be sent once only", m->method);
        r = method->handle(server->options.argument, m->params, reply, e);
        /* The client may have closed meanwhile. */
        if (method->when == SERVER_OPENS && server->state == SERVER_NEW && r <= 0)
                set_state(server, r == 0 ? SERVER_OPEN : SERVER_CLOSING);
        return r;
}

static int handle(struct server *server, const struct rpc_message *m, const struct frame *f, struct server_reply *reply,
                  struct cloche_err *e)
{
        const struct server_method *method = server->options.methods;

        while (method && method->name && strcmp(method->name, m->method) != 0)
                method++;
        if (method && method->name)
                return handle_method(server, method, m, reply, e);
        if (server->options.handle)
                return server->options.handle(server->options.argument, m, f, reply, e);
        return SERVER_UNKNOWN;
}

static int reply_cancelled(struct server *server, const json_t *id, bool is_cancelled)
{
        struct server_reply reply = {.result = json_pack("{s:b}", "cancelled", is_cancelled), .fd = -EBADF};
        int r = server_reply(server, id, &reply);

        json_decref(reply.result);
        return r;
}

static int serve_message(struct server *server, const struct rpc_message *m, const struct frame *f)
{
        struct server_reply reply = {.attachments = BUF_INIT(FRAME_BYTES_MAX), .fd = -EBADF};
        struct cloche_err e = {0};
        int r = 0;

        if (m->kind != RPC_REQUEST && (m->kind != RPC_NOTIFICATION || !server->options.handle))
                return 0;
        if (!server->options.handle && strcmp(m->method, "cancel") == 0)
                return reply_cancelled(server, m->id, false); /* its request was answered already */
        server->is_cancelled = false;
        if (m->kind == RPC_NOTIFICATION)
                (void)server->options.handle(server->options.argument, m, f, &reply, &e);
        else
                r = handle(server, m, f, &reply, &e);
        if (m->kind == RPC_REQUEST && r == SERVER_UNKNOWN)
                r = reply_unknown(server, m);
        else if (m->kind == RPC_REQUEST && r != SERVER_LATER)
                r = r < 0 ? server_fail(server, m->id, &e) : server_reply(server, m->id, &reply);
        json_decref(reply.result);
        buf_done(&reply.attachments);
        fd_close(&reply.fd);
        return r < 0 ? r : 0;
}

static int refuse_message(struct server *server, const struct rpc_message *m, const struct frame *f)
{
        struct cloche_err e = {0};

        (void)f;
        if (m->kind != RPC_REQUEST)
                return 0;
        if (strcmp(m->method, "cancel") == 0) {
                server->is_cancelled = true;
                return reply_cancelled(server, m->id, true);
        }
        err_set(&e, CLOCHE_E_STATE, "%.40s: another request is at work: wait for its reply, or cancel it", m->method);
        return server_fail(server, m->id, &e);
}

/* -- receiving -------------------------------------------------------------------------------------------------- */

int server_take_fd(struct server *server)
{
        int fd;

        if (!server->arrived_count)
                return -EBADF;
        fd = server->arrived[0];
        memmove(server->arrived, server->arrived + 1, --server->arrived_count * sizeof(fd));
        return fd;
}

/* Fails if there are more descriptors than any client sends. */
static ssize_t read_socket(void *data, char *to, size_t room)
{
        struct server *server = data;
        size_t count = SERVER_FDS_MAX - server->arrived_count;
        ssize_t n = fd_receive(server->transport.socket_fd, to, room, server->arrived + server->arrived_count, &count,
                               MSG_DONTWAIT);

        if (n >= 0)
                server->arrived_count += (unsigned)count;
        return n;
}

/* Returns 0 also if nothing was received. */
static int receive(struct server *server)
{
        size_t room;
        ssize_t n = wire_transport_receive(&server->transport, read_socket, server, &room);

        return n > 0 || n == -EAGAIN ? 0 : -1;
}

/* A client that reads slowly gets no more replies than this: each may be large. */
static bool is_full(struct server *server)
{
        return server_unsent(server) > UNSENT_BYTES_MAX &&
               (flush(server) < 0 || server_unsent(server) > UNSENT_BYTES_MAX);
}

static int take_messages(struct server *server,
                         int (*take)(struct server *server, const struct rpc_message *m, const struct frame *f))
{
        struct rpc_message m;
        struct frame frame;
        int r;

        while (server->state < SERVER_CLOSING && (take == refuse_message || !is_full(server)) &&
               (r = wire_transport_next(&server->transport, &frame, &m, &server->error)) != 0) {
                if (r < 0) {
                        if (server_fail(server, NULL, &server->error) == 0)
                                (void)flush(server);
                        return -1;
                }
                r = take(server, &m, &frame);
                rpc_message_done(&m);
                if (r < 0)
                        return -1;
        }
        return 0;
}

/* -- turns ------------------------------------------------------------------------------------------------------ */

static bool is_reading(const struct server *server)
{
        return server->state < SERVER_CLOSING && server_unsent(server) <= UNSENT_BYTES_MAX;
}

short server_events(const struct server *server)
{
        return (short)((is_reading(server) ? POLLIN : 0) | (server_unsent(server) > 0 ? POLLOUT : 0));
}

int server_turn(struct server *server)
{
        if (server->state == SERVER_CLOSED || flush(server) < 0 || take_messages(server, serve_message) < 0)
                return -1;
        /* Otherwise messages that were received still wait. */
        if (is_reading(server) && (receive(server) < 0 || take_messages(server, serve_message) < 0))
                return -1;
        /* The client may have read everything since is_full() stopped us, so that no event comes
         * for the messages that were received: take them now. */
        if (flush(server) < 0 || take_messages(server, serve_message) < 0)
                return -1;
        return server->state == SERVER_CLOSED || (server->state == SERVER_CLOSING && server_unsent(server) == 0) ? -1
                                                                                                                 : 0;
}

void server_run(struct server *server)
{
        struct pollfd polled = {.fd = server->transport.socket_fd};

        do
                polled.events = server_events(server);
        while ((poll(&polled, 1, -1) >= 0 || errno == EINTR) && server_turn(server) == 0);
}

bool server_is_cancelled(struct server *server)
{
        if (server->state == SERVER_CLOSED)
                return true;
        if (take_messages(server, refuse_message) < 0 || receive(server) < 0 ||
            take_messages(server, refuse_message) < 0) {
                set_state(server, SERVER_CLOSED);
                server->is_cancelled = true;
        }
        return server->is_cancelled;
}
