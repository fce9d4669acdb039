/* The life of a request. Outcomes are delivered from a separate loop iteration, with nothing else
 * on the stack: the callback may begin a request that frees the object the outcome came from. */
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/handle.h"
#include "wire/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (64u << 10)
#define ATTACHMENTS_MAX (FRAME_BYTES_MAX / 2)

static const struct method methods[] = {
#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, ...) {method, begin_##symbol},
#define SANDBOX_FIELD(symbol, name, type, need, doc)
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD
};

/* All other methods need a running sandbox, made on first use. */
static const struct {
        int (*begin)(struct sandbox_ask *ask, struct cloche_err *e);
        enum method_needs needs;
} exceptions[] = {
        {begin_CREATE, METHOD_PLAIN}, {begin_LIST, METHOD_PLAIN},   {begin_DELETE, METHOD_PLAIN},
        {begin_GET, METHOD_FINDS},    {begin_UPDATE, METHOD_FINDS}, {begin_STOP, METHOD_FINDS},
        {begin_SAVE, METHOD_FINDS},
};

static enum method_needs needs_of(const struct method *method)
{
        for (size_t i = 0; i < sizeof(exceptions) / sizeof(exceptions[0]); i++)
                if (exceptions[i].begin == method->begin)
                        return exceptions[i].needs;
        return METHOD_RUNS;
}

/* A request that waits for a sandbox to run has changed nothing, even if it never begins. */
static void use(struct sandbox *s, const struct method *method)
{
        if (needs_of(method) == METHOD_RUNS && s->state != SANDBOX_STARTING && s->state != SANDBOX_STOPPED)
                sandbox_change(s);
        else
                sandbox_touch(s);
}

static const struct method *find_method(const char *name)
{
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
                if (strcmp(methods[i].name, name) == 0)
                        return &methods[i];
        return NULL;
}

/* -- the end of a request ------------------------------------------------------------------------------------- */

static void ask_free(struct sandbox_ask *ask)
{
        if (ask->is_over)
                TAILQ_REMOVE(&ask->all->ended, ask, turn_link);
        if (ask->is_waiting)
                TAILQ_REMOVE(&ask->sandbox->waiting, ask, turn_link);
        if (ask->is_to_release)
                TAILQ_REMOVE(&ask->all->released, ask, turn_link);
        if (ask->sandbox) {
                TAILQ_REMOVE(&ask->sandbox->asks, ask, link);
                ask->sandbox->ask_count--;
                if (ask->is_over) /* it is delivered, and changed nothing since it ended */
                        sandbox_touch(ask->sandbox);
                else
                        use(ask->sandbox, ask->method);
                if (ask->sandbox->is_deleted) /* it is freed after its last request */
                        sandbox_turn_soon(ask->sandbox);
        } else {
                TAILQ_REMOVE(&ask->all->asks, ask, link);
        }
        ask->all->ask_count--;
        json_decref(ask->params);
        json_decref(ask->outcome);
        buf_done(&ask->attachments);
        buf_done(&ask->outcome_attachments);
        free(ask);
}

static void tell(struct sandbox_ask *ask)
{
        const struct sandbox_face *face = ask->face;

        if (ask->error.code)
                face->fail(ask->data, &ask->error, ask->outcome);
        else
                face->result(ask->data, ask->outcome, &ask->outcome_attachments);
        ask_free(ask);
}

static void turn(struct sandboxes *all)
{
        struct sandbox_ask *ask;

        all->wants_turn = 0;
        while ((ask = TAILQ_FIRST(&all->released))) {
                TAILQ_REMOVE(&all->released, ask, turn_link);
                ask->is_to_release = 0;
                if (ask->release && !ask->is_held)
                        ask->release(ask);
        }
        while ((ask = TAILQ_FIRST(&all->ended)))
                tell(ask);
        registry_turn(all);
        if (all->is_stopping && all->running == 0 && all->on_stopped) {
                void (*on_stopped)(void *data) = all->on_stopped;

                all->on_stopped = NULL;
                on_stopped(all->stopped_data);
        }
}

