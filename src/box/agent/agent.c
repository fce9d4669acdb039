/* Runs in: the agents in C, within a box, with the rights of the user's code. */
#include "agent-internal.h"

#include "base/err.h"
#include "box/join/guest.h"
#include "wire/rpc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ERROR_PARSE (-32700)
#define ERROR_NO_METHOD (-32601)
#define ERROR_INVALID_PARAMS (-32602)
#define ERROR_CANNOT_FREEZE (-32001)
#define CONTINUE (-1) /* no exit status */
#define BRIDGE_METHOD "bridge"

struct agent {
        const struct agent_language *language;
        void *data;
        struct agent_channel channel;
        const json_t *id; /* of the current request */
        int is_template, is_frozen, is_preparing, is_rehearsing;
};

static struct agent agent; /* one per process: it uses descriptor 3 */

void *agent_data(const struct agent *a)
{
        return a->data;
}

int agent_is_preparing(const struct agent *a)
{
        return a->is_preparing;
}

int agent_is_rehearsing(const struct agent *a)
{
        return a->is_rehearsing;
}

/* -- answering ------------------------------------------------------------------------------------------------ */

/* A process that the code forked must not answer. */
static int send_frame(struct agent *a, const struct buf *frame)
{
        if (a->is_rehearsing)
                return 0;
        if (getpid() != a->channel.pid)
                _exit(0);
        return agent_channel_write(&a->channel, frame->data, frame->size);
}

static int send_error(struct agent *a, const json_t *id, int code, const char *message, json_t *data)
{
        _cleanup_buf_ struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        json_t *text = agent_text(message, strlen(message));
        struct cloche_err e;
        int r = rpc_error(json_incref((json_t *)id), code, json_string_value(text), data, &out, &e);

        json_decref(text);
        return r < 0 ? -1 : send_frame(a, &out);
}

static int refuse_params(struct agent *a, const json_t *id, const struct cloche_err *e)
{
        const char *type = a->language->refused ? a->language->refused : "TypeError";
        json_t *message = agent_text(e->msg, strlen(e->msg));
        json_t *data = json_pack("{s:s, s:o, s:s}", "type", type, "message", message, "stack", "");

        return send_error(a, id, ERROR_INVALID_PARAMS, e->msg, data);
}

typedef int (*handler)(struct agent *a, const struct agent_request *request, struct agent_reply *reply);

static int answer(struct agent *a, const json_t *id, const struct agent_request *request, handler handle)
{
        _cleanup_buf_ struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        struct agent_reply reply = {.result_bytes = request->result_bytes,
                                    .attachments = BUF_INIT(request->result_bytes),
                                    .is_build = handle == a->language->build};
        int r;

        a->id = id;
        if (handle(a, request, &reply) < 0 && !reply.error)
                agent_throw(&reply, "Error", NULL, "the code could not be run");
        r = reply_build(id, &reply, a->language, &out);
        reply_done(&reply);
        return r < 0 ? -1 : send_frame(a, &out);
}

void agent_fail_now(struct agent *a, const char *type, const char *message)
{
        _cleanup_buf_ struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        struct agent_reply reply = {0};

        agent_throw(&reply, type, NULL, "%s", message);
        if (reply_build(a->id, &reply, a->language, &out) == 0)
                send_frame(a, &out);
        _exit(1);
}

static int answer_call(struct agent *a, const json_t *id, struct agent_request *request)
{
        return answer(a, id, request, a->language->call) < 0 ? 1 : CONTINUE;
}

static int answer_prepare(struct agent *a, const json_t *id, struct agent_request *request)
{
        int r;

        request->result_bytes = 1024;
        a->is_preparing = 1;
        r = answer(a, id, request, a->language->prepare);
        a->is_preparing = 0;
        return r < 0 ? 1 : CONTINUE;
}

static int answer_build(struct agent *a, const json_t *id, struct agent_request *request)
{
        request->result_bytes = FRAME_BYTES_MAX / 2;
        return answer(a, id, request, a->language->build) < 0 ? 1 : CONTINUE;
}

