#include "server.h"

#include "base/err.h"
#include "base/fd.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define WAITING_BYTES_MAX (1u << 20) /* with more unsent bytes requests are not read */
#define KEPT_BYTES (256u << 10)      /* of memory for replies, kept between two of them */
#define ERROR_NUMBER (-32000)

void server_init(struct server *server, int socket_fd, const struct server_options *options)
{
        *server =
                (struct server){.socket_fd = socket_fd, .options = *options, .out = BUF_INIT(options->reply_bytes_max)};
        frame_reader_init(&server->in, options->request_bytes_max);
}

void server_done(struct server *server)
{
        while (server->leaving_count)
                fd_close(&server->leaving[--server->leaving_count].fd);
        while (server->arrived_count)
                fd_close(&server->arrived[--server->arrived_count]);
        buf_done(&server->out);
        frame_reader_done(&server->in);
}

static size_t waiting(const struct server *server)
{
        return server->out.size - server->sent;
}

/* -- sending ---------------------------------------------------------------------------------------------------- */

union fd_message {
        struct cmsghdr header;
        char room[CMSG_SPACE(SERVER_FDS_MAX * sizeof(int))];
};

/* Send up to the next reply with a descriptor: a descriptor is sent with the first byte of its reply. */
static ssize_t send_piece(struct server *server)
{
        bool has_fd = server->leaving_count > 0 && server->leaving[0].at == server->sent;
        unsigned next = has_fd;
        size_t end = next < server->leaving_count ? server->leaving[next].at : server->out.size;
        struct iovec iov = {server->out.data + server->sent, end - server->sent};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
        union fd_message control = {0};

        if (has_fd) {
                msg.msg_control = control.room;
                msg.msg_controllen = CMSG_SPACE(sizeof(int));
                control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
                                                  .cmsg_level = SOL_SOCKET,
                                                  .cmsg_type = SCM_RIGHTS};
                memcpy(CMSG_DATA(&control.header), &server->leaving[0].fd, sizeof(int));
        }
        return sendmsg(server->socket_fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void drop_sent(struct server *server)
{
        size_t max = server->out.max;

        if (waiting(server) == 0 && server->out.room > KEPT_BYTES) {
                buf_done(&server->out);
                server->out = BUF_INIT(max);
        } else {
                buf_consume(&server->out, server->sent);
        }
        for (unsigned i = 0; i < server->leaving_count; i++)
                server->leaving[i].at -= server->sent;
        server->sent = 0;
}

static int flush(struct server *server)
{
        while (waiting(server) > 0) {
                ssize_t n = send_piece(server);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EAGAIN)
                        return -1;
                if (n < 0)
                        break;
                if (server->leaving_count > 0 && server->leaving[0].at == server->sent) {
                        fd_close(&server->leaving[0].fd);
                        memmove(server->leaving, server->leaving + 1,
                                --server->leaving_count * sizeof(server->leaving[0]));
                }
                server->sent += (size_t)n;
        }
        /* No more is moved than was sent since the last time. */
        if (server->sent >= server->out.size / 2)
                drop_sent(server);
        return 0;
}

/* Sent bytes must not take the place of messages when the buffer is nearly full. */
static void make_room(struct server *server)
{
        if (server->sent > 0 && server->out.size > server->out.max / 2)
                drop_sent(server);
}

int server_notify(struct server *server, const char *method, json_t *params)
{
        int r;

        if (waiting(server) > server->options.notify_bytes_max) {
                json_decref(params);
                return -CLOCHE_E_RESOURCE;
        }
        make_room(server);
        r = rpc_notify(method, params, NULL, 0, &server->out, NULL);
        if (r == 0 && waiting(server) > server->options.batch_bytes)
                (void)flush(server); /* the next turn finds that the client has closed */
        return r;
}

/* -- replies ---------------------------------------------------------------------------------------------------- */

static int reply_error(struct server *server, json_t *id, const struct cloche_err *e)
{
        json_t *data = json_pack("{s:s, s:s*}", "code", cloche_code_name((unsigned)e->code), "reason",
                                 e->os_errno == EBUSY ? "busy" : NULL);

        make_room(server);
        return rpc_error(json_incref(id), ERROR_NUMBER, e->msg, data, &server->out, NULL);
}

/* The reply is stolen. */
static int reply_result(struct server *server, json_t *id, struct server_reply *reply)
{
        struct cloche_err e = {0};
        size_t at;
        int r = 0;

        make_room(server);
        at = server->out.size;
        if (reply->fd >= 0 && server->leaving_count == SERVER_FDS_MAX)
                r = err_set(&e, CLOCHE_E_RESOURCE,
                            "%d descriptors wait to be received, which is the most: read the replies first",
                            SERVER_FDS_MAX);
        if (r == 0)
                r = rpc_result(json_incref(id), reply->result ? json_incref(reply->result) : json_object(),
                               reply->attachments.data, reply->attachments.size, &server->out, &e);
        if (r < 0)
                return reply_error(server, id, &e);
        if (reply->fd >= 0) {
                server->leaving[server->leaving_count].at = at;
                server->leaving[server->leaving_count++].fd = TAKE_FD(reply->fd);
        }
        return 0;
}

/* -- requests --------------------------------------------------------------------------------------------------- */

static const char *name_of_opening(const struct server *server)
{
        const struct server_method *method = server->options.methods;

        while (method->name && method->when != SERVER_OPENS)
                method++;
        return method->name ? method->name : "opening";
}

