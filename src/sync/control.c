#include "control.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define OUT_MAX (1u << 30)
#define SEND_SIZE (256u << 10) /* bytes queued before a system call is worthwhile */

int control_init(struct control *control, int fd, const struct control_method *methods, void *argument)
{
        *control = (struct control){.fd = fd, .out = BUF_INIT(OUT_MAX), .flush_at = SEND_SIZE, .methods = methods, .argument = argument};
        frame_reader_init(&control->in, FRAME_JSON_BYTES_MAX);
        return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

void control_done(struct control *control)
{
        frame_reader_done(&control->in);
        buf_done(&control->out);
}

/* -- sending -------------------------------------------------------------------------------------------------- */

static void flush(struct control *control)
{
        while (control->sent < control->out.size) {
                ssize_t n = send(control->fd, control->out.data + control->sent, control->out.size - control->sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        control->gone |= errno != EAGAIN;
                        break;
                }
                control->sent += (size_t)n;
        }
        control->flush_at = control->out.size + SEND_SIZE;
        if (control->sent < control->out.size)
                return;
        buf_consume(&control->out, control->sent);
        control->sent = 0;
        control->flush_at = SEND_SIZE;
}

void control_tell(struct control *control, const char *method, json_t *params)
{
        if (control->gone || rpc_notify(method, params, NULL, 0, &control->out, NULL) < 0)
                return;
        if (control->out.size >= control->flush_at)
                flush(control);
}

static void answer(struct control *control, const json_t *id, json_t *result, const struct cloche_err *e)
{
        json_t *data;
        struct cloche_err failure;

        if (result && rpc_result(json_incref((json_t *)(uintptr_t)id), result, NULL, 0, &control->out, &failure) == 0)
                return;
        e = result ? &failure : e;
        data = json_pack("{s:s, s:s*}", "code", cloche_code_name(e->code), "reason", e->os_errno == EBUSY ? "busy" : NULL);
        if (rpc_error(json_incref((json_t *)(uintptr_t)id), -32000, e->msg, data, &control->out, NULL) < 0)
                control->gone = true;
}

/* -- receiving ------------------------------------------------------------------------------------------------ */

static void receive(struct control *control)
{
        size_t room;
        char *at = frame_reader_room(&control->in, &room);
        ssize_t n = at ? recv(control->fd, at, room, MSG_DONTWAIT) : 0;

        if (n > 0)
                frame_reader_filled(&control->in, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
                control->gone = true;
}

/* 1: *ret is a message; 0: none yet. An invalid message closes the connection. */
static int next_message(struct control *control, struct rpc_message *ret)
{
        struct frame frame;
        int r = frame_reader_next(&control->in, &frame, NULL);

        if (r > 0 && rpc_parse(&frame, ret, NULL) == 0)
                return 1;
        control->gone |= r != 0;
        return 0;
}

static int call(struct control *control, const struct rpc_message *m, json_t **ret, struct cloche_err *e)
{
        for (const struct control_method *method = control->methods; method->name; method++) {
                int r;

                if (strcmp(method->name, m->method) != 0)
                        continue;
                if (method->first == control->configured)
                        return err_set(e, CLOCHE_E_STATE, method->first ? "%s: it is done already" : "%s: configure comes first",
                                       m->method);
                r = method->call(control->argument, m->params, ret, e);
                control->configured |= r == 0 && method->first;
                control->gone |= r < 0 && method->first;
                return r;
        }
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no method '%.40s'", m->method);
}

static void serve_message(struct control *control, const struct rpc_message *m)
{
        struct cloche_err e = {0};
        json_t *result = NULL;
        int r;

        if (m->kind != RPC_REQUEST)
                return;
        if (strcmp(m->method, "cancel") == 0) {
                answer(control, m->id, json_pack("{s:b}", "cancelled", 0), NULL); /* too late or idle */
                return;
        }
        control->cancelled = false;
        r = call(control, m, &result, &e);
        answer(control, m->id, r == 0 ? result ? result : json_object() : NULL, &e);
}

void control_serve(struct control *control)
{
        while (!control->gone) {
                struct pollfd fd = {control->fd, (short)(POLLIN | (control->out.size ? POLLOUT : 0)), 0};
                struct rpc_message m;

                if (poll(&fd, 1, -1) < 0 && errno != EINTR)
                        return;
                if (fd.revents & (POLLIN | POLLHUP | POLLERR))
                        receive(control);
                while (!control->gone && next_message(control, &m) > 0) {
                        serve_message(control, &m);
                        rpc_message_done(&m);
                }
                flush(control);
        }
}

/* -- while a request runs -------------------------------------------------------------------------------------- */

static void meet_message(struct control *control, const struct rpc_message *m)
{
        struct cloche_err e = {0};

        if (m->kind != RPC_REQUEST)
                return;
        if (strcmp(m->method, "cancel") == 0) {
                control->cancelled = true;
                answer(control, m->id, json_pack("{s:b}", "cancelled", 1), NULL);
        } else {
                err_set(&e, CLOCHE_E_STATE, "%.40s: another request is at work", m->method);
                answer(control, m->id, NULL, &e);
        }
}

bool control_is_cancelled(struct control *control)
{
        struct pollfd fd = {control->fd, POLLIN, 0};
        struct rpc_message m;

        while (!control->gone && next_message(control, &m) > 0) {
                meet_message(control, &m);
                rpc_message_done(&m);
        }
        if (!control->gone && poll(&fd, 1, 0) > 0) {
                receive(control);
                while (!control->gone && next_message(control, &m) > 0) {
                        meet_message(control, &m);
                        rpc_message_done(&m);
                }
        }
        return control->cancelled || control->gone;
}
