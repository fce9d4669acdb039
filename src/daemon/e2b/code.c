/* The code interpreter: cells and contexts. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "cell-env.h"
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ALIVE_S 5
#define CHART "application/vnd.cloche.chart+json"
#define LINE_TYPE "application/json"

struct cell {
        json_t *result;           /* of the last expression, sent last; NULL: none */
        struct buf before, after; /* code of cells around it, for its variables; empty: none */
        json_t *ended;            /* its outcome, while the cell after it runs */
        struct cloche_err error;  /* or its failure */
};

static void cell_done(void *state)
{
        struct cell *cell = state;

        json_decref(cell->result);
        json_decref(cell->ended);
        buf_done(&cell->before);
        buf_done(&cell->after);
        free(cell);
}

/* -- lines ------------------------------------------------------------------------------------------------------- */

/* From now on the timeout of the cell counts for the client, not that of the request. */
static void begin_lines(struct e2b_request *q)
{
        if (q->is_streaming)
                return;
        q->is_streaming = 1;
        http_stream_raw(q->request, 200, LINE_TYPE, -1);
}

/* In ASCII: the clients decode each piece from the network separately. */
static void send_line(struct e2b_request *q, json_t *event)
{
        char *text = json_dumps(event, JSON_COMPACT | JSON_ENSURE_ASCII);

        json_decref(event);
        begin_lines(q);
        q->alive_ns = clock_now_ns();
        if (!q->is_broken && (!text || http_stream_write(q->request, text, strlen(text)) < 0 ||
                              http_stream_write(q->request, "\n", 1) < 0))
                q->is_broken = 1;
        free(text);
        e2b_stream_hold(q);
}

static void end_lines(struct e2b_request *q)
{
        q->alive_every_ns = 0;
        send_line(q, json_pack("{s:s}", "type", "end_of_execution"));
        if (q->is_broken)
                http_stream_break(q->request);
        else
                http_stream_end(q->request);
}

static void send_alive(struct e2b_request *q)
{
        send_line(q, json_pack("{s:s}", "type", "keepalive"));
}

/* -- results ----------------------------------------------------------------------------------------------------- */

static int is_bytes(const json_t *value)
{
        const char *tag = e2b_text(value, "$");

        return tag && strcmp(tag, "bytes") == 0;
}

static json_t *text_form(const json_t *value, const struct buf *attachments)
{
        const char *bytes;
        size_t size;

        if (!is_bytes(value))
                return json_incref((json_t *)value);
        return door_bytes(value, attachments, &bytes, &size) ? json_valid_text(bytes, size) : NULL;
}

static json_t *base64_form(const json_t *value, const struct buf *attachments)
{
        const char *bytes;
        size_t size;

        if (!is_bytes(value))
                return json_incref((json_t *)value);
        return door_bytes(value, attachments, &bytes, &size) ? door_base64(bytes, size) : NULL;
}

static json_t *plain_form(const json_t *value, const struct buf *attachments)
{
        (void)attachments;
        return json_incref((json_t *)value);
}

static const struct {
        const char *mime, *member;
        json_t *(*read)(const json_t *value, const struct buf *attachments);
} forms[] = {
        {"text/plain", "text", text_form},
        {"text/html", "html", text_form},
        {"text/markdown", "markdown", text_form},
        {"text/latex", "latex", text_form},
        {"image/svg+xml", "svg", text_form},
        {"image/png", "png", base64_form},
        {"image/jpeg", "jpeg", base64_form},
        {"application/pdf", "pdf", base64_form},
        {"application/json", "json", plain_form},
        {"application/javascript", "javascript", text_form},
        {CHART, "chart", plain_form},
};

static int put_form(json_t *event, const char *mime, const json_t *value, const struct buf *attachments)
{
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
                if (strcmp(forms[i].mime, mime) == 0) {
                        door_put(event, forms[i].member, forms[i].read(value, attachments));
                        return 1;
                }
        return 0;
}

/* The service shows a text as it reads, without the quotes of its representation. */
static void unquote(json_t *event)
{
        const json_t *text = json_object_get(event, "text");
        const char *at = json_string_value(text);
        size_t size = json_string_length(text);

        if (at && size >= 2 && (*at == '\'' || *at == '"') && at[size - 1] == *at)
                json_object_set_new(event, "text", json_stringn(at + 1, size - 2));
}

