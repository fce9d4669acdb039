/* Events of a cell become outputs of a notebook. Runs in: the CLI, as its user. */
#include "notebook-outputs.h"

#include "base/err.h"
#include "base/utf8.h"
#include "cli/output/print.h"
#include "cli/sandbox/sandbox-options.h"
#include "jupyter/text.h"
#include "notebook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_BYTES_MAX (256u << 20)
#define STREAM_BYTES_MAX (64u << 20)

void notebook_outputs_init(struct notebook_outputs *o)
{
        *o = (struct notebook_outputs){.by_id = json_object(), .printed = BUF_INIT(STREAM_BYTES_MAX)};
}

void notebook_outputs_done(struct notebook_outputs *o)
{
        json_decref(o->by_id);
        buf_done(&o->printed);
}

void notebook_outputs_cell(struct notebook_outputs *o, json_t *cell)
{
        json_object_set_new(cell, "execution_count", json_null());
        json_object_set_new(cell, "outputs", json_array());
        o->cell = cell;
        o->outputs = json_object_get(cell, "outputs");
        o->count = 0;
        o->clears = 0;
        o->bytes = 0;
        buf_consume(&o->printed, o->printed.size);
}

/* -- printed text --------------------------------------------------------------------------------------------- */

static json_t *printed_lines(const struct buf *printed)
{
        _cleanup_buf_ struct buf text = BUF_INIT(3 * (size_t)STREAM_BYTES_MAX);

        return utf8_append_valid(&text, printed->data, printed->size) < 0 ? NULL : notebook_lines(text.data, text.size);
}

static void end_stream(struct notebook_outputs *o)
{
        if (o->printed.size)
                json_array_append_new(o->outputs, json_pack("{s:s, s:s, s:o}", "name", o->stream, "output_type",
                                                            "stream", "text", printed_lines(&o->printed)));
        buf_consume(&o->printed, o->printed.size);
}

/* Drop displays shown in no cell any more: they cannot be updated, and a guest could exhaust our
 * memory with them. */
static void drop_old(struct notebook_outputs *o)
{
        const char *id;
        json_t *shown;
        void *next;

        json_object_foreach_safe (o->by_id, next, id, shown) {
                for (size_t i = json_array_size(shown); i > 0; i--)
                        if (json_array_get(shown, i - 1)->refcount == 1)
                                json_array_remove(shown, i - 1);
                if (json_array_size(shown) == 0)
                        json_object_del(o->by_id, id);
        }
}

static void clear(struct notebook_outputs *o)
{
        buf_consume(&o->printed, o->printed.size);
        json_array_clear(o->outputs);
        drop_old(o);
        o->clears = 0;
        o->bytes = 0;
}

/* Called before each output: perform a pending clear. */
static int start_output(struct notebook_outputs *o, size_t bytes, struct cloche_err *e)
{
        if (o->clears)
                clear(o);
        o->bytes += bytes;
        if (o->bytes > CELL_BYTES_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "the cell prints and displays more than %u bytes",
                               CELL_BYTES_MAX);
        return 0;
}

static int take_output(struct notebook_outputs *o, const struct daemon_message *message, struct cloche_err *e)
{
        const char *stream = strcmp(sandbox_text(message->body, "stream"), "stderr") == 0 ? "stderr" : "stdout";
        const void *data;
        size_t size;
        int r = daemon_bytes(message, json_object_get(message->body, "data"), "output", &data, &size, e);

        if (r == 0)
                r = start_output(o, size, e);
        if (r < 0)
                return r;
        if (strcmp(o->stream, stream) != 0)
                end_stream(o);
        snprintf(o->stream, sizeof(o->stream), "%s", stream);
        if (buf_append(&o->printed, data, size) < 0)
                return err_set(e, CLOCHE_E_TOO_LARGE, "the cell prints more than %u bytes", STREAM_BYTES_MAX);
        return 0;
}

/* -- displays ------------------------------------------------------------------------------------------------- */

/* Types that nbformat writes as lines. */
static int is_lines(const char *mime)
{
        return strncmp(mime, "text/", 5) == 0 || strcmp(mime, "application/javascript") == 0 ||
               strcmp(mime, "image/svg+xml") == 0;
}

