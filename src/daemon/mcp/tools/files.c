/* The tools for files. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "daemon/mcp/internal.h"

#include "base/err.h"
#include "helpers/fs/rules/glob.h"
#include "wire/base64.h"

#include <stdlib.h>
#include <string.h>

#define READ_BYTES_MAX (32u << 20) /* of a file, from its beginning */

/* -- read_file --------------------------------------------------------------------------------------------------- */

static int is_shown_image(const char *mime)
{
        size_t i = 0;

        while (mcp_image_types[i] && strcmp(mcp_image_types[i], mime) != 0)
                i++;
        return mcp_image_types[i] != NULL;
}

static int is_text(const char *bytes, size_t size)
{
        json_t *text = memchr(bytes, '\0', size) ? NULL : json_stringn(bytes, size);
        int is = text != NULL;

        json_decref(text);
        return is;
}

/* The bytes of some lines of a text, at most MCP_TEXT_BYTES, whole lines unless the first has
 * more. */
struct lines {
        const char *at;
        size_t size;
        json_int_t count;
        int has_more;
};

static struct lines lines_of(const char *text, size_t size, json_int_t first, json_int_t most)
{
        const char *end = text + size, *next;
        struct lines lines = {0};

        for (; first > 1 && text < end; first--)
                text = (next = memchr(text, '\n', (size_t)(end - text))) ? next + 1 : end;
        lines.at = text;
        while (lines.count < most && text < end) {
                next = memchr(text, '\n', (size_t)(end - text));
                next = next ? next + 1 : end;
                if ((size_t)(next - lines.at) > MCP_TEXT_BYTES)
                        break;
                text = next;
                lines.count++;
        }
        if (lines.count == 0 && text < end && most > 0) {
                lines.count = 1;
                text += (size_t)(end - text) < MCP_TEXT_BYTES ? (size_t)(end - text) : MCP_TEXT_BYTES;
        }
        lines.size = (size_t)(text - lines.at);
        lines.has_more = text < end;
        return lines;
}

static void answer_text(struct mcp_exchange *x, const char *bytes, size_t size, json_int_t total, const char *mime)
{
        struct lines lines =
                lines_of(bytes, size, mcp_count(x, "offset_line", 1), mcp_count(x, "limit_lines", MCP_LINES_MAX));
        json_t *text = json_valid_text(lines.at, lines.size), *content = json_pack("[o]", mcp_text_block(text));
        int is_short = lines.has_more || total > (json_int_t)size;

        if (is_short)
                json_array_append_new(content, json_pack("{s:s, s:s}", "type", "text", "text",
                                                         "[the file has more: read on with offset_line]"));
        mcp_tool_answer(x, content,
                        json_pack("{s:o, s:I, s:I, s:b, s:s}", "text", text, "lines", lines.count, "bytes", total,
                                  "truncated", is_short, "mime_type", mime),
                        0);
}

static void on_read(struct mcp_exchange *x, const struct door_reply *reply)
{
        json_int_t total = json_integer_value(json_object_get(reply->result, "total"));
        const char *mime = mcp_text(reply->result, "mimeType"), *path = mcp_text(reply->result, "path"), *bytes = "";
        size_t size = 0;
        json_t *block;

        (void)door_bytes(json_object_get(reply->result, "content"), reply->attachments, &bytes, &size);
        if (is_text(bytes, size)) {
                answer_text(x, bytes, size, total, mime);
                return;
        }
        if (is_shown_image(mime) && total <= MCP_IMAGE_BYTES)
                block = mcp_image_block(mime, door_base64(bytes, size));
        else
                block = json_pack("{s:s, s:o, s:s, s:s, s:I}", "type", "resource_link", "uri",
                                  mcp_file_uri(x->door.sandbox, path), "name", path, "mimeType", mime, "size", total);
        mcp_tool_answer(x, json_pack("[o]", block),
                        json_pack("{s:I, s:b, s:s}", "bytes", total, "truncated", 0, "mime_type", mime), 0);
}

void mcp_read_file(struct mcp_exchange *x)
{
        mcp_call(x, "file.read",
                 json_pack("{s:O, s:i}", "path", json_object_get(x->arguments, "path"), "limit", (int)READ_BYTES_MAX),
                 NULL, on_read);
}

/* -- write_file -------------------------------------------------------------------------------------------------- */

static void on_written(struct mcp_exchange *x, const struct door_reply *reply)
{
        const char *path = mcp_text(reply->result, "path");
        json_t *bytes = json_object_get(reply->result, "bytes"),
               *text = json_sprintf("%lld bytes written to %s", (long long)json_integer_value(bytes), path);

        mcp_tool_answer_text(x, text, json_pack("{s:s, s:O}", "path", path, "bytes", bytes), 0);
}

