/* Texts and displays of a guest become parts of messages. Pure. Runs in: cloche-kernel and
 * cloched-engine, with their rights. */
#include "text.h"

#include "base/utf8.h"
#include "wire/json.h"
#include "wire/value.h"

#include <string.h>

#define ESCAPE '\x1b'
#define ESCAPE_PICTURE "\xe2\x90\x9b"
#define SEQUENCE_BYTES 32 /* of a control sequence that is kept */
#define TEXT_BYTES_MAX ((size_t)256 << 20)

/* -- control sequences ------------------------------------------------------------------------------------------- */

/* Colours, moves of the cursor, parts of the screen that are cleared: none makes a terminal
 * reply. */
static const char harmless[] = "mKABCDGJ";

/* The size of a sequence that is kept; 0: none begins here. -1: the bytes end within it. */
static int sequence_size(const char *at, size_t size)
{
        size_t n = 2;

        if (size < 2)
                return -1;
        if (at[1] != '[')
                return 0;
        while (n < size && n < SEQUENCE_BYTES && strchr("0123456789;", at[n]) && at[n])
                n++;
        if (n == size && n < SEQUENCE_BYTES)
                return -1;
        return n < SEQUENCE_BYTES && at[n] && strchr(harmless, at[n]) ? (int)n + 1 : 0;
}

/* Controls of one byte that text has; U+0080 to U+009F are controls too. */
static int is_control(const char *at, size_t size)
{
        unsigned char c = (unsigned char)*at;

        return (c < 0x20 && (c == 0 || !strchr("\t\n\r\b\f", c))) || c == 0x7f ||
               (c == 0xc2 && size > 1 && (unsigned char)at[1] >= 0x80 && (unsigned char)at[1] < 0xa0);
}

static int append_control(struct buf *out, const char *at)
{
        unsigned char c = (unsigned char)*at;
        char picture[3] = "\xe2\x90\x80"; /* U+2400 and so on */

        if (c == 0xc2)
                return buf_append(out, UTF8_REPLACEMENT, 3);
        picture[2] = (char)(c == 0x7f ? 0xa1 : 0x80 + c);
        return buf_append(out, picture, 3);
}

/* Append valid text. Return the bytes that were used; a sequence that is not over is left. */
static size_t append_shown(struct buf *out, const char *text, size_t size)
{
        size_t at = 0, from = 0;

        while (at < size) {
                int kept = text[at] == ESCAPE ? sequence_size(text + at, size - at) : 0;

                if (kept < 0)
                        break;
                if (kept > 0) {
                        at += (size_t)kept;
                } else if (is_control(text + at, size - at)) {
                        if (buf_append(out, text + from, at - from) < 0 || append_control(out, text + at) < 0)
                                return size;
                        at += text[at] == '\xc2' ? 2 : 1;
                        from = at;
                } else {
                        at++;
                }
        }
        return buf_append(out, text + from, at - from) < 0 ? size : at;
}

/* -- streams ------------------------------------------------------------------------------------------------------ */

/* Bytes at the end that may begin a character. */
static size_t open_size(const char *bytes, size_t size)
{
        for (size_t n = 1; n <= 3 && n <= size; n++) {
                size_t good = 0;

                if (((unsigned char)bytes[size - n] & 0xc0) == 0x80)
                        continue;
                return utf8_character(bytes + size - n, n, &good) == 0 && good == n ? n : 0;
        }
        return 0;
}

static json_t *text_json(const struct buf *text)
{
        return text->size ? json_stringn(text->data, text->size) : NULL;
}

static json_t *take(struct text_stream *s, const void *bytes, size_t size, int is_last)
{
        _cleanup_buf_ struct buf raw = BUF_INIT(TEXT_BYTES_MAX), text = BUF_INIT(TEXT_BYTES_MAX),
                                 shown = BUF_INIT(TEXT_BYTES_MAX);
        size_t open, used, rest;

        if (buf_append(&raw, s->held, s->held_size) < 0 || buf_append(&raw, bytes, size) < 0)
                return NULL;
        open = is_last ? 0 : open_size(raw.data, raw.size);
        if (utf8_append_valid(&text, raw.data, raw.size - open) < 0)
                return NULL;
        used = append_shown(&shown, text.data, text.size);
        rest = text.size - used;
        s->held_size = 0;
        if (is_last && rest > 0) { /* an escape sequence without its end */
                if (buf_append(&shown, ESCAPE_PICTURE, 3) < 0 || buf_append(&shown, text.data + used + 1, rest - 1) < 0)
                        return NULL;
        } else if (rest + open <= TEXT_HELD_BYTES) {
                memcpy(s->held, text.data + used, rest);
                memcpy(s->held + rest, raw.data + raw.size - open, open);
                s->held_size = rest + open;
        }
        return text_json(&shown);
}