static json_t *form(const char *mime, const json_t *value)
{
        if (json_is_string(value) && is_lines(mime))
                return notebook_lines(json_string_value(value), json_string_length(value));
        return text_plain_value(value);
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted by name, as nbformat writes them. */
static json_t *forms(const json_t *data)
{
        size_t count = 0, size = json_object_size(data);
        const char **names = calloc(size ? size : 1, sizeof(*names)), *mime;
        json_t *value, *copy = json_object();

        json_object_foreach ((json_t *)data, mime, value)
                if (names)
                        names[count++] = mime;
        if (names)
                qsort(names, count, sizeof(*names), compare_names);
        for (size_t i = 0; i < count; i++)
                json_object_set_new(copy, names[i], form(names[i], json_object_get(data, names[i])));
        free(names);
        return copy;
}

static json_t *metadata(const json_t *display)
{
        const json_t *metadata = json_object_get(display, "metadata");

        return json_is_object(metadata) ? text_plain_value(metadata) : json_object();
}

static void update(struct notebook_outputs *o, const json_t *display, const char *id)
{
        json_t *output;
        size_t i;

        json_array_foreach (json_object_get(o->by_id, id), i, output) {
                json_object_set_new(output, "data", forms(json_object_get(display, "data")));
                json_object_set_new(output, "metadata", metadata(display));
        }
}

static void add(struct notebook_outputs *o, const json_t *display, const char *id)
{
        int is_result = json_is_true(json_object_get(display, "isResult"));
        json_t *output = json_pack("{s:o, s:o, s:s}", "data", forms(json_object_get(display, "data")), "metadata",
                                   metadata(display), "output_type", is_result ? "execute_result" : "display_data");

        if (is_result) {
                /* Names are sorted, as nbformat writes them. */
                json_t *ordered =
                        json_pack("{s:O, s:I, s:O, s:O}", "data", json_object_get(output, "data"), "execution_count",
                                  o->count, "metadata", json_object_get(output, "metadata"), "output_type",
                                  json_object_get(output, "output_type"));

                json_decref(output);
                output = ordered;
        }
        json_array_append_new(o->outputs, output);
        if (!*id)
                return;
        if (!json_object_get(o->by_id, id))
                json_object_set_new(o->by_id, id, json_array());
        json_array_append(json_object_get(o->by_id, id), output);
}

/* Counts text; bytes are attachments. */
static size_t weight(const json_t *value)
{
        const char *key;
        json_t *member;
        size_t i, sum = json_is_string(value) ? json_string_length(value) : 8;

        json_array_foreach (value, i, member)
                sum += weight(member);
        json_object_foreach ((json_t *)value, key, member)
                sum += strlen(key) + weight(member);
        return sum;
}

static int take_display(struct notebook_outputs *o, const struct daemon_message *message, struct cloche_err *e)
{
        const char *id = sandbox_text(message->body, "displayId");
        int is_update = json_is_true(json_object_get(message->body, "isUpdate"));
        json_t *display;
        int r = is_update ? 0 : start_output(o, message->attachments_size + weight(message->body), e);

        if (r == 0)
                r = daemon_text_form(message, &display, e);
        if (r < 0)
                return r;
        if (is_update) {
                update(o, display, id);
        } else {
                end_stream(o);
                add(o, display, id);
        }
        json_decref(display);
        return 0;
}

/* -- a cell --------------------------------------------------------------------------------------------------- */

int notebook_outputs_take(struct notebook_outputs *o, const struct daemon_message *message, struct cloche_err *e)
{
        if (strcmp(message->event, "begin") == 0) {
                o->count = json_integer_value(json_object_get(message->body, "executionCount"));
                json_object_set_new(o->cell, "execution_count", json_integer(o->count));
        }
        if (strcmp(message->event, "output") == 0)
                return take_output(o, message, e);
        if (strcmp(message->event, "display") == 0)
                return take_display(o, message, e);
        if (strcmp(message->event, "clear") == 0) {
                o->clears = json_is_true(json_object_get(message->body, "wait"));
                if (!o->clears)
                        clear(o);
        }
        return 0;
}

void notebook_outputs_end(struct notebook_outputs *o, const json_t *answer)
{
        const json_t *error = json_object_get(answer, "error"), *traceback = json_object_get(error, "traceback");

        end_stream(o);
        if (json_is_object(error))
                json_array_append_new(o->outputs,
                                      json_pack("{s:s, s:s, s:s, s:o}", "ename", sandbox_text(error, "name"), "evalue",
                                                sandbox_text(error, "message"), "output_type", "error", "traceback",
                                                json_is_array(traceback) ? json_incref((json_t *)traceback)
                                                                         : json_array()));
}
