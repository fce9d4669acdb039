/* The tools edit_file and search_files. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "daemon/mcp/internal.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDIT_BYTES_MAX (8u << 20)  /* of a file, before and after */
#define WORK_BYTES_MAX (64u << 20) /* of the texts that the edits of a call look through */
#define PLACES_MAX 100000          /* of an edit */
#define MATCHES 100                /* default */
#define MATCH_BYTES 500            /* of a line */
#define PLACES_SHOWN 10

/* -- edit_file --------------------------------------------------------------------------------------------------- */

struct edit {
        struct buf text; /* the file */
        struct mcp_cut diff;
        json_int_t replaced;
        size_t work; /* bytes that were looked through */
};

static void edit_done(void *state)
{
        struct edit *edit = state;

        buf_done(&edit->text);
        mcp_cut_done(&edit->diff);
        free(edit);
}

static void add(struct mcp_cut *cut, const char *text)
{
        mcp_cut_add(cut, text, strlen(text));
}

static json_int_t line_at(const struct buf *text, size_t at)
{
        json_int_t line = 1;

        for (size_t i = 0; i < at; i++)
                line += text->data[i] == '\n';
        return line;
}

/* Lines of a text, each after a sign. */
static void add_lines(struct mcp_cut *diff, char sign, const char *text, size_t size)
{
        while (size > 0) {
                const char *end = memchr(text, '\n', size);
                size_t length = end ? (size_t)(end - text) : size;

                mcp_cut_add(diff, &sign, 1);
                mcp_cut_add(diff, text, length);
                add(diff, "\n");
                text += length + (end != NULL);
                size -= length + (end != NULL);
        }
}

/* A line of the text, which is counted from the one before. */
struct place {
        size_t at;
        json_int_t line;
};

static void move_to(struct place *place, const struct buf *text, size_t at)
{
        for (; place->at < at; place->at++)
                place->line += text->data[place->at] == '\n';
}

/* One place: the whole lines before and after. */
static void add_hunk(struct mcp_cut *diff, const struct buf *text, struct place *place, size_t at, size_t old_size,
                     const char *new, size_t new_size)
{
        _cleanup_buf_ struct buf after = BUF_INIT(2 * EDIT_BYTES_MAX);
        const char *end = memchr(text->data + at + old_size, '\n', text->size - at - old_size);
        size_t from = at, to = end ? (size_t)(end - text->data) : text->size;
        char head[60];

        while (from > 0 && text->data[from - 1] != '\n')
                from--;
        move_to(place, text, from);
        snprintf(head, sizeof(head), "@@ line %lld @@\n", (long long)place->line);
        add(diff, head);
        add_lines(diff, '-', text->data + from, to - from);
        if (buf_append(&after, text->data + from, at - from) == 0 && buf_append(&after, new, new_size) == 0 &&
            buf_append(&after, text->data + at + old_size, to - at - old_size) == 0)
                add_lines(diff, '+', after.data ? after.data : "", after.size);
}

/* At most PLACES_MAX and one. */
static size_t count_of(const struct buf *text, const char *old, size_t size)
{
        const char *at = text->data, *end = text->data + text->size;
        size_t count = 0;

        while (count <= PLACES_MAX && at < end && (at = memmem(at, (size_t)(end - at), old, size))) {
                count++;
                at += size;
        }
        return count;
}

/* Replace all places; 0, or a negative number: the text became too large. A diff that has enough
 * takes no more: each of a guest's many places may be in a line of megabytes. */
static int replace(struct edit *edit, const json_t *old, const json_t *new)
{
        struct buf result = BUF_INIT(EDIT_BYTES_MAX);
        size_t size = json_string_length(old), at = 0;
        struct place shown = {.line = 1};
        const char *found;
        int r = 0;

        while (r == 0 && (found = memmem(edit->text.data + at, edit->text.size - at, json_string_value(old), size))) {
                size_t place = (size_t)(found - edit->text.data);

                if (!mcp_cut_is_short(&edit->diff))
                        add_hunk(&edit->diff, &edit->text, &shown, place, size, json_string_value(new),
                                 json_string_length(new));
                r = buf_append(&result, edit->text.data + at, place - at);
                if (r == 0)
                        r = buf_append(&result, json_string_value(new), json_string_length(new));
                at = place + size;
                edit->replaced++;
        }
        if (r == 0)
                r = buf_append(&result, edit->text.data + at, edit->text.size - at);
        if (r < 0) {
                buf_done(&result);
                return r;
        }
        buf_done(&edit->text);
        edit->text = result;
        return 0;
}