static int answer_freeze(struct agent *a, const json_t *id)
{
        _cleanup_buf_ struct buf out = BUF_INIT(4096);
        const char *fork_blocker = NULL;
        struct cloche_err e;
        char text[1024];

        fflush(NULL);
        if (!a->is_template)
                fork_blocker = "this process was not started as a template";
        else if (a->language->hinder)
                fork_blocker = a->language->hinder(a);
        if (!fork_blocker && cloche_guest_freeze(a->channel.fd, text, sizeof(text)) < 0)
                fork_blocker = text;
        if (fork_blocker)
                return send_error(a, id, ERROR_CANNOT_FREEZE, fork_blocker, NULL) < 0 ? 1 : CONTINUE;
        cloche_guest_collapse(0);
        a->is_frozen = 1;
        if (rpc_result(json_incref((json_t *)id), json_object(), NULL, 0, &out, &e) < 0)
                return 1;
        return send_frame(a, &out) < 0 ? 1 : CONTINUE;
}

static const struct {
        const char *name;
        enum method method;
} methods[] = {{"call", METHOD_CALL},
               {"prepare", METHOD_PREPARE},
               {"run", METHOD_RUN},
               {"freeze", METHOD_FREEZE},
               {"build", METHOD_BUILD}};

static int find_method(const struct agent_language *language, const char *name)
{
        const int handled[] = {
                [METHOD_CALL] = language->call != NULL,   [METHOD_PREPARE] = language->prepare != NULL,
                [METHOD_RUN] = language->run != NULL,     [METHOD_FREEZE] = 1,
                [METHOD_BUILD] = language->build != NULL,
        };

        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
                if (strcmp(name, methods[i].name) == 0 && handled[i])
                        return (int)methods[i].method;
        return -1;
}

static const struct agent_method *find_own_method(const struct agent_language *language, const char *name)
{
        for (const struct agent_method *m = language->methods; m && m->name; m++)
                if (strcmp(m->name, name) == 0)
                        return m;
        return NULL;
}

static int answer_own_method(struct agent *a, const struct rpc_message *message, const struct agent_method *own)
{
        _cleanup_buf_ struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        struct agent_refusal refusal = {0};
        json_t *result = NULL, *data = NULL;
        struct cloche_err e;

        a->id = message->id;
        if (own->answer(a, message->params, &result, &refusal) == 0)
                return rpc_result(json_incref(message->id), result, NULL, 0, &out, &e) < 0 || send_frame(a, &out) < 0
                               ? 1
                               : CONTINUE;
        if (refusal.type)
                data = json_pack("{s:s, s:o, s:s}", "type", refusal.type, "message",
                                 agent_text(refusal.message, strlen(refusal.message)), "stack", "");
        return send_error(a, message->id, refusal.code, refusal.message, data) < 0 ? 1 : CONTINUE;
}

static int refuse_method(struct agent *a, const struct rpc_message *message)
{
        char text[128];

        snprintf(text, sizeof(text), "unknown method '%.60s'", message->method);
        return send_error(a, message->id, ERROR_NO_METHOD, text, NULL) < 0 ? 1 : CONTINUE;
}

static int handle_request(struct agent *a, enum method method, const struct rpc_message *message,
                          const struct frame *frame)
{
        struct held_request held;
        struct cloche_err e;
        int r;

        if (request_read(method, message->params, frame, &held, &e) < 0)
                r = refuse_params(a, message->id, &e) < 0 ? 1 : CONTINUE;
        else if (method == METHOD_RUN)
                r = a->language->run(a, &held.request);
        else if (method == METHOD_PREPARE)
                r = answer_prepare(a, message->id, &held.request);
        else if (method == METHOD_BUILD)
                r = answer_build(a, message->id, &held.request);
        else
                r = answer_call(a, message->id, &held.request);
        agent_request_done(&held);
        return r;
}

