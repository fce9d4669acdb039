/* The life of a request. Outcomes are delivered from a separate loop iteration, with nothing else
 * on the stack: the callback may begin a request that frees the object the outcome came from. Runs
 * in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox/environment/packages.h"
#include "sandbox/life/log.h"
#include "sandbox/life/startup.h"
#include "store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/state.h"
#include "engine/loop/handle.h"
#include "wire/json.h"
#include "wire/value.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_BYTES_MAX (64u << 10)
#define ATTACHMENTS_MAX (FRAME_BYTES_MAX / 2)

static const struct method methods[] = {
#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, needs, ...) \
        {method, handle_##symbol, NEEDS_##needs},
#define SANDBOX_FIELD(symbol, name, type, need, doc)
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD
};

/* A request that waits for a sandbox to run has changed nothing, even if it never begins. */
static void use(struct sandbox *s, const struct method *method)
{
        if (method->needs == NEEDS_RUNNING && sandbox_is_live(s))
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

static const unsigned transitions[REQUEST_PHASES] = {
        [REQUEST_OPEN] = STATE_TO(REQUEST_WAITING) | STATE_TO(REQUEST_ENDED),
        [REQUEST_WAITING] = STATE_TO(REQUEST_OPEN),
};

void sandbox_request_set_phase(struct sandbox_request *request, enum sandbox_request_phase phase)
{
        STATE_CHECK(transitions, request->phase, phase);
        request->phase = phase;
}

/* -- the end of a request ------------------------------------------------------------------------------------- */

static void request_free(struct sandbox_request *request)
{
        if (request->phase == REQUEST_ENDED)
                TAILQ_REMOVE(&request->all->ended, request, turn_link);
        if (request->phase == REQUEST_WAITING)
                TAILQ_REMOVE(&request->sandbox->waiting, request, turn_link);
        if (request->is_to_release)
                TAILQ_REMOVE(&request->all->released, request, turn_link);
        if (request->sandbox) {
                TAILQ_REMOVE(&request->sandbox->requests, request, link);
                request->sandbox->request_count--;
                if (request->phase == REQUEST_ENDED) /* it is delivered, and changed nothing since it ended */
                        sandbox_touch(request->sandbox);
                else
                        use(request->sandbox, request->method);
                if (request->sandbox->is_deleted) /* it is freed after its last request */
                        sandbox_schedule_turn(request->sandbox);
        } else {
                TAILQ_REMOVE(&request->all->requests, request, link);
        }
        request->all->request_count--;
        json_decref(request->params);
        json_decref(request->outcome);
        buf_done(&request->attachments);
        buf_done(&request->outcome_attachments);
        free(request);
}

static void deliver(struct sandbox_request *request)
{
        const struct sandbox_face *face = request->face;

        if (request->error.code)
                face->fail(request->data, &request->error, request->outcome);
        else
                face->result(request->data, request->outcome, &request->outcome_attachments);
        request_free(request);
}

static void turn(struct sandboxes *all)
{
        struct sandbox_request *request;

        all->wants_turn = 0;
        while ((request = TAILQ_FIRST(&all->released))) {
                TAILQ_REMOVE(&all->released, request, turn_link);
                request->is_to_release = 0;
                if (request->release && !request->is_held)
                        request->release(request);
        }
        while ((request = TAILQ_FIRST(&all->ended)))
                deliver(request);
        sandbox_registry_turn(all);
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
void sandboxes_schedule_turn(struct sandboxes *all)
{
        if (!all->wants_turn)
                uv_timer_start(all->turn_timer, on_wake, 0, 0);
        all->wants_turn = 1;
}

int sandbox_requests_watch(struct sandboxes *all)
{
        all->turn_check = malloc(sizeof(*all->turn_check));
        if (!all->turn_check)
                return -ENOMEM;
        uv_check_init(&all->engine->loop, all->turn_check);
        all->turn_check->data = all;
        uv_check_start(all->turn_check, on_check);
        return 0;
}

void sandbox_request_schedule_release(struct sandbox_request *request)
{
        if (request->is_to_release || request->phase == REQUEST_ENDED)
                return;
        request->is_to_release = 1;
        TAILQ_INSERT_TAIL(&request->all->released, request, turn_link);
        sandboxes_schedule_turn(request->all);
}

static void end(struct sandbox_request *request)
{
        request->cancel = NULL;
        request->flush = NULL;
        request->release = NULL;
        request->state = NULL;
        if (request->is_to_release)
                TAILQ_REMOVE(&request->all->released, request, turn_link);
        request->is_to_release = 0;
        if (request->sandbox)
                use(request->sandbox, request->method);
        sandbox_request_set_phase(request, REQUEST_ENDED);
        TAILQ_INSERT_TAIL(&request->all->ended, request, turn_link);
        sandboxes_schedule_turn(request->all);
}

void sandbox_request_result(struct sandbox_request *request, json_t *result, struct buf *attachments)
{
        request->outcome = result;
        if (!result)
                err_os(&request->error, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
        if (attachments) {
                request->outcome_attachments = *attachments;
                *attachments = (struct buf){0};
        }
        end(request);
}

void sandbox_request_fail(struct sandbox_request *request, const struct cloche_err *e, json_t *about)
{
        request->error = *e;
        request->outcome = about;
        end(request);
}

void sandbox_request_event(struct sandbox_request *request, const char *event, json_t *about,
                           const struct buf *attachments)
{
        static const struct buf none;

        if (about)
                request->face->event(request->data, event, about, attachments ? attachments : &none);
        json_decref(about);
}

void sandbox_request_output(struct sandbox_request *request, const char *stream, const char *data, size_t size)
{
        struct buf attachments = BUF_INIT(SIZE_MAX / 2);
        json_t *about = json_pack("{s:s}", "stream", stream);

        if (about && sandbox_put_raw(about, "data", data, size, &attachments) == 0)
                sandbox_request_event(request, "output", about, &attachments);
        else
                json_decref(about);
        buf_done(&attachments);
}

void sandbox_request_cancel(struct sandbox_request *request)
{
        if (request->phase != REQUEST_ENDED && request->cancel)
                request->cancel(request);
        request_free(request);
}

void sandbox_request_flush(struct sandbox_request *request)
{
        if (request->phase != REQUEST_ENDED && request->flush)
                request->flush(request);
}

void sandbox_request_hold(struct sandbox_request *request, int hold)
{
        int was_held = request->is_held;

        request->is_held = hold;
        if (was_held && !hold && request->phase != REQUEST_ENDED && request->release)
                request->release(request);
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

/* ret_is_new: it was made now. */
static int find_sandbox(struct sandboxes *all, const struct method *method, int64_t principal, const json_t *params,
                        struct sandbox **ret, int *ret_is_new, struct cloche_err *e)
{
        const char *name;
        int r;

        if (method->needs == NEEDS_NOTHING || method->needs == NEEDS_NO_SANDBOX)
                return 0;
        r = name_of(params, &name, e);
        if (r < 0)
                return r;
        *ret = sandbox_find(all, principal, name);
        if (!*ret && method->needs == NEEDS_EXISTING)
                return err_set(e, CLOCHE_E_NOT_FOUND, "there is no sandbox \"%s\" (sandbox.list lists them)", name);
        if (*ret)
                return 0;
        r = sandbox_packages_check_name(all, principal, name, e);
        if (r == 0)
                r = sandbox_check_count(all, principal, 1, e);
        if (r < 0)
                return r;
        *ret = sandbox_pool_take(all, NULL, POOL_OWN, principal, name);
        if (!*ret)
                *ret = sandbox_new(all, principal, name, e);
        if (!*ret)
                return -(int)e->code;
        *ret_is_new = 1;
        r = sandbox_store_define(*ret, e);
        if (r < 0)
                sandbox_delete(*ret);
        else
                sandbox_log(*ret, "created", "by its first use");
        return r;
}

/* A look at a sandbox wakes none that exists. */
static int must_wait(const struct sandbox_request *request)
{
        const struct sandbox *s = request->sandbox;

        if (request->method->needs == NEEDS_ANY_STATE)
                return s->state == SANDBOX_STARTING || !sandbox_startup_is_over(s) ||
                       (s->state == SANDBOX_STOPPED && request->has_made_sandbox);
        return request->method->needs == NEEDS_RUNNING && (s->state != SANDBOX_RUNNING || !sandbox_startup_is_over(s));
}

static int begin(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;

        if (must_wait(request)) {
                sandbox_request_set_phase(request, REQUEST_WAITING);
                TAILQ_INSERT_TAIL(&s->waiting, request, turn_link);
                sandbox_start(s);
                return 0;
        }
        return request->method->handle(request, e);
}

/* Begin the requests that waited for the sandbox, in order. */
void sandbox_requests_begin(struct sandbox *s)
{
        struct sandbox_request *request;

        while (s->state == SANDBOX_RUNNING && sandbox_startup_is_over(s) && (request = TAILQ_FIRST(&s->waiting))) {
                struct cloche_err e = {0};

                TAILQ_REMOVE(&s->waiting, request, turn_link);
                sandbox_request_set_phase(request, REQUEST_OPEN);
                if (begin(request, &e) < 0)
                        sandbox_request_fail(request, &e, NULL);
        }
}

void sandbox_requests_refuse(struct sandbox *s, const struct cloche_err *e, json_t *output)
{
        struct sandbox_request *request;

        while ((request = TAILQ_FIRST(&s->waiting))) {
                TAILQ_REMOVE(&s->waiting, request, turn_link);
                sandbox_request_set_phase(request, REQUEST_OPEN);
                sandbox_request_fail(request, e, output ? json_pack("{s:O}", "output", output) : NULL);
        }
}

/* Fail the requests under way: the objects they worked on are gone. */
void sandbox_requests_end(struct sandbox *s, const struct cloche_err *e)
{
        struct sandbox_request *request, *next;

        for (request = TAILQ_FIRST(&s->requests); request; request = next) {
                next = TAILQ_NEXT(request, link);
                /* sandbox.events continues through a stop. */
                if (request->phase != REQUEST_OPEN || !request->cancel ||
                    (request->method->handle == handle_EVENTS && !s->is_deleted))
                        continue;
                request->cancel(request);
                if (request->method->handle == handle_EVENTS)
                        sandbox_request_result(request, json_object(), NULL);
                else
                        sandbox_request_fail(request, e, NULL);
        }
}

static int check_params(const json_t *params, const struct buf *attachments, struct cloche_err *e)
{
        if (!json_is_object(params))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "parameters must be an object");
        return value_check(params, attachments ? attachments->size : 0, e);
}

int sandboxes_request(struct sandboxes *all, int64_t principal, const char *method_name, const json_t *params,
                      const struct buf *attachments, const struct sandbox_face *face, void *data,
                      struct sandbox_request **ret, struct cloche_err *e)
{
        const struct method *method = find_method(method_name);
        struct sandbox *sandbox = NULL;
        struct sandbox_request *request;
        int is_new = 0, r;

        if (!method)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "sandboxes have no method %.60s", method_name);
        if (all->is_stopping)
                return err_set(e, CLOCHE_E_STOPPING,
                               "the daemon is about to end and stops its sandboxes: try again when it runs again");
        r = check_params(params, attachments, e);
        if (r == 0)
                r = find_sandbox(all, method, principal, params, &sandbox, &is_new, e);
        if (r < 0)
                return r;
        if (sandbox && sandbox->request_count >= SANDBOX_REQUESTS_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "%u requests to this sandbox are under way: try again when some have ended",
                               sandbox->request_count);
        request = calloc(1, sizeof(*request));
        if (!request)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a request to a sandbox");
        *request = (struct sandbox_request){.all = all,
                                            .sandbox = sandbox,
                                            .method = method,
                                            .principal = principal,
                                            .has_made_sandbox = is_new,
                                            .params = json_deep_copy(params),
                                            .attachments = BUF_INIT(ATTACHMENTS_MAX),
                                            .outcome_attachments = BUF_INIT(ATTACHMENTS_MAX),
                                            .face = face,
                                            .data = data};
        all->request_count++;
        if (sandbox) {
                TAILQ_INSERT_TAIL(&sandbox->requests, request, link);
                sandbox->request_count++;
                use(sandbox, method);
        } else {
                TAILQ_INSERT_TAIL(&all->requests, request, link);
        }
        if (!request->params || (attachments && attachments->size > 0 &&
                                 buf_append(&request->attachments, attachments->data, attachments->size) < 0))
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a request to a sandbox");
        if (r == 0)
                r = begin(request, e);
        if (r < 0)
                request_free(request);
        else
                *ret = request;
        return r;
}

/* -- parameters ----------------------------------------------------------------------------------------------- */

const char *sandbox_request_text(const struct sandbox_request *request, const char *name)
{
        return json_string_value(json_object_get(request->params, name));
}

uint64_t sandbox_request_count(const struct sandbox_request *request, const char *name, uint64_t absent)
{
        const json_t *value = json_object_get(request->params, name);

        return json_is_integer(value) && json_integer_value(value) >= 0 ? (uint64_t)json_integer_value(value) : absent;
}

int sandbox_request_flag(const struct sandbox_request *request, const char *name, int absent)
{
        const json_t *value = json_object_get(request->params, name);

        return value ? json_is_true(value) : absent;
}

const char *sandbox_request_bytes(const struct sandbox_request *request, const char *name, size_t *ret_size)
{
        const json_t *value = json_object_get(request->params, name);

        if (json_is_string(value)) {
                *ret_size = json_string_length(value);
                return json_string_value(value);
        }
        *ret_size = (size_t)json_integer_value(json_object_get(value, "n"));
        if (!json_is_object(value))
                return NULL;
        /* value_check has checked that the range lies in the attachments. */
        return *ret_size ? request->attachments.data + json_integer_value(json_object_get(value, "at")) : "";
}

#define TIME_FORM "dddd-dd-ddTdd:dd:dd.dddZ"
#define TIME_SECONDS_SIZE 19 /* of it, up to the fraction */

/* The rest of a time of RFC 3339 behind its seconds: a fraction, then Z or a distance from UTC. */
static int read_time_end(const char *text, int64_t *ret_ms)
{
        int hours = 0, minutes = 0, size = 0;
        int64_t unit = 100;
        char sign[2];

        *ret_ms = 0;
        if (*text == '.' && isdigit((unsigned char)text[1]))
                for (text++; isdigit((unsigned char)*text); text++, unit /= 10)
                        *ret_ms += (*text - '0') * unit;
        if (strcmp(text, "Z") == 0)
                return 0;
        if (sscanf(text, "%1[+-]%2d:%2d%n", sign, &hours, &minutes, &size) != 3 || size != 6 || text[size] ||
            hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
                return -EINVAL;
        *ret_ms += (sign[0] == '+' ? -1 : 1) * (hours * 60 + minutes) * INT64_C(60000);
        return 0;
}

/* A complete time in our form; NULL: it is none. */
static json_t *read_time(const char *text)
{
        struct tm tm = {0};
        const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
        int day = tm.tm_mday;
        int64_t ms = 0, seconds = end ? timegm(&tm) : 0;

        return end && end - text == TIME_SECONDS_SIZE && tm.tm_mday == day && read_time_end(end, &ms) == 0 &&
                               seconds * 1000 + ms >= 0
                       ? sandbox_time_json((uint64_t)(seconds * 1000 + ms))
                       : NULL;
}

/* Times are compared as texts of our form, so a part of one is a time too: 2026-11-28. */
int sandbox_request_time(const struct sandbox_request *request, const char *name, const char **ret,
                         struct cloche_err *e)
{
        static const char form[] = TIME_FORM;
        const char *time = sandbox_request_text(request, name);
        size_t size = time ? strlen(time) : 0, i = 0;
        json_t *whole;

        *ret = time;
        while (i < size && i < sizeof(form) - 1 &&
               (form[i] == 'd' ? time[i] >= '0' && time[i] <= '9' : time[i] == form[i]))
                i++;
        if (!time || (size >= 4 && i == size && form[i] != 'd'))
                return 0;
        whole = i >= TIME_SECONDS_SIZE ? read_time(time) : NULL;
        if (whole && json_object_set_new(request->params, name, whole) == 0) {
                *ret = json_string_value(whole);
                return 0;
        }
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                       "%s \"%.40s\": expected a time such as 2026-11-28T07:30:00Z, or in UTC its beginning, such as "
                       "2026-11-28",
                       name, time);
}

/* -- answers -------------------------------------------------------------------------------------------------- */

int sandbox_put_raw(json_t *object, const char *name, const void *data, size_t size, struct buf *attachments)
{
        json_int_t at = (json_int_t)attachments->size;

        if (size > 0 && buf_append(attachments, data, size) < 0)
                return -ENOMEM;
        return json_object_set_new(object, name, json_attachment(at, size)) < 0 ? -ENOMEM : 0;
}

int sandbox_put_bytes(json_t *object, const char *name, const void *data, size_t size, struct buf *attachments)
{
        /* JSON writes a NUL in six characters, and long texts take much longer than bytes to write
         * and parse. */
        json_t *text = size > TEXT_BYTES_MAX || memchr(size ? data : "a", '\0', size)
                               ? NULL
                               : json_stringn(data ? data : "", size);

        if (text)
                return json_object_set_new(object, name, text) < 0 ? -ENOMEM : 0;
        return sandbox_put_raw(object, name, data, size, attachments);
}

json_t *sandbox_time_json(uint64_t real_ms)
{
        char text[CLOCK_TEXT_SIZE];

        return clock_write_utc(text, (struct timespec){(time_t)(real_ms / 1000), (long)(real_ms % 1000) * 1000000}) < 0
                       ? json_null()
                       : json_string(text);
}
