/* context.run: a cell from the queue to its outcome, with its output, displays and questions. Runs
 * in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "cell-output.h"
#include "context.h"
#include "sandbox/network/connections.h"
#include "sandbox/session/exec.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/box/limits.h"

#include <stdlib.h>
#include <string.h>

#define DISPLAY_BYTES_MAX (32u << 20) /* in an answer */
#define DISPLAYS_MAX 10000
#define QUESTIONS_MAX 16
#define TRACEBACK_BYTES (1u << 20)
#define GRACE_MS 2000 /* between the interrupt and the kill */
/* The agent ignores a signal that arrives before it has read the cell from its channel, so the
 * signal is sent again. */
#define SIGNAL_RETRY_MS 100

struct question {
        TAILQ_ENTRY(question) link;
        uint64_t number;
        json_t *id; /* the agent's */
};

struct cell {
        struct context_task task;
        struct sandbox_request *request; /* NULL: the request was cancelled */
        uint64_t count, begun_ns, timeout_ms, denials_since;
        struct sandbox_timer *timer, *signal_timer;
        int is_begun, is_stream, takes_input, timed_out, interrupted, is_ending, is_to_clear;
        json_t *displays;
        struct buf attachments; /* of the displays */
        uint64_t display_bytes, displays_dropped;
        TAILQ_HEAD(questions, question) questions;
};

static const struct context_task_kind cell_kind;

struct cell *context_cell_of(const struct context *c)
{
        return c->current && c->current->kind == &cell_kind ? (struct cell *)c->current : NULL;
}

int context_has_cells(const struct context *c)
{
        const struct context_task *task;

        TAILQ_FOREACH (task, &c->tasks, link)
                if (task->kind == &cell_kind)
                        return 1;
        return 0;
}

static struct cell *cell_from(struct context_task *task)
{
        return (struct cell *)task;
}

static void question_free(struct cell *cell, struct question *q)
{
        TAILQ_REMOVE(&cell->questions, q, link);
        json_decref(q->id);
        free(q);
}

static void cell_free(struct cell *cell)
{
        while (!TAILQ_EMPTY(&cell->questions))
                question_free(cell, TAILQ_FIRST(&cell->questions));
        sandbox_timer_close(cell->timer);
        sandbox_timer_close(cell->signal_timer);
        json_decref(cell->displays);
        buf_done(&cell->attachments);
        free(cell);
}

/* Drop the output of a detached cell, or the next cell would return it. */
static void on_release(struct context_task *task)
{
        if (cell_from(task)->is_begun)
                for (int i = 0; i < STREAMS; i++)
                        context_stream_renew(&task->context->streams[i]);
        cell_free(cell_from(task));
}

/* -- events --------------------------------------------------------------------------------------------------- */

static void set_pause(struct cell *cell, int is_paused)
{
        context_streams_pause(cell->task.context, is_paused);
        channel_pause(&cell->task.context->channel, is_paused);
}

/* A held request pauses its cell. A cell that is being ended is not paused, or it could not end in
 * time; its events are dropped instead. */
static int is_deaf(const struct cell *cell)
{
        return cell->request->is_held && cell->is_ending;
}

static void wait_if_held(struct cell *cell)
{
        if (cell->request->is_held && !cell->is_ending)
                set_pause(cell, 1);
}

static void send_event(struct cell *cell, const char *event, json_t *about, const struct buf *attachments)
{
        if (is_deaf(cell)) {
                json_decref(about);
                return;
        }
        sandbox_request_event(cell->request, event, about, attachments);
        wait_if_held(cell);
}

static void send_output(struct cell *cell, enum stream_index index, const char *data, size_t size)
{
        cell->task.context->streams[index].sent_bytes += size;
        sandbox_request_output(cell->request, stream_names[index], data, size);
        wait_if_held(cell);
}

/* Send the output from before the cell, or from a hold, up to the next hold. */
static void send_earlier(struct cell *cell, enum stream_index index, int is_last)
{
        const struct context_stream *s = &cell->task.context->streams[index];
        char data[STREAM_PIECE_BYTES];

        while (s->sent_bytes < spool_end(&s->spool) && (is_last || !cell->request->is_held)) {
                long n = spool_read(&s->spool, s->sent_bytes, data, sizeof(data));

                if (n <= 0)
                        return;
                send_output(cell, index, data, (size_t)n);
        }
}