json_t *text_stream_take(struct text_stream *s, const void *bytes, size_t size)
{
        return size ? take(s, bytes, size, 0) : NULL;
}

json_t *text_stream_end(struct text_stream *s)
{
        return s->held_size ? take(s, "", 0, 1) : NULL;
}

json_t *text_of(const char *bytes, size_t size)
{
        struct text_stream whole = {.held_size = 0};
        json_t *text = size ? take(&whole, bytes, size, 1) : NULL;

        return text ? text : json_string("");
}

json_t *text_of_json(const json_t *text)
{
        return text_of(json_string_value(text), json_string_length(text));
}

/* -- displays ------------------------------------------------------------------------------------------------------ */

static json_t *untagged(const json_t *value, const char *kind)
{
        const json_t *v = json_object_get(value, "v"), *pair;
        json_t *object;
        size_t i;

        if (strcmp(kind, "object") != 0)
                return json_incref(json_object_get(value, strcmp(kind, "bytes") == 0 ? "b64" : "v"));
        object = json_object();
        json_array_foreach (v, i, pair) {
                const char *key = json_string_value(json_array_get(pair, 0));

                if (key)
                        json_object_set_new(object, key, text_plain_value(json_array_get(pair, 1)));
        }
        return object;
}

json_t *text_plain_value(const json_t *value)
{
        const char *key, *kind = json_string_value(json_object_get(value, "$"));
        json_t *member, *copy;
        size_t i;

        if (kind)
                return (copy = untagged(value, kind)) ? copy : json_null();
        if (json_is_array(value)) {
                copy = json_array();
                json_array_foreach (value, i, member)
                        json_array_append_new(copy, text_plain_value(member));
                return copy;
        }
        if (!json_is_object(value))
                return json_incref((json_t *)value);
        copy = json_object();
        json_object_foreach ((json_t *)value, key, member)
                json_object_set_new(copy, key, text_plain_value(member));
        return copy;
}

/* A list of strings is the text in pieces, as in files of notebooks. */
static json_t *text_of_form(const json_t *form)
{
        _cleanup_buf_ struct buf text = BUF_INIT(TEXT_BYTES_MAX);
        const json_t *piece;
        size_t i;

        if (!json_is_array(form))
                return text_of_json(form);
        json_array_foreach (form, i, piece)
                if (buf_append(&text, json_string_value(piece), json_string_length(piece)) < 0)
                        break;
        return text_of(text.data, text.size);
}

/* Each bundle has a text. */
static json_t *forms_of(const json_t *data)
{
        json_t *forms = json_object(), *form;
        const char *mime;

        json_object_foreach ((json_t *)data, mime, form)
                json_object_set_new(forms, mime,
                                    strcmp(mime, "text/plain") == 0 ? text_of_form(form) : text_plain_value(form));
        if (!json_object_get(forms, "text/plain")) {
                const char *first = json_object_iter_key(json_object_iter(forms));
                json_t *shown = text_of(first ? first : "display", strlen(first ? first : "display"));

                json_object_set_new(forms, "text/plain", json_sprintf("<%s>", json_string_value(shown)));
                json_decref(shown);
        }
        return forms;
}

json_t *text_bundle(const json_t *display, const void *attachments, size_t attachments_size)
{
        json_t *text = NULL, *bundle, *metadata;

        if (value_frame_to_text(display, attachments, attachments_size, &text, NULL) < 0)
                return NULL;
        metadata = json_object_get(text, "metadata");
        bundle = json_pack("{s:o, s:o}", "data", forms_of(json_object_get(text, "data")), "metadata",
                           json_is_object(metadata) ? text_plain_value(metadata) : json_object());
        json_decref(text);
        return bundle;
}
