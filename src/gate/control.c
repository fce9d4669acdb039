#include "control.h"

#include "gate.h"

#include "base/err.h"
#include "base/fd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define REQUEST_MAX (1u << 20)
#define OUT_MAX (1u << 20)
#define TOLD_MAX (OUT_MAX / 2) /* share of it for notifications */
#define ERROR_CODE (-32000)

/* -- sending ------------------------------------------------------------------------------------------------------ */

static void on_control(uv_poll_t *poll, int status, int events);

static void flush(struct control *control)
{
        while (control->out.size > 0) {
                ssize_t n = send(control->fd, control->out.data, control->out.size, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        break; /* the reading side detects a closed socket */
                buf_consume(&control->out, (size_t)n);
        }
        uv_poll_start(&control->poll, UV_READABLE | (control->out.size > 0 ? UV_WRITABLE : 0), on_control);
}

int control_tell(struct control *control, const char *method, json_t *params)
{
        int r;

        if (control->out.size > TOLD_MAX) {
                json_decref(params);
                return -CLOCHE_E_RESOURCE;
        }
        r = rpc_notify(method, params, NULL, 0, &control->out, NULL);
        flush(control);
        return r;
}

void control_tick(struct control *control)
{
        struct gate *gate = control->gate;
        uint64_t now[5] = {gate->count, gate->accepted, 0, 0, gate->resolver.queries};

        connections_stats(gate, &now[2], &now[3]);
        if (!control->is_started || memcmp(now, control->told, sizeof(now)) == 0)
                return;
        if (control_tell(control, "stats", json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "connections", (json_int_t)now[0], "connectionsTotal", (json_int_t)now[1],
                                                     "bytesIn", (json_int_t)now[2], "bytesOut", (json_int_t)now[3], "queries", (json_int_t)now[4],
                                                     "lost", (json_int_t)gate->report.lost)) == 0)
                memcpy(control->told, now, sizeof(now));
}

/* -- requests ----------------------------------------------------------------------------------------------------- */

static int do_policy(struct gate *gate, const json_t *params, json_t **ret, struct cloche_err *e)
{
        struct policy *policy, *old = gate->policy;
        int r = policy_load(json_object_get(params, "policy"), &policy, e);

        if (r < 0)
                return r;
        gate->policy = policy;
        if (old)
                connections_check(gate);
        policy_free(old);
        *ret = json_object();
        return 0;
}

static int do_servers(struct gate *gate, const json_t *params, json_t **ret, struct cloche_err *e)
{
        const char *servers = json_string_value(json_object_get(params, "servers"));
        int r = servers ? lookups_servers(gate->lookups, servers, e) : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "servers: expected a string");

        if (r == 0)
                *ret = json_object();
        return r;
}

/* No guest bytes are read before this request. */
static int do_start(struct gate *gate, const json_t *params, json_t **ret, struct cloche_err *e)
{
        json_t *ignored = NULL;
        int r = gate->policy ? err_set(e, CLOCHE_E_STATE, "it has started already") : do_servers(gate, params, &ignored, e);

        json_decref(ignored);
        ignored = NULL;
        if (r == 0)
                r = do_policy(gate, params, &ignored, e);
        json_decref(ignored);
        if (r == 0)
                r = guard_enter(json_object_get(params, "optional"), ret, e);
        if (r == 0)
                r = resolver_listen(&gate->resolver, gate, gate->resolver.udp_fd, gate->resolver.tcp_fd, e);
        if (r == 0)
                r = connections_listen(gate, e);
        gate->control.is_started = r == 0;
        return r;
}

static const struct {
        const char *method;
        int after_start;
        int (*answer)(struct gate *gate, const json_t *params, json_t **ret, struct cloche_err *e);
} methods[] = {
        {"start", 0, do_start},
        {"policy", 1, do_policy},
        {"servers", 1, do_servers},
};

static int answer(struct control *control, const struct rpc_message *m, struct cloche_err *e)
{
        struct cloche_err error = {0};
        json_t *result = NULL;
        size_t i = 0;
        int r;

        while (i < sizeof(methods) / sizeof(methods[0]) && strcmp(methods[i].method, m->method) != 0)
                i++;
        if (i == sizeof(methods) / sizeof(methods[0]))
                r = err_set(&error, CLOCHE_E_PROTOCOL, "there is no request '%.60s'", m->method);
        else if (methods[i].after_start != control->is_started)
                r = err_set(&error, CLOCHE_E_STATE, "%s: it has %sstarted", m->method, control->is_started ? "" : "not ");
        else
                r = methods[i].answer(control->gate, m->params, &result, &error);
        if (r == 0)
                return rpc_result(json_incref(m->id), result, NULL, 0, &control->out, e);
        json_decref(result);
        return rpc_error(json_incref(m->id), ERROR_CODE, error.msg, json_pack("{s:s}", "code", cloche_code_name((unsigned)error.code)), &control->out, e);
}

static int take_frames(struct control *control, struct cloche_err *e)
{
        struct frame frame;
        int r;

        while ((r = frame_reader_next(&control->in, &frame, e)) > 0) {
                struct rpc_message m;

                r = rpc_parse(&frame, &m, e);
                if (r < 0)
                        return r;
                r = m.kind == RPC_REQUEST ? answer(control, &m, e) : 0;
                rpc_message_done(&m);
                if (r < 0)
                        return r;
        }
        return r;
}

/* The gate exits with its engine; the kernel closes the rest. */
static void on_control(uv_poll_t *poll, int status, int events)
{
        struct control *control = poll->data;
        struct cloche_err e = {0};
        size_t room;
        char *to = frame_reader_room(&control->in, &room);
        ssize_t n = status < 0 || !to ? 0 : (events & UV_READABLE) ? recv(control->fd, to, room, MSG_DONTWAIT) : -1;

        if (n == 0 || (n < 0 && (events & UV_READABLE) && errno != EAGAIN && errno != EINTR)) {
                uv_stop(&control->gate->loop);
                return;
        }
        if (n > 0) {
                frame_reader_filled(&control->in, (size_t)n);
                if (take_frames(control, &e) < 0) {
                        uv_stop(&control->gate->loop);
                        return;
                }
        }
        flush(control);
}

int control_open(struct control *control, struct gate *gate, int fd, struct cloche_err *e)
{
        int r = uv_poll_init(&gate->loop, &control->poll, fd);

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the engine's socket");
        control->gate = gate;
        control->fd = fd;
        control->out = BUF_INIT(OUT_MAX);
        control->poll.data = control;
        frame_reader_init(&control->in, REQUEST_MAX);
        uv_poll_start(&control->poll, UV_READABLE, on_control);
        return 0;
}