void context_cell_bytes(struct cell *cell, enum stream_index index, const char *data, size_t size)
{
        const struct context_stream *s = &cell->task.context->streams[index];

        if (!cell->request || !cell->is_stream || is_deaf(cell))
                return;
        if (s->sent_bytes + size == s->spool.total)
                send_output(cell, index, data, size);
        else
                send_earlier(cell, index, 0);
}

static void request_unhold(struct sandbox_request *request)
{
        struct cell *cell = request->state;

        if (!cell->is_begun)
                return;
        for (int i = 0; cell->is_stream && i < STREAMS; i++)
                send_earlier(cell, (enum stream_index)i, 0);
        if (!request->is_held)
                set_pause(cell, 0);
}

/* -- timeouts ------------------------------------------------------------------------------------------------- */

static void on_late(uv_timer_t *timer);

static void on_signal_retry(uv_timer_t *timer)
{
        struct cell *cell = timer->data;

        context_signal(cell->task.context);
}

/* Interrupt the cell, and kill the interpreter if the cell does not end. */
static void schedule_end(struct cell *cell)
{
        cell->is_ending = 1;
        set_pause(cell, 0);
        context_signal(cell->task.context);
        sandbox_timer_start(cell->signal_timer, on_signal_retry, SIGNAL_RETRY_MS, SIGNAL_RETRY_MS);
        sandbox_timer_start(cell->timer, on_late, GRACE_MS, 0);
}

static void on_late(uv_timer_t *timer)
{
        struct cell *cell = timer->data;
        struct cloche_err e;

        if (cell->is_ending) {
                err_set(&e, CLOCHE_E_CONTEXT_ENDED,
                        "the interpreter was killed: the cell still ran %d ms after it was interrupted", GRACE_MS);
                context_end(cell->task.context, &e);
                return;
        }
        cell->timed_out = 1;
        schedule_end(cell);
}

int context_cell_interrupt(struct cell *cell)
{
        cell->interrupted = 1;
        context_signal(cell->task.context);
        if (!cell->is_ending && clock_now_ns() - cell->begun_ns < SIGNAL_RETRY_MS * UINT64_C(1000000))
                sandbox_timer_start(cell->signal_timer, on_signal_retry, SIGNAL_RETRY_MS, 0);
        return 1;
}

static json_t *cell_params(struct context_task *task)
{
        struct cell *cell = cell_from(task);
        struct context *c = task->context;
        int is_silent = sandbox_request_flag(cell->request, "silent", 0);

        cell->is_begun = 1;
        context_note_memory(c);
        cell->begun_ns = clock_now_ns();
        cell->denials_since = cell->task.context->sandbox->decision_count;
        cell->count = is_silent ? c->count : ++c->count;
        if (!is_silent && sandbox_request_flag(cell->request, "history", 1))
                context_history_add(c, cell->count, json_object_get(cell->request->params, "code"));
        if (cell->timeout_ms)
                sandbox_timer_start(cell->timer, on_late, cell->timeout_ms, 0);
        if (cell->is_stream) {
                send_event(cell, "begin",
                           json_pack("{s:s, s:I}", "context", c->name, "executionCount", (json_int_t)cell->count),
                           NULL);
                for (int i = 0; i < STREAMS; i++)
                        send_earlier(cell, (enum stream_index)i, 0);
        }
        return json_pack("{s:s, s:I, s:b, s:I}", "code",
                         request_source(sandbox_request_text(cell->request, "code"), 0).text, "count",
                         (json_int_t)(is_silent ? c->count + 1 : c->count), "silent", is_silent, "storeBytes",
                         (json_int_t)CONTEXT_STORE_BYTES);
}

/* -- messages of the agent ------------------------------------------------------------------------------------ */

/* Add by to the attachment offsets in value. */
static void shift(json_t *value, json_int_t by)
{
        const char *name;
        json_t *member;
        size_t i;

        if (json_is_array(value)) {
                json_array_foreach (value, i, member)
                        shift(member, by);
        } else if (json_is_object(value)) {
                json_t *at = json_object_get(value, "at");

                if (json_object_get(value, "$") && json_is_integer(at))
                        json_integer_set(at, json_integer_value(at) + by);
                else
                        json_object_foreach (value, name, member)
                                shift(member, by);
        }
}