static int handle(struct server *server, const struct rpc_message *m, struct server_reply *reply, struct cloche_err *e)
{
        const struct server_method *method = server->options.methods;
        int r;

        while (method->name && strcmp(method->name, m->method) != 0)
                method++;
        if (!method->name)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no method '%.40s'", m->method);
        if (method->when == SERVER_AFTER && !server->is_open)
                return err_set(e, CLOCHE_E_STATE, "%s: %s comes first", m->method, name_of_opening(server));
        if (method->when == SERVER_OPENS && server->is_open)
                return err_set(e, CLOCHE_E_STATE, "%s: this was done already", m->method);
        r = method->handle(server->options.argument, m->params, reply, e);
        if (method->when == SERVER_OPENS) {
                server->is_open = r == 0;
                server->is_closing = r < 0;
        }
        return r;
}

static int reply_cancelled(struct server *server, json_t *id, bool is_cancelled)
{
        struct server_reply reply = {.result = json_pack("{s:b}", "cancelled", is_cancelled), .fd = -EBADF};
        int r = reply_result(server, id, &reply);

        json_decref(reply.result);
        return r;
}

static int serve_message(struct server *server, const struct rpc_message *m)
{
        struct server_reply reply = {.attachments = BUF_INIT(FRAME_BYTES_MAX), .fd = -EBADF};
        struct cloche_err e = {0};
        int r;

        if (m->kind != RPC_REQUEST)
                return 0;
        if (strcmp(m->method, "cancel") == 0)
                return reply_cancelled(server, m->id, false); /* its request was answered already */
        server->is_cancelled = false;
        r = handle(server, m, &reply, &e);
        r = r < 0 ? reply_error(server, m->id, &e) : reply_result(server, m->id, &reply);
        json_decref(reply.result);
        buf_done(&reply.attachments);
        fd_close(&reply.fd);
        return r;
}

static int refuse_message(struct server *server, const struct rpc_message *m)
{
        struct cloche_err e = {0};

        if (m->kind != RPC_REQUEST)
                return 0;
        if (strcmp(m->method, "cancel") == 0) {
                server->is_cancelled = true;
                return reply_cancelled(server, m->id, true);
        }
        err_set(&e, CLOCHE_E_STATE, "%.40s: another request is at work: wait for its reply, or cancel it", m->method);
        return reply_error(server, m->id, &e);
}

/* -- receiving -------------------------------------------------------------------------------------------------- */

/* Returns -1 if there are more descriptors than any client sends. */
static int keep_arrived(struct server *server, const struct msghdr *msg)
{
        const struct cmsghdr *header = CMSG_FIRSTHDR(msg);
        bool has_fds = header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS;
        size_t count = has_fds ? (header->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
        bool fits = !(msg->msg_flags & MSG_CTRUNC);

        for (size_t i = 0; i < count; i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
                if (server->arrived_count < SERVER_FDS_MAX) {
                        server->arrived[server->arrived_count++] = fd;
                } else {
                        fd_close(&fd);
                        fits = false;
                }
        }
        return fits ? 0 : -1;
}

int server_take_fd(struct server *server)
{
        int fd;

        if (!server->arrived_count)
                return -EBADF;
        fd = server->arrived[0];
        memmove(server->arrived, server->arrived + 1, --server->arrived_count * sizeof(fd));
        return fd;
}

/* Returns 0 also if nothing was received. */
static int receive(struct server *server)
{
        union fd_message control;
        size_t room = 0;
        char *at = frame_reader_room(&server->in, &room);
        struct iovec iov = {at, room};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
        ssize_t n = at ? recvmsg(server->socket_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) : 0;

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (n == 0 || keep_arrived(server, &msg) < 0)
                return -1;
        frame_reader_filled(&server->in, (size_t)n);
        return 0;
}

static int take_messages(struct server *server, int (*take)(struct server *server, const struct rpc_message *m))
{
        struct frame frame;
        int r;

        while (!server->is_closing && (r = frame_reader_next(&server->in, &frame, NULL)) != 0) {
                struct rpc_message m;

                if (r < 0 || rpc_parse(&frame, &m, NULL) < 0)
                        return -1;
                r = take(server, &m);
                rpc_message_done(&m);
                if (r < 0)
                        return -1;
        }
        return 0;
}

/* -- turns ------------------------------------------------------------------------------------------------------ */

static bool is_reading(const struct server *server)
{
        return !server->is_closing && waiting(server) <= WAITING_BYTES_MAX;
}

short server_events(const struct server *server)
{
        return (short)((is_reading(server) ? POLLIN : 0) | (waiting(server) > 0 ? POLLOUT : 0));
}

int server_turn(struct server *server)
{
        if (server->is_gone || flush(server) < 0)
                return -1;
        if (is_reading(server) &&
            (receive(server) < 0 || take_messages(server, serve_message) < 0 || flush(server) < 0))
                return -1;
        return server->is_gone || (server->is_closing && waiting(server) == 0) ? -1 : 0;
}

void server_run(struct server *server)
{
        struct pollfd polled = {.fd = server->socket_fd};

        do
                polled.events = server_events(server);
        while ((poll(&polled, 1, -1) >= 0 || errno == EINTR) && server_turn(server) == 0);
}

bool server_is_cancelled(struct server *server)
{
        if (take_messages(server, refuse_message) < 0 || receive(server) < 0 ||
            take_messages(server, refuse_message) < 0)
                server->is_gone = server->is_cancelled = true;
        return server->is_cancelled;
}
