/* The tool run_code: a cell in a context. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "daemon/mcp/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_S 60
#define DISPLAYS_MAX 100

struct cell {
        struct mcp_output output;
        json_t *displays; /* blocks of content, and "id" of those that may be replaced */
        json_t *result;   /* the text of the last expression; NULL: none */
        size_t image_count, image_bytes;
        int is_short; /* images are left out */
        int is_made;  /* the context was made for it */
        /* For a fresh one: contexts that go with it. */
        struct mcp_exchange *x;
        char *sandbox, *base, *copy;
};

/* A client that goes leaves no contexts behind. */
static void drop_context(struct cell *cell, char *name)
{
        if (name)
                mcp_send_off(&cell->x->door, cell->sandbox, "context.delete", json_pack("{s:s}", "context", name));
        free(name);
}

static void cell_done(void *state)
{
        struct cell *cell = state;

        drop_context(cell, cell->base);
        drop_context(cell, cell->copy);
        free(cell->sandbox);
        mcp_output_done(&cell->output);
        json_decref(cell->displays);
        json_decref(cell->result);
        free(cell);
}

/* -- displays ---------------------------------------------------------------------------------------------------- */

#define SVG "image/svg+xml"

/* An image is text in base64, or bytes. */
static json_t *image_block(const char *mime, const json_t *value, const char *bytes, size_t size)
{
        return mcp_image_block(mime, json_is_string(value) ? json_incref((json_t *)value) : door_base64(bytes, size));
}

/* Drawings are text, which the models' own interfaces do not take as an image. */
static json_t *svg_block(const struct mcp_exchange *x, const char *bytes, size_t size)
{
        const struct cell *cell = x->state;

        return json_pack("{s:s, s:{s:o, s:s, s:o}}", "type", "resource", "resource", "uri",
                         json_sprintf("cloche://%s/displays/%zu.svg", x->door.sandbox, cell->image_count), "mimeType",
                         "image/svg+xml", "text", json_valid_text(bytes, size));
}

static json_t *text_of(struct cell *cell, const json_t *value, const struct buf *attachments)
{
        const char *bytes;
        size_t size;

        if (!door_bytes(value, attachments, &bytes, &size))
                return NULL;
        cell->is_short |= size > MCP_TEXT_BYTES;
        return mcp_cut_of(bytes, size);
}

/* The display of an id that is shown already; NULL: none. */
static json_t *find_shown(const struct cell *cell, const json_t *id)
{
        size_t i;
        json_t *shown;

        json_array_foreach (cell->displays, i, shown)
                if (id && json_equal(json_object_get(shown, "id"), id))
                        return shown;
        return NULL;
}

/* An image takes the place of its earlier form, also in the bounds. */
static void release_image(struct cell *cell, const json_t *shown)
{
        json_int_t size = json_integer_value(json_object_get(shown, "bytes"));

        if (size > 0) {
                cell->image_count--;
                cell->image_bytes -= (size_t)size;
        }
}

/* The best form of a display that is no text; NULL: none, or it does not fit. *ret_bytes: its
 * size. */
static json_t *picture_of(const struct mcp_exchange *x, const json_t *data, const struct buf *attachments,
                          size_t *ret_bytes)
{
        struct cell *cell = x->state;
        const char *bytes, *mime;
        size_t size, i = 0;

        while (mcp_image_types[i] && !json_object_get(data, mcp_image_types[i]))
                i++;
        mime = mcp_image_types[i] ? mcp_image_types[i] : SVG;
        if (!door_bytes(json_object_get(data, mime), attachments, &bytes, &size) || size == 0)
                return NULL;
        if (cell->image_count >= MCP_IMAGES_MAX || cell->image_bytes + size > MCP_IMAGE_BYTES) {
                cell->is_short = 1;
                return NULL;
        }
        cell->image_count++;
        cell->image_bytes += size;
        *ret_bytes = size;
        return strcmp(mime, SVG) == 0 ? svg_block(x, bytes, size)
                                      : image_block(mime, json_object_get(data, mime), bytes, size);
}

/* block: stolen. */
static void put_block(struct cell *cell, json_t *shown, const json_t *id, json_t *block, size_t bytes)
{
        json_t *display = json_pack("{s:O*, s:o, s:I}", "id", id, "block", block, "bytes", (json_int_t)bytes);

        if (shown)
                json_object_update(shown, display);
        else if (json_array_size(cell->displays) < DISPLAYS_MAX)
                json_array_append(cell->displays, display);
        else
                cell->is_short = 1;
        json_decref(display);
}