/* -- messages for a text that is not there once ------------------------------------------------------------------ */

static const char *skip_blanks(const char *at, const char *end)
{
        while (at < end && (*at == ' ' || *at == '\t'))
                at++;
        return at;
}

/* Count the characters at the beginning that two lines share, without the blanks before them. */
static size_t shared(const char *line, const char *end, const char *old)
{
        const char *old_end = old + strcspn(old, "\n");
        size_t n = 0;

        line = skip_blanks(line, end);
        old = skip_blanks(old, old_end);
        while (line + n < end && old + n < old_end && line[n] == old[n])
                n++;
        return n;
}

/* The lines around the one that is most like the first line of the text. */
static void add_nearest(struct mcp_cut *message, const struct buf *text, const char *old)
{
        const char *end = text->data + text->size, *best = NULL, *next;
        size_t most = 2; /* fewer characters are chance */

        for (const char *line = text->data; line < end; line = next + 1) {
                size_t n;

                next = memchr(line, '\n', (size_t)(end - line));
                next = next ? next : end;
                n = shared(line, next, old);
                if (n > most) {
                        most = n;
                        best = line;
                }
                if (next == end)
                        break;
        }
        if (!best)
                return;
        add(message, "; the nearest lines are:\n");
        for (int i = 0; i < 3 && best < end; i++) {
                char number[30];

                next = memchr(best, '\n', (size_t)(end - best));
                next = next ? next : end;
                snprintf(number, sizeof(number), "%lld: ", (long long)line_at(text, (size_t)(best - text->data)));
                add(message, number);
                mcp_cut_add(message, best, (size_t)(next - best));
                add(message, "\n");
                best = next + 1;
        }
}

static void add_places(struct mcp_cut *message, const struct buf *text, const json_t *old, size_t count)
{
        const char *at = text->data, *end = text->data + text->size;
        char line[60];

        snprintf(line, sizeof(line), " is there %s%zu times, at the lines", count > PLACES_MAX ? "more than " : "",
                 count > PLACES_MAX ? PLACES_MAX : count);
        add(message, line);
        for (size_t i = 0; i < count && i < PLACES_SHOWN; i++) {
                at = memmem(at, (size_t)(end - at), json_string_value(old), json_string_length(old));
                if (!at)
                        break;
                snprintf(line, sizeof(line), " %lld", (long long)line_at(text, (size_t)(at - text->data)));
                add(message, line);
                at += json_string_length(old);
        }
        add(message, ": give more of the text around one, or all: true");
}

/* Nothing is written. */
static void answer_failure(struct mcp_exchange *x, const struct mcp_cut *message)
{
        mcp_tool_answer_text(x, mcp_cut_text(message), NULL, 1);
}

static void fail(struct mcp_exchange *x, size_t number, const json_t *old, size_t count)
{
        const struct edit *edit = x->state;
        struct mcp_cut message;
        char head[60];

        mcp_cut_init(&message);
        snprintf(head, sizeof(head), "nothing was changed: 'old' of edit %zu", number + 1);
        add(&message, head);
        if (count == 0) {
                add(&message, " is not in the file");
                add_nearest(&message, &edit->text, json_string_value(old));
        } else {
                add_places(&message, &edit->text, old, count);
        }
        answer_failure(x, &message);
        mcp_cut_done(&message);
}

static void fail_with(struct mcp_exchange *x, const char *text)
{
        mcp_tool_answer_text(x, json_string(text), NULL, 1);
}

/* -- the steps --------------------------------------------------------------------------------------------------- */

static void answer_edit(struct mcp_exchange *x)
{
        const struct edit *edit = x->state;
        json_t *diff = mcp_cut_text(&edit->diff);

        mcp_tool_answer_text(x, diff, json_pack("{s:O, s:I}", "diff", diff, "replaced", edit->replaced), 0);
}

static void on_edited(struct mcp_exchange *x, const struct door_reply *reply)
{
        (void)reply;
        answer_edit(x);
}

