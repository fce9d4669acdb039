/* process.wait and port.wait. */
#include "internal.h"

#include "base/err.h"
#include "engine/loop/handle.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX (64u << 10) /* of a line; the rest of a longer one is ignored */
#define MATCH_STEPS_MAX 1000000
#define GROUPS_MAX 100

struct process_wait {
        TAILQ_ENTRY(process_wait) link; /* in the list of the process */
        struct sandbox_ask *ask;
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
                probe_cancel(w->probe);
        handle_close(w->timer);
        pcre2_code_free(w->pattern);
        pcre2_match_context_free(w->bounds);
        for (int i = 0; i < STREAMS; i++)
                buf_done(&w->lines[i]);
        free(w);
}

static void wait_cancel(struct sandbox_ask *ask)
{
        wait_free(ask->state);
}

static void fail(struct process_wait *w, const struct cloche_err *e)
{
        struct sandbox_ask *ask = w->ask;
        struct cloche_err copy = *e;

        wait_free(w);
        ask_fail(ask, &copy, NULL);
}

static json_t *answer_of(const struct process_wait *w)
{
        return w->process ? json_pack("{s:o}", "process", process_json(w->process))
                          : json_pack("{s:I}", "port", (json_int_t)ask_count(w->ask, "port", 0));
}

static void finish(struct process_wait *w, json_t *answer, struct buf *attachments)
{
        struct sandbox_ask *ask = w->ask;

        wait_free(w);
        ask_result(ask, answer, attachments);
}

/* -- lines ---------------------------------------------------------------------------------------------------- */

static json_t *groups(const char *line, const PCRE2_SIZE *at, int count, struct buf *attachments)
{
        json_t *list = json_array(), *holder = json_object();

        for (int i = 0; i < count && i < GROUPS_MAX; i++) {
                if (at[2 * i] == PCRE2_UNSET) {
                        json_array_append_new(list, json_null());
                } else if (put_bytes(holder, "g", line + at[2 * i], at[2 * i + 1] - at[2 * i], attachments) == 0) {
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
        if (answer && put_bytes(answer, "line", line, size, &attachments) == 0) {
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

void waits_bytes(struct process *p, enum stream_index stream, const char *data, size_t size)
{
        struct process_wait *w, *next;

        for (w = TAILQ_FIRST(&p->waits); w; w = next) {
                next = TAILQ_NEXT(w, link);
                if (w->needs_line)
                        (void)take(w, stream, data, size);
        }
}

void waits_ended(struct process *p)
{
        struct process_wait *w, *next;
        struct cloche_err e;

        for (w = TAILQ_FIRST(&p->waits); w; w = next) {
                next = TAILQ_NEXT(w, link);
                if (!w->needs_line && !w->probe) {
                        finish(w, answer_of(w), NULL);
                        continue;
                }
                err_set(&e, CLOCHE_E_PROCESS_ENDED, "the process %.64s ended with exit code %d before that", p->id,
                        p->exit_code);
                fail(w, &e);
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
        struct process_wait *w = timer->data;
        struct cloche_err e;

        err_set(&e, CLOCHE_E_TIMEOUT, "the process %.64s did not do that in time", w->process->id);
        fail(w, &e);
}

static void on_probe(void *data, int status, const struct cloche_err *e)
{
        struct process_wait *w = data;
        json_t *answer;

        w->probe = NULL;
        if (e) {
                fail(w, e);
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

static struct process_wait *wait_new(struct sandbox_ask *ask, struct process *p, struct cloche_err *e)
{
        struct process_wait *w = calloc(1, sizeof(*w));

        if (!w) {
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "wait");
                return NULL;
        }
        w->ask = ask;
        w->process = p;
        for (int i = 0; i < STREAMS; i++)
                w->lines[i] = BUF_INIT(LINE_BYTES_MAX);
        if (p) {
                TAILQ_INSERT_TAIL(&p->waits, w, link);
                process_pin(p);
        }
        ask->state = w;
        ask->cancel = wait_cancel;
        return w;
}

static int start_probe(struct process_wait *w, struct cloche_err *e)
{
        const struct sandbox_ask *ask = w->ask;
        int first, last, r = read_range(json_object_get(ask->params, "status"), &first, &last, e);

        return r < 0 ? r
                     : probe_start(ask->sandbox, (unsigned)ask_count(ask, "port", 0), ask_text(ask, "path"), first,
                                   last, ask_count(ask, "timeoutMs", 0), on_probe, w, &w->probe, e);
}

static int start_timer(struct process_wait *w, uint64_t ms, struct cloche_err *e)
{
        if (!ms || w->probe)
                return 0;
        w->timer = handle_timer(&w->ask->all->engine->loop, w);
        if (!w->timer)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "wait");
        uv_timer_start(w->timer, on_timeout, ms, 0);
        return 0;
}

int begin_PROCESS_WAIT(struct sandbox_ask *ask, struct cloche_err *e)
{
        const char *id = ask_text(ask, "process"), *pattern = ask_text(ask, "pattern");
        struct process *p = id ? process_find(ask->sandbox, id, e) : NULL;
        struct process_wait *w;
        int kinds = (ask_text(ask, "text") != NULL) + (pattern != NULL) +
                    (json_object_get(ask->params, "port") != NULL),
            r = 0;

        if (!p)
                return id ? -(int)e->code
                          : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "process.wait needs the field \"process\"");
        if (kinds > 1)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "process.wait takes one of text, pattern and port");
        w = wait_new(ask, p, e);
        if (!w)
                return -(int)e->code;
        w->text = ask_text(ask, "text");
        w->needs_line = w->text || pattern;
        if (pattern)
                r = compile(w, pattern, e);
        if (r == 0 && json_object_get(ask->params, "port"))
                r = start_probe(w, e);
        if (r == 0)
                r = start_timer(w, ask_count(ask, "timeoutMs", 0), e);
        if (r < 0) {
                ask->cancel = NULL;
                wait_free(w);
                return r;
        }
        if (w->needs_line && replay(w))
                return 0;
        if (p->is_ended)
                waits_ended(p);
        return 0;
}

int begin_PORT_WAIT(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct process_wait *w = wait_new(ask, NULL, e);
        int r = w ? start_probe(w, e) : -(int)e->code;

        if (r < 0 && w) {
                ask->cancel = NULL;
                wait_free(w);
        }
        return r;
}
