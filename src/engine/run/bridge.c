/* Calls of host functions by the guest, within their limits. Runs in: the engine, on its loop. */
#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/engine.h"
#include "wire/json.h"
#include "wire/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CALL_FORM_BYTES 112 /* about the size of a call's message without its arguments */
/* Calls about bodies come from the agent, not from the code, so the limits of its calls do not
 * apply. These bounds do: at most 16 MiB of them wait for a caller who does not read. */
#define BODY_CALLS_MAX 129 /* two for each of 64 bodies, and the exports */
#define BODY_BYTES_MAX 131072

struct cloche_bridge_call {
        TAILQ_ENTRY(cloche_bridge_call) link;
        struct cloche_run *run;     /* NULL: the run is over */
        json_t *id, *args, *kwargs; /* values held */
        char *target;
        char *args_text, *kwargs_text; /* for callers that read text */
        int is_body;
};

void bridge_init(struct bridge *bridge, cloche_bridge_handler handler, void *data)
{
        *bridge = (struct bridge){.handler = handler, .data = data};
        TAILQ_INIT(&bridge->open);
}

static void call_free(struct cloche_bridge_call *call)
{
        json_decref(call->id);
        json_decref(call->args);
        json_decref(call->kwargs);
        free(call->target);
        free(call->args_text);
        free(call->kwargs_text);
        free(call);
}

/* -- an incoming call ----------------------------------------------------------------------------------------- */

static int check_limits(struct cloche_run *run, uint64_t bytes, struct cloche_err *e)
{
        if (++run->bridge.calls > run->limits.bridge_calls)
                return err_set(e, CLOCHE_E_BRIDGE_LIMIT,
                               "more than %llu calls of host functions (the limit bridgeCalls: set a higher one, or 0 "
                               "for none)",
                               (unsigned long long)run->limits.bridge_calls);
        if (bytes > run->limits.bridge_bytes)
                return err_set(e, CLOCHE_E_BRIDGE_LIMIT,
                               "a call of a host function with %llu bytes; the limit bridgeBytes is %llu",
                               (unsigned long long)bytes, (unsigned long long)run->limits.bridge_bytes);
        run->bridge.call_bytes += bytes;
        return 0;
}

static const char *step_of(const struct rpc_message *m, size_t i)
{
        const char *step = json_string_value(json_array_get(json_object_get(m->params, "target"), i));

        return step ? step : "";
}

static int is_steps(const struct rpc_message *m, int is_body)
{
        const json_t *target = json_object_get(m->params, "target");

        if (json_array_size(target) < 2 || json_array_size(target) > VALUE_DEPTH_MAX)
                return 0;
        for (size_t i = 0; i < json_array_size(target); i++)
                if (!json_is_string(json_array_get(target, i)))
                        return 0;
        return is_body || strcmp(step_of(m, 0), "global") == 0 || strcmp(step_of(m, 0), "import") == 0;
}

static int is_exports(const struct rpc_message *m)
{
        return strcmp(step_of(m, 1), "exports") == 0;
}

/* Only a hijacked agent can exceed these bounds. */
static int check_body(struct cloche_run *run, const struct rpc_message *m, uint64_t bytes, struct cloche_err *e)
{
        if (run->bridge.bodies_open >= BODY_CALLS_MAX)
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the agent sent more than %d requests for bodies before their answers", BODY_CALLS_MAX);
        if (is_exports(m) && run->bridge.has_exported)
                return err_set(e, CLOCHE_E_PROTOCOL, "the agent sent the exports twice");
        if (!is_exports(m) && bytes > BODY_BYTES_MAX)
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the agent sent a piece of a body with %llu bytes, expected at most %d",
                               (unsigned long long)bytes, BODY_BYTES_MAX);
        run->bridge.has_exported |= is_exports(m);
        return 0;
}

