#include "daemon-client.h"

#include "base/err.h"
#include "base/fd.h"
#include "wire/rpc.h"
#include "wire/value.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define GREETING "CLOCHE1\n"
#define OUT_BYTES_MAX (256u << 20)

/* -- errors --------------------------------------------------------------------------------------------------- */

static int lost(struct cloche_err *e, int os_errno)
{
        if (os_errno && os_errno != ECONNRESET && os_errno != EPIPE)
                return err_os(e, CLOCHE_E_PROTOCOL, os_errno, "the connection to the daemon ended");
        return err_set(e, CLOCHE_E_PROTOCOL, "the connection to the daemon ended");
}

static enum cloche_code code_of(const char *name)
{
        for (unsigned code = 1; name && code < CLOCHE_CODE_COUNT; code++)
                if (strcmp(cloche_code_name(code), name) == 0)
                        return (enum cloche_code)code;
        return CLOCHE_E_INTERNAL;
}

/* -- opening -------------------------------------------------------------------------------------------------- */

static int connect_unix(const char *path, int *ret, struct cloche_err *e)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_fd_ int fd = -EBADF;

        if (strlen(path) >= sizeof(address.sun_path))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path of the daemon's socket has %zu bytes, at most %zu are possible", strlen(path),
                               sizeof(address.sun_path) - 1);
        strcpy(address.sun_path, path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a socket");
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return err_os(e, errno == EACCES || errno == EPERM ? CLOCHE_E_FORBIDDEN : CLOCHE_E_NOT_FOUND, errno, "no daemon answers at '%s'", path);
        *ret = TAKE_FD(fd);
        return 0;
}

static int greet(struct daemon_client *c, struct cloche_err *e)
{
        struct daemon_told told = {0};
        int r = buf_append(&c->out, GREETING, strlen(GREETING));

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "greet the daemon");
        r = daemon_call(c, "hello", json_pack("{s:i, s:s}", "protocol", 1, "client", "cloche " CLOCHE_VERSION), NULL, 0, &told, e);
        daemon_told_done(&told);
        return r;
}

int daemon_open(const char *path, struct daemon_client *ret, struct cloche_err *e)
{
        int r;

        *ret = (struct daemon_client){.fd = -EBADF, .out = BUF_INIT(OUT_BYTES_MAX)};
        frame_reader_init(&ret->in, FRAME_BYTES_MAX);
        r = connect_unix(path, &ret->fd, e);
        if (r == 0)
                r = greet(ret, e);
        if (r < 0)
                daemon_close(ret);
        return r;
}

void daemon_close(struct daemon_client *c)
{
        fd_close(&c->fd);
        frame_reader_done(&c->in);
        buf_done(&c->out);
}

/* -- messages ------------------------------------------------------------------------------------------------- */

int daemon_ask(struct daemon_client *c, const char *method, json_t *params, const void *attachments, size_t attachments_size, json_int_t *ret_id,
               struct cloche_err *e)
{
        if (!params)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a word of what is asked is not text in UTF-8");
        *ret_id = ++c->last_id;
        return rpc_request(json_integer(c->last_id), method, params, attachments, attachments_size, &c->out, e);
}

static void read_event(const struct rpc_message *message, struct daemon_told *ret)
{
        const json_t *id = json_object_get(message->params, "id");

        ret->event = json_string_value(json_object_get(message->params, "event"));
        ret->body = json_object_get(message->params, "about");
        ret->id = json_integer_value(id);
        ret->kind = strcmp(message->method, "event") == 0 && json_is_integer(id) && ret->event ? DAEMON_EVENT : DAEMON_NOTHING;
}

static void read_failure(const struct rpc_message *message, struct daemon_told *ret)
{
        const char *name = json_string_value(json_object_get(json_object_get(message->error, "data"), "name"));

        ret->kind = DAEMON_FAILURE;
        /* A daemon that does not know a method is older than this program; the caller is at fault, if anybody. */
        if (message->error_code == -32601)
                err_set(&ret->e, CLOCHE_E_INVALID_ARGUMENT, "the daemon is too old: %s", message->error_message);
        else
                err_set(&ret->e, code_of(name), "%s", message->error_message);
}

static int read_message(const struct frame *frame, struct daemon_told *ret, struct cloche_err *e)
{
        struct rpc_message message;
        int r = rpc_parse(frame, &message, e);

        if (r < 0)
                return r;
        *ret = (struct daemon_told){
                .root = message.root, .attachments = frame->attachments, .attachments_size = frame->attachments_size, .id = json_integer_value(message.id),
        };
        if (message.kind == RPC_NOTIFICATION)
                read_event(&message, ret);
        if (message.kind == RPC_ERROR)
                read_failure(&message, ret);
        if (message.kind == RPC_RESULT)
                *ret = (struct daemon_told){.kind = DAEMON_ANSWER, .root = ret->root, .attachments = ret->attachments,
                                            .attachments_size = ret->attachments_size, .id = ret->id, .body = message.result};
        return 0;
}