static void clear(struct cell *cell)
{
        json_array_clear(cell->displays);
        cell->attachments.size = 0;
        cell->display_bytes = cell->displays_dropped = 0;
        cell->is_to_clear = 0;
}

/* Keep the display for the answer, if there is room. */
static void keep(struct cell *cell, const json_t *display, const struct frame *f)
{
        uint64_t size = f->json_size + f->attachments_size;
        json_t *copy;

        if (cell->is_to_clear)
                clear(cell);
        if (cell->display_bytes + size > DISPLAY_BYTES_MAX || json_array_size(cell->displays) >= DISPLAYS_MAX) {
                cell->displays_dropped++;
                return;
        }
        copy = json_deep_copy(display);
        shift(copy, (json_int_t)cell->attachments.size);
        if (!copy ||
            (f->attachments_size > 0 && buf_append(&cell->attachments, f->attachments, f->attachments_size) < 0) ||
            json_array_append(cell->displays, copy) < 0)
                cell->displays_dropped++;
        else
                cell->display_bytes += size;
        json_decref(copy);
}

static int on_display(struct cell *cell, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        const struct buf attachments = {.data = (char *)f->attachments, .size = f->attachments_size};
        json_t *data = json_object_get(m->params, "data"), *metadata = json_object_get(m->params, "metadata"),
               *id = json_object_get(m->params, "displayId");
        json_t *display;

        if (!json_is_object(data) || (metadata && !json_is_object(metadata)) ||
            (id && !json_is_string(id) && !json_is_null(id)))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "a display without data, or with other members than text and objects");
        display =
                json_pack("{s:O, s:o, s:b}", "data", data, "metadata", metadata ? json_incref(metadata) : json_object(),
                          "isResult", json_is_true(json_object_get(m->params, "isResult")));
        if (display && json_is_string(id)) {
                json_object_set(display, "displayId", id);
                json_object_set_new(display, "isUpdate",
                                    json_boolean(json_is_true(json_object_get(m->params, "isUpdate"))));
        }
        if (cell->is_stream)
                send_event(cell, "display", json_incref(display), &attachments);
        else if (display)
                keep(cell, display, f);
        json_decref(display);
        return 0;
}

/* Without a stream, cleared displays are left out of the answer; with wait, only once another
 * display replaces them. */
static int on_clear(struct cell *cell, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        int waits = json_is_true(json_object_get(m->params, "wait"));

        (void)f;
        (void)e;
        if (cell->is_stream) {
                send_event(cell, "clear", json_pack("{s:b}", "wait", waits), NULL);
                return 0;
        }
        cell->is_to_clear = 1;
        if (!waits)
                clear(cell);
        return 0;
}

static void no_input(struct context *c, json_t *id, const char *why)
{
        struct cloche_err e;

        if (rpc_error(json_incref(id), -32000, why, json_pack("{s:s}", "message", why), channel_out(&c->channel), &e) ==
            0)
                channel_flush(&c->channel);
}

static int on_input(struct cell *cell, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        const char *prompt = json_string_value(json_object_get(m->params, "prompt"));
        struct context *c = cell->task.context;
        struct question *q, *other;
        unsigned open = 0;

        (void)f;
        TAILQ_FOREACH (other, &cell->questions, link)
                open++;
        if (!cell->takes_input) {
                no_input(c, m->id, "there is no input: the caller of this cell answers no questions");
                return 0;
        }
        if (open >= QUESTIONS_MAX) {
                no_input(c, m->id, "too many questions are open already");
                return 0;
        }
        q = calloc(1, sizeof(*q));
        if (!q)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a question of a cell");
        q->id = json_incref(m->id);
        q->number = ++c->sandbox->next_question;
        TAILQ_INSERT_TAIL(&cell->questions, q, link);
        send_event(cell, "input",
                   json_pack("{s:s, s:I, s:s, s:b}", "context", c->name, "input", (json_int_t)q->number, "prompt",
                             prompt ? prompt : "", "password", json_is_true(json_object_get(m->params, "password"))),
                   NULL);
        return 0;
}