static void on_display(struct mcp_exchange *x, const json_t *about, const struct buf *attachments)
{
        struct cell *cell = x->state;
        const json_t *data = json_object_get(about, "data"), *id = json_object_get(about, "displayId");
        json_t *shown = find_shown(cell, id), *block, *text;
        size_t bytes = 0, count_before = cell->image_count, bytes_before = cell->image_bytes;

        release_image(cell, shown);
        block = picture_of(x, data, attachments, &bytes);
        text = text_of(cell, json_object_get(data, "text/plain"), attachments);
        if (json_is_true(json_object_get(about, "isResult")) && text) {
                json_decref(cell->result);
                cell->result = json_incref(text);
        } else if (!block && text) {
                block = mcp_text_block(text);
        }
        if (block) {
                put_block(cell, shown, id, block, bytes);
        } else { /* the earlier form stays */
                cell->image_count = count_before;
                cell->image_bytes = bytes_before;
        }
        json_decref(text);
}

static void clear(struct cell *cell)
{
        json_array_clear(cell->displays);
        cell->image_count = cell->image_bytes = 0;
}

static void on_event(struct mcp_exchange *x, const char *event, const json_t *about, const struct buf *attachments)
{
        struct cell *cell = x->state;

        if (strcmp(event, "display") == 0)
                on_display(x, about, attachments);
        else if (strcmp(event, "clear") == 0)
                clear(cell);
        else
                mcp_output_take(x, &cell->output, event, about, attachments);
}

/* -- results ----------------------------------------------------------------------------------------------------- */

static json_t *traceback_of(const json_t *error)
{
        const json_t *lines = json_object_get(error, "traceback");
        struct mcp_cut cut;
        json_t *text;

        mcp_cut_init(&cut);
        for (size_t i = 0; i < json_array_size(lines); i++) {
                const json_t *line = json_array_get(lines, i);

                if (i > 0)
                        mcp_cut_add(&cut, "\n", 1);
                mcp_cut_add(&cut, json_string_value(line), json_string_length(line));
        }
        if (json_array_size(lines) == 0) {
                const char *name = mcp_text(error, "name"), *message = mcp_text(error, "message");

                mcp_cut_add(&cut, name ? name : "", name ? strlen(name) : 0);
                mcp_cut_add(&cut, ": ", 2);
                mcp_cut_add(&cut, message ? message : "", message ? strlen(message) : 0);
        }
        text = mcp_cut_text(&cut);
        mcp_cut_done(&cut);
        return text;
}

static json_t *error_of(const json_t *ended)
{
        const json_t *error = json_object_get(ended, "error"), *message = json_object_get(error, "message");

        if (!json_is_object(error))
                return NULL;
        return json_pack("{s:O, s:o, s:o}", "name", json_object_get(error, "name"), "message",
                         mcp_cut_of(json_string_value(message), json_string_length(message)), "traceback",
                         traceback_of(error));
}

static const char *status_of(const json_t *ended)
{
        if (json_is_true(json_object_get(ended, "timedOut")))
                return "timeout";
        return json_is_object(json_object_get(ended, "error")) ? "error" : "ok";
}

static json_t *content_of(struct mcp_exchange *x, const json_t *structured, const json_t *ended)
{
        const struct cell *cell = x->state;
        json_t *content = json_array(), *shown;
        size_t i;

        mcp_add_text(content, json_object_get(structured, "stdout"));
        mcp_add_text(content, json_object_get(structured, "stderr"));
        mcp_add_text(content, json_object_get(structured, "result"));
        json_array_foreach (cell->displays, i, shown)
                json_array_append(content, json_object_get(shown, "block"));
        mcp_add_text(content, json_object_get(json_object_get(structured, "error"), "traceback"));
        mcp_add_denials(x, content, ended);
        if (json_array_size(content) == 0)
                json_array_append_new(content, json_pack("{s:s, s:s}", "type", "text", "text", "(no output)"));
        return content;
}

static void on_ended(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct cell *cell = x->state;
        const json_t *ended = reply->result;
        int is_short = cell->is_short || mcp_output_is_short(&cell->output);
        json_t *structured =
                json_pack("{s:s, s:o, s:o, s:O*, s:o*, s:O, s:O, s:b, s:O*}", "status", status_of(ended), "stdout",
                          mcp_cut_text(&cell->output.stdout), "stderr", mcp_cut_text(&cell->output.stderr), "result",
                          cell->result, "error", error_of(ended), "execution_count",
                          json_object_get(ended, "executionCount"), "duration_ms", json_object_get(ended, "durationMs"),
                          "truncated", is_short, "output",
                          mcp_output_is_short(&cell->output) ? json_object_get(ended, "output") : NULL);

        mcp_tool_answer(x, content_of(x, structured, ended), structured, strcmp(status_of(ended), "ok") != 0);
}