static void on_check(uv_check_t *check)
{
        struct sandboxes *all = check->data;

        if (all->wants_turn)
                turn(all);
}

/* The timer only keeps the loop from blocking. */
static void on_wake(uv_timer_t *timer)
{
        (void)timer;
}

/* Run turn() at the end of this loop iteration, or in the next one if called from outside the
 * loop. */
void sandboxes_turn_soon(struct sandboxes *all)
{
        if (!all->wants_turn)
                uv_timer_start(all->turn_timer, on_wake, 0, 0);
        all->wants_turn = 1;
}

int asks_watch(struct sandboxes *all)
{
        all->turn_check = malloc(sizeof(*all->turn_check));
        if (!all->turn_check)
                return -ENOMEM;
        uv_check_init(&all->engine->loop, all->turn_check);
        all->turn_check->data = all;
        uv_check_start(all->turn_check, on_check);
        return 0;
}

void ask_release_soon(struct sandbox_ask *ask)
{
        if (ask->is_to_release || ask->is_over)
                return;
        ask->is_to_release = 1;
        TAILQ_INSERT_TAIL(&ask->all->released, ask, turn_link);
        sandboxes_turn_soon(ask->all);
}

static void end(struct sandbox_ask *ask)
{
        ask->cancel = NULL;
        ask->flush = NULL;
        ask->release = NULL;
        ask->state = NULL;
        if (ask->is_to_release)
                TAILQ_REMOVE(&ask->all->released, ask, turn_link);
        ask->is_to_release = 0;
        if (ask->sandbox)
                use(ask->sandbox, ask->method);
        ask->is_over = 1;
        TAILQ_INSERT_TAIL(&ask->all->ended, ask, turn_link);
        sandboxes_turn_soon(ask->all);
}

void ask_result(struct sandbox_ask *ask, json_t *result, struct buf *attachments)
{
        ask->outcome = result;
        if (!result)
                err_os(&ask->error, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
        if (attachments) {
                ask->outcome_attachments = *attachments;
                *attachments = (struct buf){0};
        }
        end(ask);
}

void ask_fail(struct sandbox_ask *ask, const struct cloche_err *e, json_t *about)
{
        ask->error = *e;
        ask->outcome = about;
        end(ask);
}

void ask_event(struct sandbox_ask *ask, const char *event, json_t *about, const struct buf *attachments)
{
        static const struct buf none;

        if (about)
                ask->face->event(ask->data, event, about, attachments ? attachments : &none);
        json_decref(about);
}

void ask_output(struct sandbox_ask *ask, const char *stream, const char *data, size_t size)
{
        struct buf attachments = BUF_INIT(SIZE_MAX / 2);
        json_t *about = json_pack("{s:s}", "stream", stream);

        if (about && put_raw(about, "data", data, size, &attachments) == 0)
                ask_event(ask, "output", about, &attachments);
        else
                json_decref(about);
        buf_done(&attachments);
}

void sandbox_ask_cancel(struct sandbox_ask *ask)
{
        if (!ask->is_over && ask->cancel)
                ask->cancel(ask);
        ask_free(ask);
}

void sandbox_ask_flush(struct sandbox_ask *ask)
{
        if (!ask->is_over && ask->flush)
                ask->flush(ask);
}

void sandbox_ask_hold(struct sandbox_ask *ask, int hold)
{
        int was_held = ask->is_held;

        ask->is_held = hold;
        if (was_held && !hold && !ask->is_over && ask->release)
                ask->release(ask);
}

/* -- the start of a request ----------------------------------------------------------------------------------- */

static int name_of(const json_t *params, const char **ret, struct cloche_err *e)
{
        const json_t *name = json_object_get(params, "sandbox");

        *ret = json_string_value(name);
        if (!name)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the field \"sandbox\" is missing: the name of a sandbox");
        if (!*ret)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "sandbox must be text");
        return sandbox_name_check(*ret, e);
}

