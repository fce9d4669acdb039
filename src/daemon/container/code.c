/* Cells of the code interpreter: POST /api/execute/code. 0.3 reads JSON lines, later clients SSE.
 * Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cell {
        struct container_utf8 out, err;
        struct container_network network;
        char *language; /* of its context; NULL: of a default context */
        json_t *result; /* of its last expression, or NULL; sent last, because figures that are still open precede it */
};

/* Only clients of 0.3 send Accept here. */
static int is_old(const struct container_request *q)
{
        return q->takes_events && !q->is_new;
}

/* -- events ---------------------------------------------------------------------------------------------------- */

/* The clients' types have the time as a number. */
static json_t *with_time(json_t *event)
{
        return door_put(event, "timestamp", json_integer((json_int_t)clock_real_ms()));
}

/* Nothing is sent before the cell begins, so an earlier failure can still be an HTTP status. */
static void send_event(struct container_request *q, json_t *event)
{
        if (!q->is_streaming) {
                q->is_ascii = 1;
                q->is_bare = is_old(q);
                container_begin(q);
        }
        if (event)
                container_line(q, with_time(event));
}

static void send_text(struct container_request *q, const char *stream, const char *bytes, size_t size, int is_end)
{
        struct cell *cell = q->state;
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        struct container_utf8 *utf8 = strcmp(stream, "stderr") == 0 ? &cell->err : &cell->out;

        if (container_utf8_append(utf8, bytes, size, is_end, &text) < 0 || text.size == 0)
                return;
        send_event(q, json_pack("{s:s, s:s%}", "type", stream, "text", text.data, text.size));
        if (utf8 == &cell->err)
                container_network_search(&cell->network, &text);
}

static void on_begin(struct container_request *q, const json_t *about, const struct buf *attachments)
{
        (void)about;
        (void)attachments;
        send_event(q, NULL);
}

static void on_output(struct container_request *q, const json_t *about, const struct buf *attachments)
{
        const char *stream = json_string_value(json_object_get(about, "stream")), *bytes;
        size_t size;

        if (stream && door_bytes(json_object_get(about, "data"), attachments, &bytes, &size))
                send_text(q, stream, bytes, size, 0);
}

static void on_display(struct container_request *q, const json_t *about, const struct buf *attachments)
{
        json_t *event = container_code_result(about, attachments);
        struct cell *cell = q->state;

        if (event && json_is_true(json_object_get(about, "isResult")) && !cell->result)
                cell->result = event;
        else if (event)
                send_event(q, event);
}

/* The clients lack the events "clear" and "input"; a cell may not request input here. */
static const struct {
        const char *name;
        void (*handle)(struct container_request *q, const json_t *about, const struct buf *attachments);
} events[] = {{"begin", on_begin}, {"output", on_output}, {"display", on_display}};

static void on_event(struct container_request *q, const char *event, const json_t *about, const struct buf *attachments)
{
        for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
                if (strcmp(events[i].name, event) == 0)
                        events[i].handle(q, about, attachments);
}

/* -- its end --------------------------------------------------------------------------------------------------- */

static int has_network_words(const json_t *text)
{
        return json_is_string(text) && network_words_find(json_string_value(text), json_string_length(text));
}

/* A cell has no exit code: it may have caught the errors of the commands that it ran. */
static void explain_network(struct container_request *q, const json_t *error)
{
        const struct cell *cell = q->state;
        int is_found = cell->network.words.is_found || has_network_words(json_object_get(error, "message"));
        const json_t *line;
        size_t i;
        char *why;

        json_array_foreach (json_object_get(error, "traceback"), i, line)
                is_found = is_found || has_network_words(line);
        why = is_found ? container_network_line(q) : NULL;
        if (why)
                send_event(q, json_pack("{s:s, s:s}", "type", "stderr", "text", why));
        free(why);
}