/* -- the cell ---------------------------------------------------------------------------------------------------- */

static void run(struct mcp_exchange *x);

static void on_made(struct mcp_exchange *x, const struct door_reply *reply)
{
        (void)reply;
        run(x);
}

/* A context is made on its first use. Another call may have made it meanwhile. */
static void on_failed(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct cell *cell = x->state;
        json_t *context = json_object_get(x->arguments, "context");

        if (reply->e->code != CLOCHE_E_NOT_FOUND || !context || cell->is_made) {
                mcp_tool_fail(x, reply->e);
                return;
        }
        cell->is_made = 1;
        mcp_call(x, "context.create",
                 json_pack("{s:O, s:O*}", "context", context, "language", json_object_get(x->arguments, "language")),
                 NULL, on_made);
}

static void run(struct mcp_exchange *x)
{
        const struct cell *cell = x->state;
        json_t *context = json_object_get(x->arguments, "context"),
               *language = context ? NULL : json_object_get(x->arguments, "language");

        x->on_event = on_event;
        x->fail = on_failed;
        mcp_call(x, "context.run",
                 json_pack("{s:O, s:o*, s:O*, s:I, s:b, s:b, s:i}", "code", json_object_get(x->arguments, "code"),
                           "context", cell->copy ? json_string(cell->copy) : json_incref(context), "language",
                           cell->copy ? NULL : language, "timeoutMs", mcp_count(x, "timeout_s", TIMEOUT_S) * 1000,
                           "stream", 1, "restart", 1, "outputBytes", (int)MCP_TEXT_BYTES),
                 NULL, on_ended);
}

/* A context has one language. */
static void on_found(struct mcp_exchange *x, const struct door_reply *reply)
{
        const char *has = mcp_text(reply->result, "language"), *asked = mcp_text(x->arguments, "language");

        if (has && strcmp(has, asked) != 0)
                mcp_refuse(x, MCP_BAD_PARAMS, "the context '%s' has the language %s, not %s",
                           mcp_text(x->arguments, "context"), has, asked);
        else
                run(x);
}

/* -- fresh cells ------------------------------------------------------------------------------------------------- */

/* The copy has a copy of the workspace too: files stay as they were. */
static void on_copied(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct cell *cell = x->state;
        const char *name = mcp_text(json_array_get(json_object_get(reply->result, "contexts"), 0), "context");

        cell->copy = name ? strdup(name) : NULL;
        drop_context(cell, cell->base);
        cell->base = NULL;
        if (cell->copy)
                run(x);
        else
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
}

static void copy(struct mcp_exchange *x, json_t *context)
{
        mcp_call(x, "context.fork", json_pack("{s:o}", "context", context), NULL, on_copied);
}

static void on_base(struct mcp_exchange *x, const struct door_reply *reply)
{
        const struct cell *cell = x->state;

        (void)reply;
        copy(x, json_string(cell->base));
}

/* A copy of the named context, or of a new one. The name is ours: it is deleted even if the answer
 * never came. */
static void run_fresh(struct mcp_exchange *x)
{
        struct cell *cell = x->state;
        json_t *context = json_object_get(x->arguments, "context");
        char id[MCP_SESSION_SIZE];

        cell->sandbox = strdup(x->door.sandbox);
        mcp_random_id(id);
        if (!context && asprintf(&cell->base, "fresh-%s", id) < 0)
                cell->base = NULL;
        if (!cell->sandbox || (!context && !cell->base))
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
        else if (context)
                copy(x, json_incref(context));
        else
                mcp_call(x, "context.create",
                         json_pack("{s:s, s:O*, s:b}", "context", cell->base, "language",
                                   json_object_get(x->arguments, "language"), "forkable", 1),
                         NULL, on_base);
}

void mcp_run_code(struct mcp_exchange *x)
{
        struct cell *cell = calloc(1, sizeof(*cell));

        if (!cell) {
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
                return;
        }
        mcp_output_init(&cell->output);
        cell->displays = json_array();
        x->state = cell;
        x->state_done = cell_done;
        cell->x = x;
        if (json_is_true(json_object_get(x->arguments, "fresh"))) {
                run_fresh(x);
                return;
        }
        if (!json_object_get(x->arguments, "context") || !json_object_get(x->arguments, "language")) {
                run(x);
                return;
        }
        x->fail = on_failed;
        mcp_call(x, "context.get", json_pack("{s:O}", "context", json_object_get(x->arguments, "context")), NULL,
                 on_found);
}
