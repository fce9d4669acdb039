/* Cells of the code interpreter: POST /api/execute/code. 0.3 reads JSON lines, later clients
 * SSE. */
#include "internal.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cell {
        struct container_utf8 out, err;
        char *language; /* of its context; NULL: of a default context */
        json_t *result; /* of its last expression, or NULL; sent last, because figures that are still open precede it */
};

/* Only clients of 0.3 send Accept here. */
static int is_old(const struct container_ask *a)
{
        return a->takes_events && !a->is_new;
}

/* -- events ---------------------------------------------------------------------------------------------------- */

/* The clients' types have the time as a number. */
static json_t *with_time(json_t *event)
{
        return container_put(event, "timestamp", json_integer((json_int_t)clock_real_ms()));
}

/* Nothing is sent before the cell begins, so an earlier failure can still be an HTTP status. */
static void tell(struct container_ask *a, json_t *event)
{
        if (!a->is_streaming) {
                a->is_ascii = 1;
                a->is_bare = is_old(a);
                container_begin(a);
        }
        if (event)
                container_line(a, with_time(event));
}

static void tell_text(struct container_ask *a, const char *stream, const char *bytes, size_t size, int is_end)
{
        struct cell *cell = a->state;
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);

        if (container_utf8_append(strcmp(stream, "stderr") == 0 ? &cell->err : &cell->out, bytes, size, is_end,
                                  &text) == 0 &&
            text.size > 0)
                tell(a, json_pack("{s:s, s:s%}", "type", stream, "text", text.data, text.size));
}

static void on_begin(struct container_ask *a, const json_t *about, const struct buf *attachments)
{
        (void)about;
        (void)attachments;
        tell(a, NULL);
}

static void on_output(struct container_ask *a, const json_t *about, const struct buf *attachments)
{
        const char *stream = json_string_value(json_object_get(about, "stream")), *bytes;
        size_t size;

        if (stream && container_bytes(json_object_get(about, "data"), attachments, &bytes, &size))
                tell_text(a, stream, bytes, size, 0);
}

static void on_display(struct container_ask *a, const json_t *about, const struct buf *attachments)
{
        json_t *event = container_code_result(about, attachments);
        struct cell *cell = a->state;

        if (event && json_is_true(json_object_get(about, "isResult")) && !cell->result)
                cell->result = event;
        else if (event)
                tell(a, event);
}

/* The clients lack the events "clear" and "input"; a cell may not request input here. */
static const struct {
        const char *name;
        void (*hear)(struct container_ask *a, const json_t *about, const struct buf *attachments);
} events[] = {{"begin", on_begin}, {"output", on_output}, {"display", on_display}};

static void on_event(struct container_ask *a, const char *event, const json_t *about, const struct buf *attachments)
{
        for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
                if (strcmp(events[i].name, event) == 0)
                        events[i].hear(a, about, attachments);
}

/* -- its end --------------------------------------------------------------------------------------------------- */

static void ended(struct container_ask *a, const struct container_reply *reply)
{
        const json_t *error = json_object_get(reply->result, "error");
        struct cell *cell = a->state;
        json_t *event;

        tell_text(a, "stdout", "", 0, 1);
        tell_text(a, "stderr", "", 0, 1);
        if (cell->result)
                tell(a, cell->result);
        cell->result = NULL;
        if (json_is_object(error))
                event = json_pack("{s:s, s:O?, s:O?, s:O?}", "type", "error", "ename", json_object_get(error, "name"),
                                  "evalue", json_object_get(error, "message"), "traceback",
                                  json_object_get(error, "traceback"));
        else
                event = json_pack("{s:s}", "type", "execution_complete");
        tell(a, container_put(event, "execution_count", json_incref(json_object_get(reply->result, "executionCount"))));
        container_end(a);
}

static void failed(struct container_ask *a, const struct container_reply *reply)
{
        const struct cell *cell = a->state;
        const char *name = reply->e->code == CLOCHE_E_CONTEXT_ENDED ? "ContextEnded" : "InternalError";

        if (!a->is_streaming) {
                container_code_fail(a, container_text(a, "context_id"), cell->language, reply);
                return;
        }
        tell(a, json_pack("{s:s, s:s, s:o, s:[]}", "type", "error", "ename", name, "evalue",
                          container_words(reply->e->msg), "traceback"));
        container_end(a);
}

/* -- its beginning --------------------------------------------------------------------------------------------- */

static void run(struct container_ask *a)
{
        json_t *params = json_pack("{s:O, s:b, s:b, s:i}", "code", container_field(a, "code"), "stream", 1, "restart",
                                   1, "outputBytes", 0);

        container_put(params, "context", container_copy(a, "context_id"));
        if (!container_field(a, "context_id"))
                container_put(params, "language", container_copy(a, "language"));
        container_put(params, "timeoutMs", container_code_timeout(a));
        a->fail = failed;
        a->on_event = on_event;
        container_call(a, "context.run", params, NULL, ended);
}

/* True if the request's language is the context's. 0.3 treats an unknown language as Python. */
static int is_of_language(const struct container_ask *a, const char *language)
{
        const char *wanted = container_text(a, "language");
        const json_t *known = wanted ? languages_find(&a->daemon->languages, wanted) : NULL;

        if (!wanted)
                return 1;
        return strcmp(language, known       ? json_string_value(json_object_get(known, "name"))
                                : is_old(a) ? "python"
                                            : wanted) == 0;
}

static void found(struct container_ask *a, const struct container_reply *reply)
{
        const char *language = json_string_value(json_object_get(reply->result, "language")),
                   *state = json_string_value(json_object_get(reply->result, "state"));
        struct cell *cell = a->state;

        if (language && !is_of_language(a, language)) {
                container_refuse(a, CONTAINER_CODE_EXECUTION_ERROR, NULL, NULL,
                                 "Context %.64s is of %.32s, and the code of %.32s: make a context of that language",
                                 container_text(a, "context_id"), language, container_text(a, "language"));
                return;
        }
        cell->language = language ? strdup(language) : NULL;
        if (state && strcmp(state, "busy") == 0) /* the context is alive, but the cells before this one may take long */
                tell(a, NULL);
        run(a);
}

static void cell_free(void *state)
{
        struct cell *cell = state;

        json_decref(cell->result);
        free(cell->language);
        free(cell);
}

/* A cell has no variables of its own: a request with some is refused, else they would be lost. */
static int check_env(struct container_ask *a)
{
        json_t *env = container_code_env(a);
        int is_empty = json_object_size(env) == 0;

        json_decref(env);
        if (!is_empty)
                container_refuse(a, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "'env_vars' are given when a context is made, not with its code");
        return is_empty;
}

void container_execute_code(struct container_ask *a)
{
        const char *id = container_text(a, "context_id");

        if (!id && is_old(a)) {
                container_refuse(a, CONTAINER_CONTEXT_NOT_FOUND, "Context undefined not found", NULL,
                                 "'context_id' is missing, expected the id of a context");
                return;
        }
        if (!check_env(a))
                return;
        a->state = calloc(1, sizeof(struct cell));
        a->state_done = cell_free;
        if (!a->state) {
                a->state_done = NULL;
                container_refuse(a, CONTAINER_INTERNAL_ERROR, a->route->failed, NULL, "out of memory");
        } else if (id) {
                a->fail = failed;
                container_call(a, "context.get", json_pack("{s:s}", "context", id), NULL, found);
        } else {
                run(a);
        }
}