/* Returns CONTINUE, or the exit status of the process. */
static int handle(struct agent *a, const struct frame *frame)
{
        const struct agent_method *own;
        struct rpc_message message;
        struct cloche_err e;
        int method, r;

        if (rpc_parse(frame, &message, &e) < 0)
                return send_error(a, NULL, ERROR_PARSE, e.msg, NULL) < 0 ? 1 : CONTINUE;
        if (message.kind != RPC_REQUEST) {
                rpc_message_done(&message);
                return CONTINUE;
        }
        method = find_method(a->language, message.method);
        own = find_own_method(a->language, message.method);
        if (own)
                r = answer_own_method(a, &message, own);
        else if (method < 0)
                r = refuse_method(a, &message);
        else if (method == METHOD_FREEZE)
                r = answer_freeze(a, message.id);
        else
                r = handle_request(a, (enum method)method, &message, frame);
        rpc_message_done(&message);
        return r;
}

void agent_rehearse(struct agent *a, const char *method, json_t *params)
{
        _cleanup_buf_ struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        struct frame frame;
        struct cloche_err e;

        if (rpc_request(json_integer(0), method, params, NULL, 0, &out, &e) < 0 ||
            frame_parse(out.data, out.size, FRAME_BYTES_MAX, &frame, &e) <= 0)
                return;
        a->is_rehearsing = 1;
        handle(a, &frame);
        a->is_rehearsing = 0;
}

/* -- the life of the process ---------------------------------------------------------------------------------- */

static void lose_channel(void)
{
        agent_channel_close(&agent.channel);
}

/* Serve until the process must exit or become a template: then CONTINUE. */
static int serve(struct agent *a)
{
        struct cloche_err e;
        struct frame frame;

        while (!a->is_frozen) {
                int r = agent_channel_read(&a->channel, &frame, &e);

                if (r == 0)
                        return 0;
                if (r < 0) {
                        send_error(a, NULL, ERROR_PARSE, e.msg, NULL);
                        return 1;
                }
                r = handle(a, &frame);
                if (r != CONTINUE)
                        return r;
        }
        return CONTINUE;
}

static int open_channel(struct agent *a)
{
        return agent_channel_open(&a->channel, CLOCHE_GUEST_CHANNEL_FD, a->language->forks_send_requests);
}

/* Continue in a forked child, with its own channel. */
static int go_on_in_child(struct agent *a)
{
        int is_template;

        agent_channel_detach(&a->channel); /* the library writes to it from here on, and children close it */
        is_template = template_fork_children();
        a->is_template = is_template;
        a->is_frozen = 0;
        if (open_channel(a) < 0)
                return -1;
        if (a->language->renew)
                a->language->renew(a);
        if (!is_template && a->language->get_ready && !agent_channel_has_input(&a->channel)) {
                agent_channel_get_ready(&a->channel);
                a->language->get_ready(a);
        }
        return 0;
}

/* The library is present if the process may become a template; a cold box has none, and nothing
 * is tried. */
static int start(struct agent *a)
{
        int r = cloche_guest_start();

        if (r < 0)
                return r;
        a->is_template = r;
        if (r && a->language->warm_up)
                a->language->warm_up(a);
        return 0;
}

int agent_serve(const struct agent_language *language, void *data)
{
        int r;

        agent = (struct agent){.language = language, .data = data};
        if (open_channel(&agent) < 0 ||
            (!language->forks_send_requests && pthread_atfork(NULL, NULL, lose_channel) != 0))
                return 1;
        if (start(&agent) < 0)
                return 1;
        do
                r = serve(&agent);
        while (r == CONTINUE && go_on_in_child(&agent) == 0);
        return r == CONTINUE ? 1 : r;
}

/* -- requests to the host ---------------------------------------------------------------------------------------- */

#define GIVEN_UP 2 /* distinct from the results of agent_channel_read() */

/* Wait for the answer to this id; answers for processes that were killed meanwhile are dropped.
 * Returns 1, 0 at the end, or GIVEN_UP. */
static int await_answer(struct agent *a, uint64_t id, int (*gives_up)(void), struct rpc_message *ret,
                        struct frame *ret_frame)
{
        struct cloche_err e;