void mcp_write_file(struct mcp_exchange *x)
{
        _cleanup_buf_ struct buf bytes = BUF_INIT(MCP_CODE_BYTES);
        json_t *text = json_object_get(x->arguments, "text"), *base64 = json_object_get(x->arguments, "base64"),
               *append = json_object_get(x->arguments, "append");

        if (!text == !base64)
                mcp_refuse(x, MCP_BAD_PARAMS, "write_file: expected either 'text' or 'base64'");
        else if (base64 && base64_decode(&bytes, json_string_value(base64), json_string_length(base64)) < 0)
                mcp_refuse(x, MCP_BAD_PARAMS, "write_file: 'base64' is not canonical base64 with padding");
        else
                mcp_call(x, "file.write",
                         json_pack("{s:O, s:o, s:O*}", "path", json_object_get(x->arguments, "path"), "content",
                                   text ? json_incref(text) : json_attachment(0, bytes.size), "append", append),
                         base64 ? &bytes : NULL, on_written);
}

/* -- list_directory ---------------------------------------------------------------------------------------------- */

#define ENTRIES_MAX 1000
#define PAGE_ENTRIES 5000
#define PAGES_MAX 40 /* of a tree in which few entries match */

struct listing {
        struct glob *glob; /* NULL: all */
        json_t *entries;
        unsigned pages;
};

static void listing_done(void *state)
{
        struct listing *listing = state;

        glob_free(listing->glob);
        json_decref(listing->entries);
        free(listing);
}

static json_int_t depth_of(const char *path)
{
        json_int_t depth = 1;

        for (; *path; path++)
                depth += *path == '/';
        return depth;
}

static int is_wanted(const struct mcp_exchange *x, const char *path)
{
        const struct listing *listing = x->state;

        return depth_of(path) <= mcp_count(x, "depth", 1) && (!listing->glob || glob_matches(listing->glob, path));
}

/* Names are a guest's: invalid UTF-8 is replaced. 0: the list is full. */
static int add_entry(const struct mcp_exchange *x, const json_t *entry, const struct buf *attachments)
{
        struct listing *listing = x->state;
        json_t *path = door_string(json_object_get(entry, "relativePath"), attachments);
        int is_full = 0;

        if (path && is_wanted(x, json_string_value(path))) {
                is_full = json_array_size(listing->entries) >= ENTRIES_MAX;
                if (!is_full)
                        json_array_append_new(listing->entries, json_pack("{s:O, s:O, s:O, s:s*}", "path", path, "type",
                                                                          json_object_get(entry, "type"), "bytes",
                                                                          json_object_get(entry, "size"), "modified_at",
                                                                          mcp_text(entry, "modifiedAt")));
        }
        json_decref(path);
        return !is_full;
}

static void answer_listing(struct mcp_exchange *x, int is_short)
{
        struct listing *listing = x->state;
        _cleanup_buf_ struct buf lines = BUF_INIT(8u << 20);
        json_t *entry, *text;
        size_t i;

        json_array_foreach (listing->entries, i, entry) {
                const char *path = mcp_text(entry, "path");

                (void)buf_append(&lines, path, strlen(path));
                (void)buf_append(&lines, strcmp(mcp_text(entry, "type"), "directory") == 0 ? "/\n" : "\n",
                                 strcmp(mcp_text(entry, "type"), "directory") == 0 ? 2 : 1);
        }
        text = lines.size ? mcp_cut_of(lines.data, lines.size) : json_string("(no entries)");
        mcp_tool_answer_text(x, text, json_pack("{s:O, s:b}", "entries", listing->entries, "truncated", is_short), 0);
}

static void fetch_page(struct mcp_exchange *x, const json_t *after);

static void on_page(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct listing *listing = x->state;
        const json_t *next = json_object_get(reply->result, "next");
        json_t *entry;
        size_t i;

        json_array_foreach (json_object_get(reply->result, "entries"), i, entry)
                if (!add_entry(x, entry, reply->attachments)) {
                        answer_listing(x, 1);
                        return;
                }
        if (next && ++listing->pages < PAGES_MAX)
                fetch_page(x, next);
        else
                answer_listing(x, next != NULL);
}

static void fetch_page(struct mcp_exchange *x, const json_t *after)
{
        json_t *path = json_object_get(x->arguments, "path");

        mcp_call(x, "file.list",
                 json_pack("{s:o, s:b, s:b, s:i, s:O*}", "path", path ? json_incref(path) : json_string(MCP_HOME),
                           "recursive", mcp_count(x, "depth", 1) > 1, "hidden", 1, "limit", PAGE_ENTRIES, "after",
                           after),
                 NULL, on_page);
}

void mcp_list_directory(struct mcp_exchange *x)
{
        struct listing *listing = calloc(1, sizeof(*listing));
        const char *pattern = mcp_text(x->arguments, "glob");
        struct cloche_err e = {0};

        x->state = listing;
        x->state_done = listing ? listing_done : NULL;
        if (!listing || !(listing->entries = json_array()))
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
        else if (pattern && glob_compile(pattern, &listing->glob, &e) < 0)
                mcp_refuse(x, MCP_BAD_PARAMS, "list_directory: 'glob': %s", e.msg);
        else
                fetch_page(x, NULL);
}
