/* Write JSON as Python does. Runs in: the CLI, as its user. */
#include "json-text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int put(struct buf *out, const char *text)
{
        return buf_append(out, text, strlen(text));
}

/* -- scalars -------------------------------------------------------------------------------------------------- */

static int put_character(struct buf *out, unsigned char c)
{
        static const char *const short_forms[256] = {
                ['"'] = "\\\"", ['\\'] = "\\\\", ['\n'] = "\\n", ['\r'] = "\\r",
                ['\t'] = "\\t", ['\b'] = "\\b",  ['\f'] = "\\f",
        };
        char text[8];

        if (short_forms[c])
                return put(out, short_forms[c]);
        snprintf(text, sizeof(text), c < 0x20 ? "\\u%04x" : "%c", c);
        return put(out, text);
}

int json_text_string(struct buf *out, const char *text, size_t size)
{
        int r = put(out, "\"");

        for (size_t at = 0; r == 0 && at < size;) {
                size_t plain = at;

                while (plain < size && (unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
                        plain++;
                r = buf_append(out, text + at, plain - at);
                if (r == 0 && plain < size)
                        r = put_character(out, (unsigned char)text[plain]);
                at = plain + 1;
        }
        return r == 0 ? put(out, "\"") : r;
}

/* The fewest digits that give the same number, with an exponent only below 1e-4 and from 1e16 on,
 * as float.__repr__ does. */
static int put_real(struct buf *out, double number)
{
        char text[64];
        int digits = 0, exponent;

        do
                snprintf(text, sizeof(text), "%.*e", digits, number);
        while (strtod(text, NULL) != number && ++digits < 17);
        exponent = atoi(strchr(text, 'e') + 1);
        if (exponent >= -4 && exponent < 16)
                snprintf(text, sizeof(text), "%.*f", digits > exponent ? digits - exponent : 1, number);
        return put(out, text);
}

int json_text_scalar(struct buf *out, const json_t *value)
{
        char text[32];

        if (json_is_string(value))
                return json_text_string(out, json_string_value(value), json_string_length(value));
        if (json_is_real(value))
                return put_real(out, json_real_value(value));
        if (json_is_boolean(value) || json_is_null(value))
                return put(out, json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
        snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return put(out, text);
}

/* -- containers ----------------------------------------------------------------------------------------------- */

static int put_value(struct buf *out, const json_t *value, int depth);

static int put_line(struct buf *out, const char *before, int depth)
{
        int r = put(out, before);

        for (r = r == 0 ? put(out, "\n") : r; r == 0 && depth > 0; depth--)
                r = put(out, " ");
        return r;
}

static int put_array(struct buf *out, const json_t *array, int depth)
{
        const json_t *item;
        size_t i;
        int r = 0;

        json_array_foreach (array, i, item) {
                if (r == 0)
                        r = put_line(out, i ? "," : "[", depth + 1);
                if (r == 0)
                        r = put_value(out, item, depth + 1);
        }
        return r == 0 ? put_line(out, "", depth) : r;
}

static int put_object(struct buf *out, const json_t *object, int depth)
{
        const char *key, *before = "{";
        json_t *member;
        int r = 0;

        json_object_foreach ((json_t *)object, key, member) {
                if (r == 0)
                        r = put_line(out, before, depth + 1);
                if (r == 0)
                        r = json_text_string(out, key, strlen(key));
                if (r == 0)
                        r = put(out, ": ");
                if (r == 0)
                        r = put_value(out, member, depth + 1);
                before = ",";
        }
        return r == 0 ? put_line(out, "", depth) : r;
}

/* depth: limited by jansson's parser. */
static int put_value(struct buf *out, const json_t *value, int depth)
{
        int r;

        if (!json_is_array(value) && !json_is_object(value))
                return json_text_scalar(out, value);
        if (json_array_size(value) + json_object_size(value) == 0)
                return put(out, json_is_array(value) ? "[]" : "{}");
        r = json_is_array(value) ? put_array(out, value, depth) : put_object(out, value, depth);
        return r == 0 ? put(out, json_is_array(value) ? "]" : "}") : r;
}

int json_text(struct buf *out, const json_t *value)
{
        return put_value(out, value, 0);
}