/* Add the output so far to the exports, which come before the run has ended. */
static int add_so_far(struct cloche_bridge_call *call, struct cloche_err *e)
{
        const struct cloche_run *run = call->run;

        json_decref(call->kwargs);
        call->kwargs =
                json_pack("{s:{s:o, s:o}, s:f}", "console", "stdout", json_copy(run->console[0].lines), "stderr",
                          json_copy(run->console[1].lines), "wallMs", (double)(clock_now_ns() - run->started_ns) / 1e6);
        return call->kwargs ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "pass on the exports");
}

static int write_call_texts(struct cloche_bridge_call *call, struct cloche_err *e)
{
        call->args_text = value_dump(call->args, JSON_COMPACT);
        call->kwargs_text = value_dump(call->kwargs, JSON_COMPACT);
        return call->args_text && call->kwargs_text
                       ? 0
                       : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a call of a host function");
}

static int call_fill(struct cloche_bridge_call *call, const struct rpc_message *m, const struct frame *f,
                     struct cloche_err *e)
{
        const json_t *target = json_object_get(m->params, "target"), *args = json_object_get(m->params, "args");
        const json_t *kwargs = json_object_get(m->params, "kwargs");
        int r;

        if (!is_steps(m, call->is_body) || !json_is_array(args) || (kwargs && !json_is_object(kwargs)))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "a call of a host function must have target, args and perhaps kwargs");
        call->target = json_dumps(target, JSON_COMPACT);
        if (!call->target)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a call of a host function");
        r = value_read(args, VALUE_FRAME, f->attachments, f->attachments_size, &call->args, e);
        if (r == 0 && kwargs)
                r = value_read(kwargs, VALUE_FRAME, f->attachments, f->attachments_size, &call->kwargs, e);
        if (r == 0 && !kwargs && !(call->kwargs = json_object()))
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a call of a host function");
        if (r == 0 && call->is_body && is_exports(m))
                r = add_so_far(call, e);
        return r < 0 || !call->run->has_texts ? r : write_call_texts(call, e);
}

int bridge_receive(struct cloche_run *run, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        int is_body = run->bridge.has_bodies && strcmp(step_of(m, 0), "body") == 0, r;
        struct cloche_bridge_call *call;
        uint64_t bytes;

        if (strcmp(m->method, "bridge") != 0 || !run->bridge.handler)
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the agent sent an invalid request: \"%.60s\", which the engine does not have",
                               m->method);
        bytes = f->attachments_size + (f->json_size > CALL_FORM_BYTES ? f->json_size - CALL_FORM_BYTES : 0);
        r = is_body ? check_body(run, m, bytes, e) : check_limits(run, bytes, e);
        if (r < 0 && is_body)
                return r;
        if (r < 0) {
                run_broke_bridge(run, e);
                return 0;
        }
        call = calloc(1, sizeof(*call));
        if (!call)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a call of a host function");
        call->run = run;
        call->is_body = is_body;
        call->id = json_incref(m->id);
        r = call_fill(call, m, f, e);
        if (r < 0) {
                call_free(call);
                return r;
        }
        TAILQ_INSERT_TAIL(&run->bridge.open, call, link);
        run->bridge.bodies_open += is_body;
        run->bridge.handler(run->bridge.data, call);
        return 0;
}

void bridge_done(struct bridge *bridge)
{
        struct cloche_bridge_call *call;

        while ((call = TAILQ_FIRST(&bridge->open))) {
                TAILQ_REMOVE(&bridge->open, call, link);
                call->run = NULL;
        }
}

/* -- the host's side ------------------------------------------------------------------------------------------ */

const char *cloche_bridge_call_target(const cloche_bridge_call *call)
{
        return call->target;
}

const char *cloche_bridge_call_args(const cloche_bridge_call *call)
{
        return call->args_text;
}

const char *cloche_bridge_call_kwargs(const cloche_bridge_call *call)
{
        return call->kwargs_text;
}

cloche_run *cloche_bridge_call_run(const cloche_bridge_call *call)
{
        return call->run;
}

const json_t *bridge_call_args(const cloche_bridge_call *call)
{
        return call->args;
}