/* True if all edits could be made; else the failure is answered. */
static int apply(struct mcp_exchange *x)
{
        struct edit *edit = x->state;
        json_t *one;
        size_t i;

        json_array_foreach (json_object_get(x->arguments, "edits"), i, one) {
                const json_t *old = json_object_get(one, "old");
                size_t count;

                edit->work += edit->text.size;
                if (edit->work > WORK_BYTES_MAX) {
                        fail_with(x, "nothing was changed: fewer edits of a file of this size fit into a call");
                        return 0;
                }
                count = count_of(&edit->text, json_string_value(old), json_string_length(old));
                if (count == 0 || (count > 1 && !json_is_true(json_object_get(one, "all")))) {
                        fail(x, i, old, count);
                        return 0;
                }
                if (count > PLACES_MAX) {
                        fail_with(x, "nothing was changed: there are more than 100000 places");
                        return 0;
                }
                if (replace(edit, old, json_object_get(one, "new")) < 0) {
                        fail_with(x, "nothing was changed: the file would have more than 8 MiB");
                        return 0;
                }
        }
        return 1;
}

static void on_text(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct edit *edit = x->state;
        json_int_t total = json_integer_value(json_object_get(reply->result, "total"));
        const char *bytes = "";
        size_t size = 0;

        (void)door_bytes(json_object_get(reply->result, "content"), reply->attachments, &bytes, &size);
        if (total > EDIT_BYTES_MAX)
                fail_with(x, "the file has more than 8 MiB");
        else if (memchr(bytes, '\0', size) || !utf8_is_valid(bytes, size))
                fail_with(x, "the file is no text in UTF-8");
        else if (buf_append(&edit->text, size ? bytes : "", size) < 0)
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
        else if (!apply(x))
                return;
        else if (json_is_true(json_object_get(x->arguments, "dry_run")))
                answer_edit(x);
        else
                mcp_call(x, "file.write",
                         json_pack("{s:O, s:o}", "path", json_object_get(x->arguments, "path"), "content",
                                   json_attachment(0, edit->text.size)),
                         &edit->text, on_edited);
}

void mcp_edit_file(struct mcp_exchange *x)
{
        struct edit *edit = calloc(1, sizeof(*edit));

        if (!edit) {
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
                return;
        }
        edit->text = BUF_INIT(EDIT_BYTES_MAX);
        mcp_cut_init(&edit->diff);
        x->state = edit;
        x->state_done = edit_done;
        mcp_call(x, "file.read",
                 json_pack("{s:O, s:i}", "path", json_object_get(x->arguments, "path"), "limit",
                           (int)EDIT_BYTES_MAX + 1),
                 NULL, on_text);
}

/* -- search_files ------------------------------------------------------------------------------------------------ */

/* match of the core: paths and lines are a guest's. */
static json_t *match_of(const json_t *match, const struct buf *attachments)
{
        json_t *line = door_string(json_object_get(match, "text"), attachments);
        size_t size = json_string_length(line);
        json_t *cut = json_stringn(json_string_value(line),
                                   utf8_cut(json_string_value(line), size, size < MATCH_BYTES ? size : MATCH_BYTES));

        json_decref(line);
        return json_pack("{s:o, s:O, s:o}", "path", door_string(json_object_get(match, "path"), attachments), "line",
                         json_object_get(match, "line"), "text", cut);
}

static void on_found(struct mcp_exchange *x, const struct door_reply *reply)
{
        json_t *matches = json_array(), *match, *text;
        struct mcp_cut lines;
        size_t i;

        mcp_cut_init(&lines);
        json_array_foreach (json_object_get(reply->result, "matches"), i, match) {
                json_t *own = match_of(match, reply->attachments);
                char number[30];

                snprintf(number, sizeof(number),
                         ":%lld: ", (long long)json_integer_value(json_object_get(own, "line")));
                add(&lines, mcp_text(own, "path"));
                add(&lines, number);
                mcp_cut_add(&lines, mcp_text(own, "text"), json_string_length(json_object_get(own, "text")));
                add(&lines, "\n");
                json_array_append_new(matches, own);
        }
        text = lines.total ? mcp_cut_text(&lines) : json_string("(no matches)");
        mcp_tool_answer_text(x, text,
                             json_pack("{s:o, s:O}", "matches", matches, "truncated",
                                       json_object_get(reply->result, "truncated")),
                             0);
        mcp_cut_done(&lines);
}

void mcp_search_files(struct mcp_exchange *x)
{
        json_t *path = json_object_get(x->arguments, "path"), *glob = json_object_get(x->arguments, "glob");
        const char *kind = json_is_true(json_object_get(x->arguments, "literal")) ? "text" : "pattern";

        mcp_call(x, "file.search",
                 json_pack("{s:o, s:O, s:I, s:o*}", "path", path ? json_incref(path) : json_string(MCP_HOME), kind,
                           json_object_get(x->arguments, "pattern"), "limit", mcp_count(x, "limit", MATCHES), "include",
                           glob ? json_pack("[O]", glob) : NULL),
                 NULL, on_found);
}
