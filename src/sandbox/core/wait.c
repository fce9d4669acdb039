/* process.wait and port.wait. Runs in: cloched-engine, on its loop, with the rights of the
 * daemon's user. */
#include "wait.h"
#include "sandbox/network/port.h"
#include "sandbox/process/process.h"

#include "base/err.h"
#include "engine/loop/handle.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <inttypes.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX (64u << 10) /* of a line; the rest of a longer one is ignored */
#define MATCH_STEPS_MAX 1000000
#define GROUPS_MAX 100

struct process_wait {
        TAILQ_ENTRY(process_wait) link; /* in the list of the process */
        struct sandbox_request *request;
        struct process *process; /* NULL for port.wait */
        struct probe *probe;
        uv_timer_t *timer;
        const char *text;
        pcre2_code *pattern;
        pcre2_match_context *bounds;
        struct buf lines[STREAMS];
        int needs_line;
};

static void wait_free(struct process_wait *w)
{
        if (w->process) {
                TAILQ_REMOVE(&w->process->waits, w, link);
                process_unpin(w->process);
        }
        if (w->probe)
                sandbox_probe_cancel(w->probe);
        handle_close(w->timer);
        pcre2_code_free(w->pattern);
        pcre2_match_context_free(w->bounds);
        for (int i = 0; i < STREAMS; i++)
                buf_done(&w->lines[i]);
        free(w);
}

static void wait_cancel(struct sandbox_request *request)
{
        wait_free(request->state);
}

/* Free about. */
static void fail(struct process_wait *w, const struct cloche_err *e, json_t *about)
{
        struct sandbox_request *request = w->request;
        struct cloche_err copy = *e;

        wait_free(w);
        sandbox_request_fail(request, &copy, about);
}

/* -- conditions ----------------------------------------------------------------------------------------------- */

/* The request's field that sets the condition, or "end". */
static const char *condition_of(const struct process_wait *w)
{
        return w->probe ? "port" : w->pattern ? "pattern" : w->text ? "text" : "end";
}

static void describe_condition(const struct process_wait *w, char *text, size_t size)
{
        if (w->probe)
                snprintf(text, size, "served port %" PRIu64, sandbox_request_count(w->request, "port", 0));
        else if (w->pattern)
                snprintf(text, size, "printed a line that matches '%.80s'",
                         sandbox_request_text(w->request, "pattern"));
        else if (w->text)
                snprintf(text, size, "printed '%.80s'", w->text);
        else
                snprintf(text, size, "ended");
}

static void fail_ended(struct process_wait *w)
{
        const struct process *p = w->process;
        struct cloche_err e;
        char condition[120];

        describe_condition(w, condition, sizeof(condition));
        err_set(&e, CLOCHE_E_PROCESS_ENDED, "the process %.64s ended with exit code %d before it %s", p->id,
                p->exit_code, condition);
        fail(w, &e, json_pack("{s:s, s:i}", "condition", condition_of(w), "exitCode", p->exit_code));
}

static void fail_late(struct process_wait *w)
{
        struct cloche_err e;
        char condition[120];

        describe_condition(w, condition, sizeof(condition));
        err_set(&e, CLOCHE_E_TIMEOUT, "the timeout expired before the process %.64s %s", w->process->id, condition);
        fail(w, &e, json_pack("{s:s}", "condition", condition_of(w)));
}

static json_t *answer_of(const struct process_wait *w)
{
        return w->process ? json_pack("{s:o}", "process", process_json(w->process))
                          : json_pack("{s:I}", "port", (json_int_t)sandbox_request_count(w->request, "port", 0));
}

static void finish(struct process_wait *w, json_t *answer, struct buf *attachments)
{
        struct sandbox_request *request = w->request;

        wait_free(w);
        sandbox_request_result(request, answer, attachments);
}

/* -- lines ---------------------------------------------------------------------------------------------------- */

