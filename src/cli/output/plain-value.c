/* Tagged values become plain JSON. Runs in: the CLI, as its user. */
#include "plain-value.h"

#include "json-text.h"
#include "wire/base64.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES_MAX (1u << 30)

static int put(struct buf *out, const char *text)
{
        return buf_append(out, text, strlen(text));
}

static int put_real(struct buf *out, double number)
{
        json_t *real = isfinite(number) ? json_real(number) : json_null();
        int r = real ? json_text_scalar(out, real) : -ENOMEM;

        json_decref(real);
        return r;
}

/* -- containers ----------------------------------------------------------------------------------------------- */

static int put_array(struct buf *out, const json_t *array)
{
        const json_t *item;
        size_t i;
        int r = put(out, "[");

        json_array_foreach (array, i, item) {
                if (r == 0 && i)
                        r = put(out, ",");
                if (r == 0)
                        r = plain_value(out, item);
        }
        return r == 0 ? put(out, "]") : r;
}

static int put_object(struct buf *out, const json_t *object)
{
        const char *before = "{", *key;
        json_t *member;
        size_t size;
        int r = 0;

        json_object_keylen_foreach ((json_t *)object, key, size, member) {
                if (r == 0)
                        r = put(out, before);
                if (r == 0)
                        r = json_text_string(out, key, size);
                if (r == 0)
                        r = put(out, ":");
                if (r == 0)
                        r = plain_value(out, member);
                before = ",";
        }
        return r == 0 ? put(out, json_object_size(object) ? "}" : "{}") : r;
}

/* A key that is not a string becomes its JSON text: 1, true, [1,2]; a tagged one becomes text
 * without quotes. */
static int append_key(struct buf *ret, const json_t *key)
{
        _cleanup_buf_ struct buf text = BUF_INIT(PART_BYTES_MAX);
        int r, is_quoted;

        if (json_is_string(key))
                return buf_append(ret, json_string_value(key), json_string_length(key));
        r = plain_value(&text, key);
        if (r < 0)
                return r;
        is_quoted = text.size > 1 && text.data[0] == '"';
        return buf_append(ret, text.data + is_quoted, text.size - 2 * (size_t)is_quoted);
}

/* If keys become the same text, the last value wins, as in a JavaScript object. */
static int put_pairs(struct buf *out, const json_t *pairs)
{
        json_t *object = json_object(), *pair;
        size_t i;
        int r = object ? 0 : -ENOMEM;

        json_array_foreach (pairs, i, pair) {
                _cleanup_buf_ struct buf key = BUF_INIT(PART_BYTES_MAX);

                if (r == 0)
                        r = append_key(&key, json_array_get(pair, 0));
                if (r == 0 && json_object_setn_new(object, key.data ? key.data : "", key.size,
                                                   json_incref(json_array_get(pair, 1))) < 0)
                        r = -ENOMEM;
        }
        if (r == 0)
                r = put_object(out, object);
        json_decref(object);
        return r;
}

/* -- typed arrays --------------------------------------------------------------------------------------------- */

#define READER(name, type)                         \
        static double read_##name(const char *at)  \
        {                                          \
                type value;                        \
                memcpy(&value, at, sizeof(value)); \
                return (double)value;              \
        }

READER(i8, int8_t)
READER(u8, uint8_t)
READER(i16, int16_t)
READER(u16, uint16_t)
READER(i32, int32_t)
READER(u32, uint32_t)
READER(f32, float)
READER(f64, double)

static const struct kind {
        const char *name;
        size_t bytes;
        double (*read)(const char *at); /* NULL: more digits than a double has */
        int is_real;
} kinds[] = {
        {"i8", 1, read_i8, 0},   {"u8", 1, read_u8, 0},   {"u8c", 1, read_u8, 0},  {"i16", 2, read_i16, 0},
        {"u16", 2, read_u16, 0}, {"i32", 4, read_i32, 0}, {"u32", 4, read_u32, 0}, {"f32", 4, read_f32, 1},
        {"f64", 8, read_f64, 1}, {"i64", 8, NULL, 0},     {"u64", 8, NULL, 0},     {0},
};

static int put_element(struct buf *out, const struct kind *kind, const char *at)
{
        char text[32];
        uint64_t wide = 0;

        if (kind->is_real)
                return put_real(out, kind->read(at));
        if (!kind->read)
                memcpy(&wide, at, sizeof(wide));
        if (kind->read)
                snprintf(text, sizeof(text), "%.0f", kind->read(at));
        else
                snprintf(text, sizeof(text), kind->name[0] == 'i' ? "%lld" : "%llu", (unsigned long long)wide);
        return put(out, text);
}

static const struct kind *find_kind(const json_t *tagged)
{
        const char *name = json_string_value(json_object_get(tagged, "t"));

        for (const struct kind *kind = kinds; name && kind->name; kind++)
                if (strcmp(kind->name, name) == 0)
                        return kind;
        return NULL;
}

/* -- tags ----------------------------------------------------------------------------------------------------- */

/* Each returns 1 if the value does not have this form. */

static int put_text_of(struct buf *out, const json_t *tagged, const char *member)
{
        const json_t *text = json_object_get(tagged, member);

        return json_is_string(text) ? json_text_scalar(out, text) : json_is_null(text) ? put(out, "null") : 1;
}

static int put_base64(struct buf *out, const json_t *tagged)
{
        return put_text_of(out, tagged, "b64");
}