int context_cell_input(struct cell *cell, uint64_t number, const char *value, struct cloche_err *e)
{
        struct context *c = cell->task.context;
        struct question *q;
        int r = 0;

        TAILQ_FOREACH (q, &cell->questions, link)
                if (q->number == number)
                        break;
        if (!q)
                return err_set(e, CLOCHE_E_NOT_FOUND, "the cell has no open request for input %llu",
                               (unsigned long long)number);
        if (!value)
                no_input(c, q->id, "there is no input: the caller has none");
        else if ((r = rpc_result(json_incref(q->id), json_pack("{s:s}", "value", value), NULL, 0,
                                 channel_out(&c->channel), e)) == 0)
                channel_flush(&c->channel);
        question_free(cell, q);
        return r;
}

static const struct {
        const char *method;
        int (*handle)(struct cell *cell, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);
        int is_acknowledged; /* a request is answered at once */
} handlers[] = {
        {"display", on_display, 1},
        {"clear", on_clear, 1},
        {"input", on_input, 0},
};

/* The agent waits for this answer, so that its later output arrives later. */
static void acknowledge(struct context *c, json_t *id)
{
        struct cloche_err e;

        if (rpc_result(json_incref(id), json_object(), NULL, 0, channel_out(&c->channel), &e) == 0)
                channel_flush(&c->channel);
}

int context_cell_on_message(struct cell *cell, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct context *c = cell->task.context;

        context_streams_take(c); /* earlier output is sent before this message */
        for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
                int r;

                if (strcmp(handlers[i].method, m->method) != 0 ||
                    (!handlers[i].is_acknowledged && m->kind != RPC_REQUEST))
                        continue;
                if (!cell->request && m->kind == RPC_REQUEST) {
                        no_input(c, m->id, "the caller has disconnected");
                        return 0;
                }
                r = cell->request ? handlers[i].handle(cell, m, f, e) : 0;
                if (r == 0 && handlers[i].is_acknowledged && m->kind == RPC_REQUEST)
                        acknowledge(c, m->id);
                return r;
        }
        return m->kind == RPC_NOTIFICATION ? 0
                                           : err_set(e, CLOCHE_E_PROTOCOL, "the agent requested \"%.60s\"", m->method);
}

/* -- the outcome ---------------------------------------------------------------------------------------------- */

/* Return the size of the terminal control sequences (ECMA-48, 5.4), such as colours, at the start
 * of text. */
static size_t steering(const char *text)
{
        size_t size = 0;

        while (text[size] == '\033' && text[size + 1] == '[') {
                size_t end = size + 2 + strcspn(text + size + 2, "mK");

                size = end + (text[end] != '\0');
        }
        return size;
}

/* A cell that timed out was interrupted, so its traceback names the language's interrupt: replace
 * that name by Timeout. */
static json_t *late_line(const char *line, const char *name, const char *late, int is_last, int *ret_is_marked)
{
        size_t before = steering(line), size = strlen(name), colour;

        if (size == 0 || strncmp(line + before, name, size) != 0)
                return json_string(line);
        line += before;
        colour = steering(line + size);
        *ret_is_marked |= is_last;
        if (is_last)
                return json_sprintf("%.*sTimeout%.*s: %s", (int)before, line - before, (int)colour, line + size, late);
        return json_sprintf("%.*sTimeout%s", (int)before, line - before, line + size);
}

/* Ruby names it at the end of the first line. */
static json_t *late_first_line(const char *line, const char *name)
{
        size_t length = strlen(line), size = strlen(name);

        if (size == 0 || length < size + 2 || strcmp(line + length - size, name) != 0 ||
            strncmp(line + length - size - 2, ": ", 2) != 0)
                return NULL;
        return json_sprintf("%.*sTimeout", (int)(length - size), line);
}

static json_t *late_lines(const json_t *traceback, const char *name, const char *late)
{
        size_t count = json_array_size(traceback);
        json_t *lines = json_array();
        int is_marked = 0;

        for (size_t i = 0; i < count; i++) {
                const char *line = json_string_value(json_array_get(traceback, i));
                json_t *first = i == 0 && line ? late_first_line(line, name) : NULL;

                json_array_append_new(lines,
                                      first ? first
                                            : late_line(line ? line : "", name, late, i + 1 == count, &is_marked));
        }
        if (!is_marked)
                json_array_append_new(lines, json_sprintf("Timeout: %s", late));
        return lines;
}