        for (;;) {
                if (gives_up && !agent_channel_await_input(&a->channel, gives_up))
                        return GIVEN_UP;
                if (agent_channel_read(&a->channel, ret_frame, &e) != 1 || rpc_parse(ret_frame, ret, &e) < 0)
                        return 0;
                if ((ret->kind == RPC_RESULT || ret->kind == RPC_ERROR) &&
                    json_integer_value(ret->id) == (json_int_t)id)
                        return 1;
                rpc_message_done(ret);
        }
}

static int keep_answer(const struct rpc_message *message, const struct frame *frame, struct agent_answer *ret)
{
        struct cloche_err e = {0};

        *ret = (struct agent_answer){0};
        ret->held = malloc(frame->attachments_size + 1);
        if (!ret->held)
                return -1;
        memcpy(ret->held, frame->attachments, frame->attachments_size);
        ret->origin.attachments = ret->held;
        ret->origin.attachments_size = frame->attachments_size;
        if (message->kind == RPC_ERROR) {
                json_t *data = json_object_get(message->error, "data");

                ret->error = json_is_object(data)
                                     ? json_incref(data)
                                     : json_pack("{s:s, s:s}", "name", "Error", "message", message->error_message);
        } else if (request_value(json_object_get(message->result, "value"), frame->attachments_size, &ret->value, &e) <
                   0) {
                ret->error = json_pack("{s:s, s:s}", "name", "TypeError", "message", e.msg);
        }
        return ret->value || ret->error ? 0 : -1;
}

void agent_answer_done(struct agent_answer *answer)
{
        json_decref(answer->value);
        json_decref(answer->error);
        free(answer->held);
        *answer = (struct agent_answer){0};
}

static int send_question(struct agent *a, const struct agent_host_request *question, uint64_t id)
{
        _cleanup_buf_ struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        struct cloche_err e;

        if (rpc_request(json_integer((json_int_t)id), question->method, question->params, question->attachments,
                        question->attachments_size, &out, &e) < 0)
                return -1;
        return agent_channel_write(&a->channel, out.data, out.size);
}

static int ask(struct agent *a, const struct agent_host_request *question, struct agent_answer *ret)
{
        uint64_t id = agent_channel_begin_request(&a->channel, question->gives_up);
        struct rpc_message message;
        struct frame frame;
        int r;

        if (id == 0) {
                json_decref(question->params);
                return 1;
        }
        r = send_question(a, question, id);
        if (r == 0) {
                int came = await_answer(a, id, question->gives_up, &message, &frame);

                r = came == GIVEN_UP ? 1 : came == 0 ? -1 : ret ? keep_answer(&message, &frame, ret) : 0;
                if (came == 1)
                        rpc_message_done(&message);
        }
        agent_channel_end_request(&a->channel);
        return r;
}

int agent_send_request(struct agent *a, const struct agent_host_request *question, struct agent_answer *ret)
{
        if (!a->is_rehearsing)
                return ask(a, question, ret);
        json_decref(question->params);
        return -1;
}

void agent_await_askers(struct agent *a)
{
        agent_channel_begin_request(&a->channel, NULL);
        agent_channel_end_request(&a->channel);
}

int agent_bridge(struct agent *a, json_t *target, json_t *args, json_t *kwargs, const void *attachments,
                 size_t attachments_size, struct agent_answer *ret)
{
        json_t *params;

        if (a->is_preparing || a->is_rehearsing) {
                json_decref(target);
                json_decref(args);
                json_decref(kwargs);
                *ret = (struct agent_answer){.error = json_pack("{s:s, s:s}", "name", "Error", "message",
                                                                "the host cannot be asked while set-up code runs")};
                return ret->error ? 0 : -1;
        }
        params =
                json_pack("{s:o, s:o, s:o}", "target", target, "args", args, "kwargs", kwargs ? kwargs : json_object());
        return params ? ask(a, &(struct agent_host_request){BRIDGE_METHOD, params, attachments, attachments_size, NULL},
                            ret)
                      : -1;
}