static int put_date(struct buf *out, const json_t *tagged)
{
        return put_text_of(out, tagged, "v");
}

static int put_typed(struct buf *out, const json_t *tagged)
{
        const char *text = json_string_value(json_object_get(tagged, "b64"));
        const struct kind *kind = find_kind(tagged);
        _cleanup_buf_ struct buf bytes = BUF_INIT(PART_BYTES_MAX);
        int r;

        if (!text || !kind || base64_decode(&bytes, text, strlen(text)) < 0)
                return 1;
        r = put(out, "[");
        for (size_t at = 0; r == 0 && at + kind->bytes <= bytes.size; at += kind->bytes) {
                r = at ? put(out, ",") : 0;
                if (r == 0)
                        r = put_element(out, kind, bytes.data + at);
        }
        return r == 0 ? put(out, "]") : r;
}

/* JSON can express negative zero, but none of the others. */
static int put_number(struct buf *out, const json_t *tagged)
{
        const char *name = json_string_value(json_object_get(tagged, "v"));

        return put(out, name && strcmp(name, "-0") == 0 ? "-0" : "null");
}

/* A string that is not valid Unicode: JSON allows an escape per UTF-16 unit. */
static int put_utf16(struct buf *out, const json_t *tagged)
{
        const char *text = json_string_value(json_object_get(tagged, "b64"));
        _cleanup_buf_ struct buf units = BUF_INIT(PART_BYTES_MAX);
        char escape[8];
        int r;

        if (!text || base64_decode(&units, text, strlen(text)) < 0)
                return 1;
        r = put(out, "\"");
        for (size_t i = 0; r == 0 && i + 1 < units.size; i += 2) {
                unsigned unit = (unsigned char)units.data[i] | (unsigned)(unsigned char)units.data[i + 1] << 8;
                int is_plain = unit >= ' ' && unit < 0x7f && unit != '"' && unit != '\\';

                snprintf(escape, sizeof(escape), is_plain ? "%c" : "\\u%04x", unit);
                r = put(out, escape);
        }
        return r < 0 ? r : put(out, "\"");
}

static int put_digits(struct buf *out, const json_t *tagged)
{
        const char *digits = json_string_value(json_object_get(tagged, "v"));
        size_t sign = digits && digits[0] == '-';

        return digits && digits[sign] && strspn(digits + sign, "0123456789") == strlen(digits + sign) ? put(out, digits)
                                                                                                      : 1;
}

static int put_null(struct buf *out, const json_t *tagged)
{
        (void)tagged;
        return put(out, "null");
}

static int put_set(struct buf *out, const json_t *tagged)
{
        const json_t *items = json_object_get(tagged, "v");

        return json_is_array(items) ? put_array(out, items) : 1;
}

static int put_map(struct buf *out, const json_t *tagged)
{
        const json_t *pairs = json_object_get(tagged, "v"), *pair;
        size_t i;

        json_array_foreach (pairs, i, pair)
                if (json_array_size(pair) != 2)
                        return 1;
        return json_is_array(pairs) ? put_pairs(out, pairs) : 1;
}

static int put_regexp(struct buf *out, const json_t *tagged)
{
        const char *source = json_string_value(json_object_get(tagged, "source")),
                   *flags = json_string_value(json_object_get(tagged, "flags"));
        json_t *text = source && flags ? json_sprintf("/%s/%s", source, flags) : NULL;
        int r = text ? json_text_scalar(out, text) : 1;

        json_decref(text);
        return r;
}

static int put_error(struct buf *out, const json_t *tagged)
{
        const json_t *error = json_object_get(tagged, "v");
        json_t *flat = json_is_object(error) ? json_copy((json_t *)error) : NULL,
               *fields = json_incref(json_object_get(flat, "fields"));
        int r = flat ? 0 : 1;

        if (json_is_object(fields) && !json_object_get(fields, "$")) {
                json_object_del(flat, "fields");
                json_object_update_missing(flat, fields);
        }
        if (r == 0)
                r = put_object(out, flat);
        json_decref(fields);
        json_decref(flat);
        return r;
}

static int put_class(struct buf *out, const json_t *tagged)
{
        const json_t *value = json_object_get(tagged, "v");

        return value ? plain_value(out, value) : 1;
}

static int put_tagged(struct buf *out, const json_t *tagged)
{
        static const struct {
                const char *tag;
                int (*put)(struct buf *out, const json_t *tagged);
        } rows[] = {
                {"number", put_number}, {"undefined", put_null}, {"hole", put_null},     {"utf16", put_utf16},
                {"bigint", put_digits}, {"bytes", put_base64},   {"buffer", put_base64}, {"array", put_typed},
                {"date", put_date},     {"set", put_set},        {"map", put_map},       {"object", put_map},
                {"regexp", put_regexp}, {"error", put_error},    {"class", put_class},
        };
        const char *tag = json_string_value(json_object_get(tagged, "$"));

        for (size_t i = 0; tag && i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strcmp(rows[i].tag, tag) == 0)
                        return rows[i].put(out, tagged);
        return 1;
}

int plain_value(struct buf *out, const json_t *value)
{
        int r;

        if (json_is_array(value))
                return put_array(out, value);
        if (!json_is_object(value))
                return json_text_scalar(out, value);
        r = put_tagged(out, value);
        return r == 1 ? put_object(out, value) : r;
}