static json_t *lines_of(const json_t *traceback)
{
        json_t *lines = json_array(), *line;
        size_t i, bytes = 0;

        json_array_foreach ((json_t *)traceback, i, line) {
                if (!json_is_string(line))
                        continue;
                bytes += json_string_length(line) + sizeof(json_t);
                if (bytes > TRACEBACK_BYTES) {
                        json_array_append_new(lines,
                                              json_sprintf("... %zu more lines", json_array_size(traceback) - i));
                        break;
                }
                json_array_append(lines, line);
        }
        return lines;
}

static json_t *error_json(const struct cell *cell, const char *name, const char *message, const json_t *traceback)
{
        json_t *lines = lines_of(traceback), *whole = lines;
        char late[32 + LIMITS_TEXT_BYTES], limit[LIMITS_TEXT_BYTES];

        snprintf(late, sizeof(late), "the cell ran for more than %s", limits_ms_text((double)cell->timeout_ms, limit));
        if (cell->timed_out && name) {
                lines = late_lines(whole, name, late);
                json_decref(whole);
        }
        return json_pack("{s:s, s:s, s:o}", "name",
                         cell->timed_out ? "Timeout"
                         : name          ? name
                                         : "Error",
                         "message",
                         cell->timed_out ? late
                         : message       ? message
                                         : "",
                         "traceback", lines);
}

static int put_streams(struct cell *cell, json_t *answer)
{
        uint64_t most = session_output_most(cell->request);
        const struct context_stream *streams = cell->task.context->streams;
        const char *id;
        int is_cut = 0;

        for (int i = 0; i < STREAMS; i++) {
                uint64_t next = 0;

                if (session_put_page(answer, stream_names[i], &streams[i].spool, 0, most, &cell->attachments, &next) <
                    0)
                        return -ENOMEM;
                is_cut |= next < streams[i].spool.total;
        }
        json_object_set_new(answer, "stdoutBytes", json_integer((json_int_t)streams[STREAM_OUT].spool.total));
        json_object_set_new(answer, "stderrBytes", json_integer((json_int_t)streams[STREAM_ERR].spool.total));
        json_object_set_new(answer, "truncated", json_boolean(is_cut));
        if (is_cut && !(cell->is_stream && most == 0) &&
            (id = context_output_keep(cell->task.context->sandbox, &cell->task.context->streams[STREAM_OUT].spool,
                                      &cell->task.context->streams[STREAM_ERR].spool)))
                json_object_set_new(answer, "output", json_string(id));
        return 0;
}

/* error: stolen, or NULL. */
static void finish(struct cell *cell, json_t *error, int is_ended)
{
        struct context *c = cell->task.context;
        struct sandbox_request *request = cell->request;
        json_t *answer =
                json_pack("{s:s, s:I, s:s, s:o*, s:O, s:I, s:b, s:b, s:b, s:I, s:o*}", "context", c->name,
                          "executionCount", (json_int_t)cell->count, "status", error ? "error" : "ok", "error", error,
                          "displays", cell->displays, "displaysDropped", (json_int_t)cell->displays_dropped, "timedOut",
                          cell->timed_out, "interrupted", cell->interrupted, "ended", is_ended, "durationMs",
                          (json_int_t)((clock_now_ns() - cell->begun_ns) / 1000000), "denials",
                          sandbox_denials(c->sandbox, cell->denials_since));

        for (int i = 0; cell->is_stream && !is_deaf(cell) && i < STREAMS; i++)
                send_earlier(cell, (enum stream_index)i, 1);
        if (answer && put_streams(cell, answer) < 0) {
                json_decref(answer);
                answer = NULL;
        }
        for (int i = 0; i < STREAMS; i++)
                context_stream_renew(&c->streams[i]);
        set_pause(cell, 0); /* the pause belongs to this request, and no other one ends it */
        sandbox_request_result(request, answer, &cell->attachments);
        cell_free(cell);
}

static void on_answered(struct context_task *task, const struct rpc_message *m, const struct frame *f)
{
        struct cell *cell = cell_from(task);
        const char *status = m->kind == RPC_RESULT ? json_string_value(json_object_get(m->result, "status")) : NULL;
        const json_t *error = m->kind == RPC_RESULT ? json_object_get(m->result, "error") : NULL;

        (void)f;
        if (status && strcmp(status, "ok") == 0)
                finish(cell, NULL, 0);
        else if (error)
                finish(cell,
                       error_json(cell, json_string_value(json_object_get(error, "name")),
                                  json_string_value(json_object_get(error, "message")),
                                  json_object_get(error, "traceback")),
                       0);
        else
                finish(cell,
                       error_json(cell, "AgentError",
                                  m->kind == RPC_ERROR ? m->error_message
                                                       : "the agent did not report how the cell ended",
                                  NULL),
                       0);
}