static void ended(struct container_request *q, const struct door_reply *reply)
{
        const json_t *error = json_object_get(reply->result, "error");
        struct cell *cell = q->state;
        json_t *event;

        send_text(q, "stdout", "", 0, 1);
        send_text(q, "stderr", "", 0, 1);
        explain_network(q, error);
        if (cell->result)
                send_event(q, cell->result);
        cell->result = NULL;
        if (json_is_object(error))
                event = json_pack("{s:s, s:O?, s:O?, s:O?}", "type", "error", "ename", json_object_get(error, "name"),
                                  "evalue", json_object_get(error, "message"), "traceback",
                                  json_object_get(error, "traceback"));
        else
                event = json_pack("{s:s}", "type", "execution_complete");
        send_event(q,
                   door_put(event, "execution_count", json_incref(json_object_get(reply->result, "executionCount"))));
        container_end(q);
}

static void failed(struct container_request *q, const struct door_reply *reply)
{
        const struct cell *cell = q->state;
        const char *name = reply->e->code == CLOCHE_E_CONTEXT_ENDED ? "ContextEnded" : "InternalError";

        if (!q->is_streaming) {
                container_code_fail(q, container_text(q, "context_id"), cell->language, reply);
                return;
        }
        send_event(q, json_pack("{s:s, s:s, s:o, s:[]}", "type", "error", "ename", name, "evalue",
                                container_words(reply->e->msg), "traceback"));
        container_end(q);
}

/* -- its beginning --------------------------------------------------------------------------------------------- */

static void run(struct container_request *q)
{
        json_t *params = json_pack("{s:O, s:b, s:b, s:i}", "code", container_field(q, "code"), "stream", 1, "restart",
                                   1, "outputBytes", 0);

        door_put(params, "context", container_copy(q, "context_id"));
        if (!container_field(q, "context_id"))
                door_put(params, "language", container_copy(q, "language"));
        door_put(params, "timeoutMs", container_code_timeout(q));
        q->fail = failed;
        q->on_event = on_event;
        container_call(q, "context.run", params, NULL, ended);
}

/* True if the request's language is the context's. 0.3 treats an unknown language as Python. */
static int is_of_language(const struct container_request *q, const char *language)
{
        const char *wanted = container_text(q, "language");
        const json_t *known = wanted ? languages_find(&q->door.daemon->languages, wanted) : NULL;

        if (!wanted)
                return 1;
        return strcmp(language, known       ? json_string_value(json_object_get(known, "name"))
                                : is_old(q) ? "python"
                                            : wanted) == 0;
}

static void found(struct container_request *q, const struct door_reply *reply)
{
        const char *language = json_string_value(json_object_get(reply->result, "language")),
                   *state = json_string_value(json_object_get(reply->result, "state"));
        struct cell *cell = q->state;

        if (language && !is_of_language(q, language)) {
                container_refuse(q, CONTAINER_CODE_EXECUTION_ERROR, NULL, NULL,
                                 "Context %.64s is of %.32s, and the code of %.32s: make a context of that language",
                                 container_text(q, "context_id"), language, container_text(q, "language"));
                return;
        }
        cell->language = language ? strdup(language) : NULL;
        if (state && strcmp(state, "busy") == 0) /* the context is alive, but the cells before this one may take long */
                send_event(q, NULL);
        run(q);
}

static void cell_free(void *state)
{
        struct cell *cell = state;

        json_decref(cell->result);
        free(cell->language);
        free(cell);
}

/* A cell has no variables of its own: a request with some is refused, else they would be lost. */
static int check_env(struct container_request *q)
{
        json_t *env = container_code_env(q);
        int is_empty = json_object_size(env) == 0;

        json_decref(env);
        if (!is_empty)
                container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "'env_vars' are given when a context is made, not with its code");
        return is_empty;
}

void container_execute_code(struct container_request *q)
{
        const char *id = container_text(q, "context_id");

        if (!id && is_old(q)) {
                container_refuse(q, CONTAINER_CONTEXT_NOT_FOUND, "Context undefined not found", NULL,
                                 "'context_id' is missing, expected the id of a context");
                return;
        }
        if (!check_env(q))
                return;
        q->state = calloc(1, sizeof(struct cell));
        q->state_done = cell_free;
        if (!q->state) {
                q->state_done = NULL;
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
        } else if (id) {
                q->fail = failed;
                container_call(q, "context.get", json_pack("{s:s}", "context", id), NULL, found);
        } else {
                run(q);
        }
}