const json_t *bridge_call_kwargs(const cloche_bridge_call *call)
{
        return call->kwargs;
}

static int write_failure(struct cloche_bridge_call *call, const json_t *failure, struct cloche_err *e)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        const char *message = json_string_value(json_object_get(failure, "message"));
        json_t *data = NULL;
        int r = value_write(failure, VALUE_FRAME, &attachments, &data, e);

        if (r < 0)
                return r;
        return rpc_error_with(json_incref(call->id), -32000, message ? message : "", data, &attachments,
                              channel_out(&call->run->channel), e);
}

static int write_error(struct cloche_bridge_call *call, const char *name, const char *message, json_t *fields,
                       struct cloche_err *e)
{
        json_t *failure = json_pack("{s:s, s:s, s:o*}", "name", name ? name : "Error", "message",
                                    message ? message : "", "fields", fields);
        json_t *held = failure ? value_failure_read(failure, VALUE_TEXT, NULL, 0) : NULL;
        int r = held ? write_failure(call, held, e)
                     : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the error of a host function is not UTF-8 text");

        json_decref(held);
        json_decref(failure);
        return r;
}

static int write_answer(struct cloche_bridge_call *call, const json_t *value, struct cloche_err *e)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        json_t *written = NULL;
        int r = value_write(value, VALUE_FRAME, &attachments, &written, e);

        if (r < 0)
                return r;
        return rpc_result(json_incref(call->id), json_pack("{s:o}", "value", written), attachments.data,
                          attachments.size, channel_out(&call->run->channel), e);
}

/* The call is over, even if its answer could not be written. */
static int finish(struct cloche_bridge_call *call, int r)
{
        struct cloche_run *run = call->run;

        if (run) {
                TAILQ_REMOVE(&run->bridge.open, call, link);
                run->bridge.bodies_open -= call->is_body;
                channel_flush(&run->channel);
        }
        call_free(call);
        return r;
}

/* r: the result of reading the value. On a failure the guest gets an error, so that it does not
 * wait for ever. */
static int answer(cloche_bridge_call *call, int r, const json_t *value, struct cloche_err *e)
{
        if (call->run && r == 0)
                r = write_answer(call, value, e);
        if (r < 0 && call->run)
                (void)write_error(call, "TypeError", "the host function gave a value that cannot be sent", NULL, NULL);
        return finish(call, call->run ? r : 0);
}

int bridge_answer(cloche_bridge_call *call, const json_t *value, struct cloche_err *e)
{
        return answer(call, 0, value, e);
}

int cloche_bridge_answer(cloche_bridge_call *call, const char *value, struct cloche_err *e)
{
        const char *text = value ? value : "{\"$\":\"undefined\"}";
        json_t *parsed = NULL, *held = NULL;
        int r = json_load_human(text, strlen(text), &parsed, e);

        if (r == 0)
                r = value_read(parsed, VALUE_TEXT, NULL, 0, &held, e);
        r = answer(call, r, held, e);
        json_decref(parsed);
        json_decref(held);
        return r;
}

int bridge_fail(struct cloche_bridge_call *call, const json_t *failure, struct cloche_err *e)
{
        return finish(call, call->run ? write_failure(call, failure, e) : 0);
}

int cloche_bridge_fail(cloche_bridge_call *call, const char *name, const char *message, const char *fields,
                       struct cloche_err *e)
{
        json_t *parsed = NULL;
        int r = 0;

        if (call->run && fields) {
                r = json_load_human(fields, strlen(fields), &parsed, e);
                if (r == 0 && !json_is_object(parsed)) {
                        json_decref(parsed);
                        parsed = NULL;
                        r = err_set(e, CLOCHE_E_INVALID_JSON, "the fields of an error must be an object");
                }
        }
        if (call->run && write_error(call, name, message, parsed, r < 0 ? NULL : e) < 0)
                r = -CLOCHE_E_INVALID_ARGUMENT;
        return finish(call, r);
}