static void on_failed(struct context_task *task, const struct cloche_err *e)
{
        struct cell *cell = cell_from(task);
        struct sandbox_request *request = cell->request;
        json_t *error;

        if (cell->is_begun) {
                error = error_json(cell, e->os_errno == ENOMEM ? "MemoryLimit" : "ContextEnded", e->msg, NULL);
                finish(cell, error, 1);
                return;
        }
        cell_free(cell);
        sandbox_request_fail(request, e, NULL);
}

static const struct context_task_kind cell_kind = {"cell", cell_params, on_answered, on_failed, on_release};

static void on_cancel(struct sandbox_request *request)
{
        struct cell *cell = request->state;

        cell->request = NULL;
        if (cell->is_begun && !cell->is_ending)
                schedule_end(cell);
        context_task_detach(&cell->task);
}

/* -- the start ------------------------------------------------------------------------------------------------ */

static struct context *default_context(struct sandbox *s, const char *language, struct cloche_err *e)
{
        const struct runtime *runtime;
        char name[SANDBOX_NAME_MAX];
        struct context *c;

        if (context_runtime_find(s->all, language, &runtime, e) < 0)
                return NULL;
        snprintf(name, sizeof(name), "default-%s", runtime->name);
        c = context_look_up(s, name);
        return c ? c : context_new(s, name, runtime->name, NULL, NULL, e);
}

static struct cell *cell_new(struct sandbox_request *request, const struct context *c, struct cloche_err *e)
{
        struct cell *cell = calloc(1, sizeof(*cell));

        if (cell) {
                cell->timer = sandbox_timer_new(request->sandbox, cell);
                cell->signal_timer = sandbox_timer_new(request->sandbox, cell);
        }
        if (!cell || !cell->timer || !cell->signal_timer) {
                if (cell) {
                        sandbox_timer_close(cell->timer);
                        sandbox_timer_close(cell->signal_timer);
                }
                free(cell);
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "run a cell");
                return NULL;
        }
        TAILQ_INIT(&cell->questions);
        cell->request = request;
        cell->displays = json_array();
        cell->attachments = BUF_INIT(FRAME_BYTES_MAX);
        cell->is_stream = sandbox_request_flag(request, "stream", 0);
        cell->takes_input = sandbox_request_flag(request, "input", 0);
        cell->timeout_ms = sandbox_request_count(request, "timeoutMs", c->timeout_ms);
        return cell;
}

/* Restart an ended context if the request wants that; a default context always. */
static int enliven(struct context *c, struct sandbox_request *request, struct cloche_err *e)
{
        if (c->state != CONTEXT_ENDED)
                return 0;
        if (c->why[0] && !sandbox_request_flag(request, "restart", !sandbox_request_text(request, "context")))
                return err_set(e, CLOCHE_E_CONTEXT_ENDED, "the context \"%s\" has ended, and can be restarted: %s",
                               c->name, c->why);
        context_start(c);
        return 0;
}

int handle_CONTEXT_RUN(struct sandbox_request *request, struct cloche_err *e)
{
        const char *name = sandbox_request_text(request, "context"),
                   *language = sandbox_request_text(request, "language");
        struct context *c;
        struct cell *cell;
        int r;

        if (name && language)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "language selects a default context; the context \"%s\" has its own: leave language out",
                               name);
        if (sandbox_request_flag(request, "input", 0) && !sandbox_request_flag(request, "stream", 0))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "input needs stream, because requests for input are sent as events: set stream");
        c = name ? context_find(request->sandbox, name, e)
                 : default_context(request->sandbox, language ? language : "python", e);
        if (!c)
                return -(int)e->code;
        r = enliven(c, request, e);
        if (r < 0)
                return r;
        cell = cell_new(request, c, e);
        if (!cell)
                return -(int)e->code;
        request->state = cell;
        request->cancel = on_cancel;
        request->release = request_unhold;
        r = context_request(c, &cell->task, &cell_kind, e);
        if (r < 0) {
                request->cancel = NULL;
                request->release = NULL;
                cell_free(cell);
        }
        return r;
}