static json_t *groups(const char *line, const PCRE2_SIZE *at, int count, struct buf *attachments)
{
        json_t *list = json_array(), *holder = json_object();

        for (int i = 0; i < count && i < GROUPS_MAX; i++) {
                if (at[2 * i] == PCRE2_UNSET) {
                        json_array_append_new(list, json_null());
                } else if (sandbox_put_bytes(holder, "g", line + at[2 * i], at[2 * i + 1] - at[2 * i], attachments) ==
                           0) {
                        json_array_append(list, json_object_get(holder, "g"));
                }
        }
        json_decref(holder);
        return list;
}

/* 1: the line matched, and w is freed. */
static int look_at(struct process_wait *w, enum stream_index stream, const char *line, size_t size)
{
        struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        json_t *answer, *match = NULL;

        if (w->pattern) {
                pcre2_match_data *data = pcre2_match_data_create_from_pattern(w->pattern, NULL);
                int count = data ? pcre2_match(w->pattern, (PCRE2_SPTR)line, size, 0, 0, data, w->bounds) : -1;

                if (count > 0)
                        match = groups(line, pcre2_get_ovector_pointer(data), count, &attachments);
                pcre2_match_data_free(data);
                if (!match)
                        return 0;
        } else if (!memmem(line, size, w->text, strlen(w->text))) {
                return 0;
        }
        answer = answer_of(w);
        if (answer && sandbox_put_bytes(answer, "line", line, size, &attachments) == 0) {
                json_object_set_new(answer, "stream", json_string(stream == STREAM_OUT ? "stdout" : "stderr"));
                if (match)
                        json_object_set(answer, "match", match);
        }
        json_decref(match);
        finish(w, answer, &attachments);
        buf_done(&attachments);
        return 1;
}

static int take(struct process_wait *w, enum stream_index stream, const char *data, size_t size)
{
        struct buf *line = &w->lines[stream];

        while (size > 0) {
                const char *end = memchr(data, '\n', size);
                size_t piece = end ? (size_t)(end - data) : size;
                size_t room = line->size < LINE_BYTES_MAX ? LINE_BYTES_MAX - line->size : 0;

                (void)buf_append(line, data, piece < room ? piece : room);
                data += piece + (end != NULL);
                size -= piece + (end != NULL);
                if (!end)
                        break;
                if (look_at(w, stream, line->data ? line->data : "", line->size))
                        return 1;
                buf_consume(line, line->size);
        }
        /* A prompt has no line end. */
        return line->size > 0 && look_at(w, stream, line->data, line->size);
}

void sandbox_waits_bytes(struct process *p, enum stream_index stream, const char *data, size_t size)
{
        struct process_wait *w, *next;

        for (w = TAILQ_FIRST(&p->waits); w; w = next) {
                next = TAILQ_NEXT(w, link);
                if (w->needs_line)
                        (void)take(w, stream, data, size);
        }
}

void sandbox_waits_ended(struct process *p)
{
        struct process_wait *w, *next;

        for (w = TAILQ_FIRST(&p->waits); w; w = next) {
                next = TAILQ_NEXT(w, link);
                if (w->needs_line || w->probe)
                        fail_ended(w);
                else
                        finish(w, answer_of(w), NULL);
        }
}

/* Search the output until now. 1: w is freed. */
static int replay(struct process_wait *w)
{
        char data[4096];

        for (int i = 0; i < STREAMS; i++) {
                const struct spool *spool = &w->process->streams[i].spool;
                uint64_t at = spool_begin(spool);

                while (at < spool_end(spool)) {
                        long n = spool_read(spool, at, data, sizeof(data));

                        if (n <= 0)
                                break;
                        at += (uint64_t)n;
                        if (take(w, (enum stream_index)i, data, (size_t)n))
                                return 1;
                }
        }
        return 0;
}

/* -- the start ------------------------------------------------------------------------------------------------ */

static void on_timeout(uv_timer_t *timer)
{
        fail_late(timer->data);
}

static void on_probe(void *data, int status, const struct cloche_err *e)
{
        struct process_wait *w = data;
        json_t *answer;

        w->probe = NULL;
        if (e) {
                fail(w, e, w->process ? json_pack("{s:s}", "condition", "port") : NULL);
                return;
        }
        answer = answer_of(w);
        if (answer && status)
                json_object_set_new(answer, "status", json_integer(status));
        finish(w, answer, NULL);
}