static json_t *result_of(const json_t *display, const struct buf *attachments)
{
        int is_main = json_is_true(json_object_get(display, "isResult"));
        json_t *event = json_pack("{s:s, s:b}", "type", "result", "is_main_result", is_main), *extra = json_object(),
               *value;
        const char *mime;

        json_object_foreach (json_object_get(display, "data"), mime, value)
                if (!put_form(event, mime, value, attachments))
                        door_put(extra, mime, text_form(value, attachments));
        if (is_main)
                unquote(event);
        if (json_object_size(extra) > 0)
                json_object_set(event, "extra", extra);
        json_decref(extra);
        return event;
}

/* -- cells ------------------------------------------------------------------------------------------------------- */

static void on_output(struct e2b_request *q, const json_t *about, const struct buf *attachments)
{
        const char *stream = e2b_text(about, "stream"), *bytes;
        size_t size;

        if (stream && door_bytes(json_object_get(about, "data"), attachments, &bytes, &size))
                send_line(q, json_pack("{s:s, s:o, s:I}", "type", stream, "text", json_valid_text(bytes, size),
                                       "timestamp", (json_int_t)clock_real_ms() * 1000000));
}

static void on_event(struct e2b_request *q, const char *event, const json_t *about, const struct buf *attachments)
{
        struct cell *cell = q->state;

        if (strcmp(event, "begin") == 0) {
                begin_lines(q);
        } else if (strcmp(event, "output") == 0) {
                on_output(q, about, attachments);
        } else if (strcmp(event, "display") == 0) {
                json_t *result = result_of(about, attachments);

                if (json_is_true(json_object_get(result, "is_main_result")) && !cell->result)
                        cell->result = result; /* figures that are still open come before it */
                else
                        send_line(q, result);
        }
}

static json_t *traceback_of(const json_t *lines)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);

        for (size_t i = 0; i < json_array_size(lines); i++) {
                const json_t *line = json_array_get(lines, i);

                if ((i > 0 && buf_append(&text, "\n", 1) < 0) ||
                    buf_append(&text, json_string_value(line), json_string_length(line)) < 0)
                        return NULL;
        }
        return json_valid_text(text.data ? text.data : "", text.size);
}

static void finish(struct e2b_request *q, const json_t *ended)
{
        const json_t *error = json_object_get(ended, "error");
        struct cell *cell = q->state;

        if (cell->result)
                send_line(q, cell->result);
        cell->result = NULL;
        if (json_is_object(error))
                send_line(q, json_pack("{s:s, s:O?, s:O?, s:o}", "type", "error", "name",
                                       json_object_get(error, "name"), "value", json_object_get(error, "message"),
                                       "traceback", traceback_of(json_object_get(error, "traceback"))));
        send_line(q, json_pack("{s:s, s:O?}", "type", "number_of_executions", "execution_count",
                               json_object_get(ended, "executionCount")));
        end_lines(q);
}

static void fail(struct e2b_request *q, const struct cloche_err *e)
{
        const char *context = e2b_text(q->body, "context_id");

        if ((e->code == CLOCHE_E_SANDBOX_ENDED && q->is_streaming) || q->is_broken)
                http_stream_break(q->request);
        else if (e->code == CLOCHE_E_SANDBOX_ENDED)
                e2b_gone(q);
        else if (e->code == CLOCHE_E_NOT_FOUND && context && !q->is_streaming)
                e2b_refuse(q, 404, "not_found", "Context %.100s not found", context);
        else if (e->code == CLOCHE_E_UNKNOWN_LANGUAGE && !q->is_streaming)
                e2b_refuse(q, 404, "not_found", "%s", e->msg);
        else if (q->is_streaming) {
                send_line(q, json_pack("{s:s, s:s, s:s, s:s}", "type", "error", "name", "InternalError", "value",
                                       e->msg, "traceback", ""));
                end_lines(q);
        } else {
                e2b_refuse(q, 500, "internal", "%s", e->msg);
        }
}

/* -- variables of one cell --------------------------------------------------------------------------------------- */

