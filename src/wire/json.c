/* Runs in: every program that reads or writes JSON. */
#include "json.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"
#include "frame.h"

#include <errno.h>
#include <string.h>

#define SAFE_DIGITS "9007199254740991"

/* Return the end of the string that starts at at (a quote), or end. */
static const char *skip_string(const char *at, const char *end)
{
        for (at++; at < end && *at != '"'; at++)
                if (*at == '\\' && at + 1 < end)
                        at++;
        return at < end ? at + 1 : end;
}

/* Checked before jansson recurses: its own bound is 2048, not ours. jansson refuses unbalanced
 * text. */
static int check_depth(const char *text, size_t size, struct cloche_err *e)
{
        const char *end;
        int depth = 0;

        if (size > FRAME_JSON_BYTES_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "JSON of %zu bytes, at most %u are accepted", size,
                               FRAME_JSON_BYTES_MAX);
        end = text + size;

        for (const char *at = text; at < end;) {
                if (*at == '"') {
                        at = skip_string(at, end);
                        continue;
                }
                if (*at == '[' || *at == '{')
                        depth++;
                else if (*at == ']' || *at == '}')
                        depth--;
                if (depth > JSON_DEPTH_MAX)
                        return err_set(e, CLOCHE_E_INVALID_JSON, "nested deeper than %d at byte %zu", JSON_DEPTH_MAX,
                                       (size_t)(at - text));
                at++;
        }
        return 0;
}

#define LOAD_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL)

int json_load_text(const char *text, size_t size, json_t **ret, struct cloche_err *e)
{
        json_error_t error;
        json_t *value;
        const char *nul;
        int r;

        text = size > 0 ? text : ""; /* an empty buffer has no address */
        r = check_depth(text, size, e);
        if (r < 0)
                return r;
        nul = memchr(text, '\0', size);
        if (nul) /* jansson takes a NUL at the end for the end */
                return err_set(e, CLOCHE_E_INVALID_JSON, "a NUL byte at byte %zu", (size_t)(nul - text));
        value = json_loadb(text, size, LOAD_FLAGS, &error);
        if (!value) /* perhaps out of memory, which jansson does not always distinguish from a syntax error */
                value = json_loadb(text, size, LOAD_FLAGS, &error);
        if (!value && (!error.text[0] || json_error_code(&error) == json_error_out_of_memory))
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read JSON");
        if (!value)
                return err_set(e, CLOCHE_E_INVALID_JSON, "%s (line %d, column %d)", error.text, error.line,
                               error.column);
        *ret = value;
        return 0;
}

json_t *json_valid_text(const char *bytes, size_t size)
{
        _cleanup_buf_ struct buf valid = BUF_INIT(SIZE_MAX / 2);

        if (utf8_is_valid(bytes, size))
                return json_stringn_nocheck(size > 0 ? bytes : "", size);
        return utf8_append_valid(&valid, bytes, size) < 0 ? NULL : json_stringn_nocheck(valid.data, valid.size);
}

json_t *json_attachment(size_t at, size_t size)
{
        return json_pack("{s:s, s:I, s:I}", "$", "bytes", "at", (json_int_t)at, "n", (json_int_t)size);
}

static size_t number_size(const char *at, const char *end)
{
        size_t size = 0;

        while (at + size < end && strchr("+-.eE0123456789", at[size]) && at[size])
                size++;
        return size;
}

static int is_big_integer(const char *at, size_t size)
{
        if (*at == '-') {
                at++;
                size--;
        }
        if (size < sizeof(SAFE_DIGITS) - 1 || at[0] == '0')
                return 0;
        for (size_t i = 0; i < size; i++)
                if (at[i] < '0' || at[i] > '9')
                        return 0;
        return size > sizeof(SAFE_DIGITS) - 1 || memcmp(at, SAFE_DIGITS, size) > 0;
}

static int append_number(struct buf *out, const char *at, size_t size)
{
        int r;

        if (!is_big_integer(at, size))
                return buf_append(out, at, size);
        r = buf_append(out, "{\"$\":\"bigint\",\"v\":\"", 19);
        if (r == 0)
                r = buf_append(out, at, size);
        return r < 0 ? r : buf_append(out, "\"}", 2);
}

int json_load_human(const char *text, size_t size, json_t **ret, struct cloche_err *e)
{
        _cleanup_buf_ struct buf out = BUF_INIT(FRAME_JSON_BYTES_MAX);
        const char *end;
        int r = size > FRAME_JSON_BYTES_MAX ? -ENOBUFS : 0;

        text = size > 0 ? text : "";
        end = text + size;
        for (const char *at = text; r == 0 && at < end;) {
                const char *next = at + 1;

                if (*at == '"') {
                        next = skip_string(at, end);
                        r = buf_append(&out, at, (size_t)(next - at));
                } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
                        next = at + number_size(at, end);
                        r = append_number(&out, at, (size_t)(next - at));
                } else {
                        r = buf_append(&out, at, 1);
                }
                at = next;
        }
        if (r == -ENOBUFS)
                return err_set(e, CLOCHE_E_TOO_LARGE, "JSON of %zu bytes, at most %u are accepted", size,
                               FRAME_JSON_BYTES_MAX);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read JSON");
        return json_load_text(out.data, out.size, ret, e);
}

struct text {
        struct buf out;
        int failed;
};

static int append_piece(const char *data, size_t size, void *to)
{
        struct text *text = to;

        if (buf_append(&text->out, data, size) < 0)
                text->failed = 1;
        return text->failed ? -1 : 0;
}

char *json_dump_text(const json_t *value, size_t flags)
{
        struct text text = {.out = BUF_INIT(SIZE_MAX / 2)};

        if (json_dump_callback(value, append_piece, &text, flags) < 0 || append_piece("", 1, &text) < 0 || text.failed)
                buf_done(&text.out);
        return text.out.data;
}