static int read_range(const json_t *status, int *ret_first, int *ret_last, struct cloche_err *e)
{
        json_int_t first = json_integer_value(json_array_get(status, 0)),
                   last = json_integer_value(json_array_get(status, 1));

        *ret_first = 200;
        *ret_last = 399;
        if (!status)
                return 0;
        if (json_array_size(status) != 2 || first < 100 || last > 599 || first > last)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "status must be [first, last], from 100 to 599");
        *ret_first = (int)first;
        *ret_last = (int)last;
        return 0;
}

static int compile(struct process_wait *w, const char *pattern, struct cloche_err *e)
{
        PCRE2_UCHAR why[120];
        PCRE2_SIZE at;
        int code;

        w->pattern = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);
        w->bounds = pcre2_match_context_create(NULL);
        if (!w->pattern) {
                pcre2_get_error_message(code, why, sizeof(why));
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "pattern: %s (at position %zu)", (const char *)why, at);
        }
        if (!w->bounds)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "wait for a line");
        pcre2_set_match_limit(w->bounds, MATCH_STEPS_MAX);
        return 0;
}

static struct process_wait *wait_new(struct sandbox_request *request, struct process *p, struct cloche_err *e)
{
        struct process_wait *w = calloc(1, sizeof(*w));

        if (!w) {
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "wait");
                return NULL;
        }
        w->request = request;
        w->process = p;
        for (int i = 0; i < STREAMS; i++)
                w->lines[i] = BUF_INIT(LINE_BYTES_MAX);
        if (p) {
                TAILQ_INSERT_TAIL(&p->waits, w, link);
                process_pin(p);
        }
        request->state = w;
        request->cancel = wait_cancel;
        return w;
}

static int start_probe(struct process_wait *w, struct cloche_err *e)
{
        const struct sandbox_request *request = w->request;
        int first, last, r = read_range(json_object_get(request->params, "status"), &first, &last, e);

        return r < 0 ? r
                     : sandbox_probe_start(request->sandbox, (unsigned)sandbox_request_count(request, "port", 0),
                                           sandbox_request_text(request, "path"), first, last,
                                           sandbox_request_count(request, "timeoutMs", 0), on_probe, w, &w->probe, e);
}

static int start_timer(struct process_wait *w, uint64_t ms, struct cloche_err *e)
{
        if (!ms || w->probe)
                return 0;
        w->timer = handle_timer(&w->request->all->engine->loop, w);
        if (!w->timer)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "wait");
        uv_timer_start(w->timer, on_timeout, ms, 0);
        return 0;
}

int handle_PROCESS_WAIT(struct sandbox_request *request, struct cloche_err *e)
{
        const char *id = sandbox_request_text(request, "process"), *pattern = sandbox_request_text(request, "pattern");
        struct process *p = id ? process_find(request->sandbox, id, e) : NULL;
        struct process_wait *w;
        int kinds = (sandbox_request_text(request, "text") != NULL) + (pattern != NULL) +
                    (json_object_get(request->params, "port") != NULL),
            r = 0;

        if (!p)
                return id ? -(int)e->code
                          : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "process.wait needs the field \"process\"");
        if (kinds > 1)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "process.wait takes one of text, pattern and port");
        w = wait_new(request, p, e);
        if (!w)
                return -(int)e->code;
        w->text = sandbox_request_text(request, "text");
        w->needs_line = w->text || pattern;
        if (pattern)
                r = compile(w, pattern, e);
        if (r == 0 && json_object_get(request->params, "port"))
                r = start_probe(w, e);
        if (r == 0)
                r = start_timer(w, sandbox_request_count(request, "timeoutMs", 0), e);
        if (r < 0) {
                request->cancel = NULL;
                wait_free(w);
                return r;
        }
        if (w->needs_line && replay(w))
                return 0;
        if (process_is_ended(p))
                sandbox_waits_ended(p);
        return 0;
}

int handle_PORT_WAIT(struct sandbox_request *request, struct cloche_err *e)
{
        struct process_wait *w = wait_new(request, NULL, e);
        int r = w ? start_probe(w, e) : -(int)e->code;

        if (r < 0 && w) {
                request->cancel = NULL;
                wait_free(w);
        }
        return r;
}