static json_t *which_context(const struct e2b_request *q);

static void run_silently(struct e2b_request *q, const char *code, e2b_then then)
{
        json_t *params = which_context(q);

        json_object_set_new(params, "code", json_string(code));
        json_object_set_new(params, "silent", json_true());
        q->fail = then;
        e2b_call(q, "context.run", params, NULL, then);
}

/* The outcome of the cell itself counts, also if its context is gone by now. */
static void on_restored(struct e2b_request *q, const struct door_reply *reply)
{
        const struct cell *cell = q->state;

        (void)reply;
        if (cell->ended)
                finish(q, cell->ended);
        else
                fail(q, &cell->error);
}

static void on_ended(struct e2b_request *q, const struct door_reply *reply)
{
        struct cell *cell = q->state;

        if (cell->after.size == 0) {
                finish(q, reply->result);
                return;
        }
        cell->ended = json_deep_copy(reply->result);
        run_silently(q, cell->after.data, on_restored);
}

static void on_not_run(struct e2b_request *q, const struct door_reply *reply)
{
        struct cell *cell = q->state;

        if (cell->after.size == 0 || reply->e->code == CLOCHE_E_SANDBOX_ENDED) {
                fail(q, reply->e);
                return;
        }
        cell->error = *reply->e;
        run_silently(q, cell->after.data, on_restored);
}

/* The clients write js, ts and upper case. NULL: absent. */
static json_t *language_of(const json_t *body)
{
        static const char *const aliases[][2] = {{"js", "javascript"}, {"ts", "typescript"}, {"python3", "python"}};
        const char *given = e2b_text(body, "language");
        char *name = given ? strdup(given) : NULL;
        json_t *language;

        if (!name)
                return NULL;
        for (char *at = name; *at; at++)
                *at |= *at >= 'A' && *at <= 'Z' ? 0x20 : 0;
        language = json_string(name);
        for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
                if (strcmp(name, aliases[i][0]) == 0)
                        json_string_set(language, aliases[i][1]);
        free(name);
        return language;
}

static json_t *which_context(const struct e2b_request *q)
{
        json_t *context = json_object_get(q->body, "context_id"), *params = json_object();

        if (json_is_string(context))
                return door_put(params, "context", json_incref(context));
        return door_put(params, "language", language_of(q->body));
}

static void run_cell(struct e2b_request *q)
{
        json_t *params = json_pack("{s:O, s:b, s:b, s:i}", "code", json_object_get(q->body, "code"), "stream", 1,
                                   "restart", 1, "outputBytes", 0),
               *which = which_context(q);

        json_object_update(params, which);
        json_decref(which);
        q->fail = on_not_run;
        q->on_event = on_event;
        e2b_call(q, "context.run", params, NULL, on_ended);
}

static void on_set(struct e2b_request *q, const struct door_reply *reply)
{
        if (reply->e)
                fail(q, reply->e);
        else
                run_cell(q);
}

static void set_env(struct e2b_request *q, const char *language)
{
        struct cell *cell = q->state;
        int r = e2b_cell_env_write(language, json_object_get(q->body, "env_vars"), &cell->before, &cell->after);

        if (r == -EOPNOTSUPP)
                e2b_refuse(q, 400, "invalid_argument",
                           "'env_vars' are not supported for %.40s (docs/e2b.md): use 'envs' of the sandbox", language);
        else if (r < 0)
                e2b_refuse(q, 400, "invalid_argument",
                           "'env_vars' must be an object of texts, whose names are letters, digits and _");
        else
                run_silently(q, cell->before.data, on_set);
}

static void on_language(struct e2b_request *q, const struct door_reply *reply)
{
        if (reply->e)
                fail(q, reply->e);
        else
                set_env(q, e2b_text(reply->result, "language"));
}

static void begin_with_env(struct e2b_request *q)
{
        json_t *context = json_object_get(q->body, "context_id"), *language = language_of(q->body);

        if (json_is_string(context)) {
                q->fail = on_language;
                e2b_call(q, "context.get", json_pack("{s:O}", "context", context), NULL, on_language);
        } else {
                set_env(q, language ? json_string_value(language) : "python");
        }
        json_decref(language);
}