int daemon_next(struct daemon_client *c, struct daemon_told *ret, struct cloche_err *e)
{
        struct frame frame;

        for (;;) {
                int r = frame_reader_next(&c->in, &frame, e);

                if (r <= 0)
                        return r;
                r = read_message(&frame, ret, e);
                if (r < 0)
                        return r;
                if (ret->kind != DAEMON_NOTHING)
                        return 1;
                daemon_told_done(ret);
        }
}

void daemon_told_done(struct daemon_told *told)
{
        json_decref(told->root);
        *told = (struct daemon_told){0};
}

/* -- moving bytes --------------------------------------------------------------------------------------------- */

short daemon_wants(const struct daemon_client *c)
{
        return (short)(POLLIN | (c->out.size ? POLLOUT : 0));
}

static int push(struct daemon_client *c, struct cloche_err *e)
{
        ssize_t n = send(c->fd, c->out.data, c->out.size, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR && errno != EAGAIN)
                return lost(e, errno);
        buf_consume(&c->out, n > 0 ? (size_t)n : 0);
        return 0;
}

static int pull(struct daemon_client *c, struct cloche_err *e)
{
        size_t room;
        char *at = frame_reader_room(&c->in, &room);
        ssize_t n;

        if (!at)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read from the daemon");
        n = recv(c->fd, at, room, MSG_DONTWAIT);
        if (n == 0)
                return lost(e, 0);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
                return lost(e, errno);
        frame_reader_filled(&c->in, n > 0 ? (size_t)n : 0);
        return 0;
}

int daemon_move(struct daemon_client *c, short happened, struct cloche_err *e)
{
        /* Read first: why the daemon closes stands in what it sent. */
        int r = happened & (POLLIN | POLLERR | POLLHUP) ? pull(c, e) : 0;

        return r == 0 && happened & POLLOUT && c->out.size ? push(c, e) : r;
}

static int wait_and_move(struct daemon_client *c, struct cloche_err *e)
{
        struct pollfd polled = {.fd = c->fd, .events = daemon_wants(c)};

        if (poll(&polled, 1, -1) < 0)
                return errno == EINTR ? 0 : err_os(e, CLOCHE_E_RESOURCE, errno, "wait for the daemon");
        return daemon_move(c, polled.revents, e);
}

int daemon_call(struct daemon_client *c, const char *method, json_t *params, const void *attachments, size_t attachments_size,
                struct daemon_told *ret, struct cloche_err *e)
{
        json_int_t id = 0;
        int r = daemon_ask(c, method, params, attachments, attachments_size, &id, e);

        while (r == 0) {
                r = daemon_next(c, ret, e);
                if (r == 1 && ret->id == id && ret->kind != DAEMON_EVENT)
                        break;
                if (r == 1)
                        daemon_told_done(ret);
                r = r == 0 ? wait_and_move(c, e) : r < 0 ? r : 0;
        }
        if (r < 0)
                return r;
        if (ret->kind == DAEMON_ANSWER)
                return 0;
        *e = ret->e;
        daemon_told_done(ret);
        return -e->code;
}

/* -- values --------------------------------------------------------------------------------------------------- */

int daemon_bytes(const struct daemon_told *told, const json_t *value, const char *what, const void **ret, size_t *ret_size, struct cloche_err *e)
{
        const json_t *at = json_object_get(value, "at"), *size = json_object_get(value, "n");
        const char *kind = json_string_value(json_object_get(value, "$"));
        json_int_t last = (json_int_t)told->attachments_size;

        if (json_is_string(value)) {
                *ret = json_string_value(value);
                *ret_size = json_string_length(value);
                return 0;
        }
        if (!kind || strcmp(kind, "bytes") != 0 || !json_is_integer(at) || !json_is_integer(size) || json_integer_value(at) < 0 ||
            json_integer_value(size) < 0 || json_integer_value(size) > last || json_integer_value(at) > last - json_integer_value(size))
                return err_set(e, CLOCHE_E_PROTOCOL, "the daemon's %s is neither text nor bytes", what);
        *ret = told->attachments + json_integer_value(at);
        *ret_size = (size_t)json_integer_value(size);
        return 0;
}

int daemon_text_form(const struct daemon_told *told, json_t **ret, struct cloche_err *e)
{
        return value_to_text(told->body, told->attachments, told->attachments_size, ret, e);
}