static int find_sandbox(struct sandboxes *all, const struct method *method, int64_t principal, const json_t *params,
                        struct sandbox **ret, struct cloche_err *e)
{
        const char *name;
        int r;

        if (needs_of(method) == METHOD_PLAIN)
                return 0;
        r = name_of(params, &name, e);
        if (r < 0)
                return r;
        *ret = sandbox_find(all, principal, name);
        if (!*ret && needs_of(method) == METHOD_FINDS)
                return err_set(e, CLOCHE_E_NOT_FOUND, "there is no sandbox \"%s\"", name);
        if (*ret)
                return 0;
        r = sandbox_check_count(all, principal, e);
        if (r < 0)
                return r;
        *ret = spare_take(all, principal, name);
        if (!*ret)
                *ret = sandbox_new(all, principal, name, e);
        if (!*ret)
                return -(int)e->code;
        r = store_define(*ret, e);
        if (r < 0)
                sandbox_delete(*ret);
        return r;
}

static int begin(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct sandbox *s = ask->sandbox;

        if (needs_of(ask->method) == METHOD_RUNS && s->state != SANDBOX_RUNNING) {
                ask->is_waiting = 1;
                TAILQ_INSERT_TAIL(&s->waiting, ask, turn_link);
                sandbox_start(s);
                return 0;
        }
        return ask->method->begin(ask, e);
}

/* Begin the requests that waited for the sandbox, in order. */
void asks_begin(struct sandbox *s)
{
        struct sandbox_ask *ask;

        while (s->state == SANDBOX_RUNNING && (ask = TAILQ_FIRST(&s->waiting))) {
                struct cloche_err e = {0};

                TAILQ_REMOVE(&s->waiting, ask, turn_link);
                ask->is_waiting = 0;
                if (begin(ask, &e) < 0)
                        ask_fail(ask, &e, NULL);
        }
}

void asks_refuse(struct sandbox *s, const struct cloche_err *e)
{
        struct sandbox_ask *ask;

        while ((ask = TAILQ_FIRST(&s->waiting))) {
                TAILQ_REMOVE(&s->waiting, ask, turn_link);
                ask->is_waiting = 0;
                ask_fail(ask, e, NULL);
        }
}

/* Fail the requests under way: the objects they worked on are gone. */
void asks_end(struct sandbox *s, const struct cloche_err *e)
{
        struct sandbox_ask *ask, *next;

        for (ask = TAILQ_FIRST(&s->asks); ask; ask = next) {
                next = TAILQ_NEXT(ask, link);
                /* sandbox.events continues through a stop. */
                if (ask->is_over || ask->is_waiting || !ask->cancel ||
                    (ask->method->begin == begin_EVENTS && !s->is_deleted))
                        continue;
                ask->cancel(ask);
                if (ask->method->begin == begin_EVENTS)
                        ask_result(ask, json_object(), NULL);
                else
                        ask_fail(ask, e, NULL);
        }
}

static int check_params(const json_t *params, const struct buf *attachments, struct cloche_err *e)
{
        if (!json_is_object(params))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "parameters must be an object");
        return value_check(params, attachments ? attachments->size : 0, e);
}

int sandboxes_ask(struct sandboxes *all, int64_t principal, const char *method_name, const json_t *params,
                  const struct buf *attachments, const struct sandbox_face *face, void *data, struct sandbox_ask **ret,
                  struct cloche_err *e)
{
        const struct method *method = find_method(method_name);
        struct sandbox *sandbox = NULL;
        struct sandbox_ask *ask;
        int r;