static void begin(struct e2b_request *q)
{
        struct cell *cell = calloc(1, sizeof(*cell));

        if (!cell) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        cell->before = cell->after = (struct buf)BUF_INIT(1u << 20);
        q->state = cell;
        q->state_done = cell_done;
        q->alive_ns = clock_now_ns();
        q->alive_every_ns = ALIVE_S * UINT64_C(1000000000);
        q->on_alive = send_alive;
        if (json_object_size(json_object_get(q->body, "env_vars")) > 0)
                begin_with_env(q);
        else
                run_cell(q);
}

void e2b_on_execute(struct e2b_request *q)
{
        if (!json_is_string(json_object_get(q->body, "code")))
                e2b_refuse(q, 400, "invalid_argument", "'code' is missing, expected a text");
        else if (json_is_string(json_object_get(q->body, "context_id")) &&
                 json_is_string(json_object_get(q->body, "language")))
                e2b_refuse(q, 400, "invalid_argument", "Only one of context_id or language can be provided");
        else
                e2b_with_sandbox(q, begin);
}

/* -- contexts ---------------------------------------------------------------------------------------------------- */

static json_t *context_of(const json_t *context)
{
        return json_pack("{s:O, s:O, s:O}", "id", json_object_get(context, "context"), "language",
                         json_object_get(context, "language"), "cwd", json_object_get(context, "cwd"));
}

static void on_context(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_answer(q, 200, context_of(reply->result));
}

/* The service answers 500 also to a language that it lacks. The clients show the text of 404 alone,
 * and that names the languages there are. */
static void on_no_context(struct e2b_request *q, const struct door_reply *reply)
{
        if (reply->e->code == CLOCHE_E_NOT_FOUND && q->parts[0])
                e2b_refuse(q, 404, "not_found", "Context %.100s not found", q->parts[0]);
        else if (reply->e->code == CLOCHE_E_UNKNOWN_LANGUAGE)
                e2b_refuse(q, 404, "not_found", "%s", reply->e->msg);
        else
                e2b_refuse(q, 500, "internal", "%s", reply->e->msg);
}

static void create(struct e2b_request *q)
{
        const char *cwd = e2b_text(q->body, "cwd");
        json_t *params = json_pack("{s:o}", "cwd", e2b_path(cwd));

        door_put(params, "language", language_of(q->body));
        q->fail = on_no_context;
        e2b_call(q, "context.create", params, NULL, on_context);
}

void e2b_on_context_create(struct e2b_request *q)
{
        e2b_with_sandbox(q, create);
}

static void on_contexts(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *contexts = json_object_get(reply->result, "contexts");
        json_t *all = json_array();

        for (size_t i = 0; i < json_array_size(contexts); i++)
                json_array_append_new(all, context_of(json_array_get(contexts, i)));
        e2b_answer(q, 200, all);
}

static void list(struct e2b_request *q)
{
        e2b_call(q, "context.list", json_object(), NULL, on_contexts);
}

void e2b_on_context_list(struct e2b_request *q)
{
        e2b_with_sandbox(q, list);
}

static void on_done(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_answer(q, 200, json_null());
}

static void delete (struct e2b_request *q)
{
        q->fail = on_no_context;
        e2b_call(q, "context.delete", json_pack("{s:s}", "context", q->parts[0]), NULL, on_done);
}

void e2b_on_context_delete(struct e2b_request *q)
{
        e2b_with_sandbox(q, delete);
}

static void restart(struct e2b_request *q)
{
        q->fail = on_no_context;
        e2b_call(q, "context.restart", json_pack("{s:s}", "context", q->parts[0]), NULL, on_done);
}

void e2b_on_context_restart(struct e2b_request *q)
{
        e2b_with_sandbox(q, restart);
}

/* -- envd itself ------------------------------------------------------------------------------------------------- */

static void healthy(struct e2b_request *q)
{
        e2b_answer_empty(q);
}

void e2b_on_health(struct e2b_request *q)
{
        e2b_with_sandbox(q, healthy);
}

static void envs(struct e2b_request *q)
{
        e2b_answer(q, 200, json_incref(json_object_get(q->described, "env")));
}

void e2b_on_envs(struct e2b_request *q)
{
        e2b_with_sandbox(q, envs);
}