        if (!method)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no method %.60s of sandboxes", method_name);
        if (all->is_stopping)
                return err_set(e, CLOCHE_E_STOPPING, "sandboxes are being stopped");
        r = check_params(params, attachments, e);
        if (r == 0)
                r = find_sandbox(all, method, principal, params, &sandbox, e);
        if (r < 0)
                return r;
        if (sandbox && sandbox->ask_count >= SANDBOX_ASKS_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL, "%u requests to this sandbox are under way", sandbox->ask_count);
        ask = calloc(1, sizeof(*ask));
        if (!ask)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "ask a sandbox");
        *ask = (struct sandbox_ask){.all = all,
                                    .sandbox = sandbox,
                                    .method = method,
                                    .principal = principal,
                                    .params = json_deep_copy(params),
                                    .attachments = BUF_INIT(ATTACHMENTS_MAX),
                                    .outcome_attachments = BUF_INIT(ATTACHMENTS_MAX),
                                    .face = face,
                                    .data = data};
        all->ask_count++;
        if (sandbox) {
                TAILQ_INSERT_TAIL(&sandbox->asks, ask, link);
                sandbox->ask_count++;
                use(sandbox, method);
        } else {
                TAILQ_INSERT_TAIL(&all->asks, ask, link);
        }
        if (!ask->params || (attachments && attachments->size > 0 &&
                             buf_append(&ask->attachments, attachments->data, attachments->size) < 0))
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "ask a sandbox");
        if (r == 0)
                r = begin(ask, e);
        if (r < 0)
                ask_free(ask);
        else
                *ret = ask;
        return r;
}

/* -- parameters ----------------------------------------------------------------------------------------------- */

const char *ask_text(const struct sandbox_ask *ask, const char *name)
{
        return json_string_value(json_object_get(ask->params, name));
}

uint64_t ask_count(const struct sandbox_ask *ask, const char *name, uint64_t absent)
{
        const json_t *value = json_object_get(ask->params, name);

        return json_is_integer(value) && json_integer_value(value) >= 0 ? (uint64_t)json_integer_value(value) : absent;
}

int ask_flag(const struct sandbox_ask *ask, const char *name, int absent)
{
        const json_t *value = json_object_get(ask->params, name);

        return value ? json_is_true(value) : absent;
}

const char *ask_bytes(const struct sandbox_ask *ask, const char *name, size_t *ret_size)
{
        const json_t *value = json_object_get(ask->params, name);

        if (json_is_string(value)) {
                *ret_size = json_string_length(value);
                return json_string_value(value);
        }
        *ret_size = (size_t)json_integer_value(json_object_get(value, "n"));
        if (!json_is_object(value))
                return NULL;
        /* value_check has checked that the range lies in the attachments. */
        return *ret_size ? ask->attachments.data + json_integer_value(json_object_get(value, "at")) : "";
}

/* -- answers -------------------------------------------------------------------------------------------------- */

int put_raw(json_t *object, const char *name, const void *data, size_t size, struct buf *attachments)
{
        json_int_t at = (json_int_t)attachments->size;

        if (size > 0 && buf_append(attachments, data, size) < 0)
                return -ENOMEM;
        return json_object_set_new(object, name,
                                   json_pack("{s:s, s:I, s:I}", "$", "bytes", "at", at, "n", (json_int_t)size)) < 0
                       ? -ENOMEM
                       : 0;
}

int put_bytes(json_t *object, const char *name, const void *data, size_t size, struct buf *attachments)
{
        /* JSON writes a NUL in six characters, and long texts take much longer than bytes to write
         * and parse. */
        json_t *text = size > TEXT_BYTES_MAX || memchr(size ? data : "a", '\0', size)
                               ? NULL
                               : json_stringn(data ? data : "", size);

        if (text)
                return json_object_set_new(object, name, text) < 0 ? -ENOMEM : 0;
        return put_raw(object, name, data, size, attachments);
}

json_t *time_json(uint64_t real_ms)
{
        char text[CLOCK_TEXT_SIZE];

        return clock_write_utc(text, (struct timespec){(time_t)(real_ms / 1000), (long)(real_ms % 1000) * 1000000}) < 0
                       ? json_null()
                       : json_string(text);
}
