/* Runs in: the engine. */
#include "view.h"

#include "value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAFE_INTEGER_MAX INT64_C(9007199254740991)
#define DOUBLE_DIGITS_MAX 400 /* of a double printed in full */

static const char *tag_of(const json_t *value)
{
        return json_string_value(json_object_get(value, "$"));
}

/* Return the number without its fraction; from 2^53 on there is none. */
static double whole(double number)
{
        return number > -0x1p53 && number < 0x1p53 ? (double)(int64_t)number : number;
}

/* -- kinds ---------------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"null",  "boolean", "integer", "number", "string",
                                         "bytes", "array",   "object",  "other"};

static int has_only_text_keys(const json_t *pairs)
{
        for (size_t i = 0; i < json_array_size(pairs); i++)
                if (!json_is_string(json_array_get(json_array_get(pairs, i), 0)))
                        return 0;
        return 1;
}

static enum view_kind kind_of_tag(const char *tag, const json_t *value)
{
        static const struct {
                const char *tag;
                enum view_kind kind;
        } rows[] = {
                {"undefined", VIEW_NULL}, {"hole", VIEW_NULL},    {"bigint", VIEW_INTEGER},
                {"bytes", VIEW_BYTES},    {"buffer", VIEW_BYTES}, {"array", VIEW_ARRAY},
        };
        const json_t *v = json_object_get(value, "v");

        if (strcmp(tag, "number") == 0)
                return strcmp(json_string_value(v), "-0") == 0 ? VIEW_INTEGER : VIEW_NUMBER;
        if (strcmp(tag, "map") == 0 || strcmp(tag, "object") == 0)
                return has_only_text_keys(v) ? VIEW_OBJECT : VIEW_OTHER;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strcmp(tag, rows[i].tag) == 0)
                        return rows[i].kind;
        return VIEW_OTHER;
}

enum view_kind view_kind(const json_t *value)
{
        const char *tag = tag_of(value);

        switch (json_typeof(value)) {
        case JSON_NULL:
                return VIEW_NULL;
        case JSON_TRUE:
        case JSON_FALSE:
                return VIEW_BOOLEAN;
        case JSON_INTEGER:
                return VIEW_INTEGER;
        case JSON_REAL:
                return json_real_value(value) == whole(json_real_value(value)) ? VIEW_INTEGER : VIEW_NUMBER;
        case JSON_STRING:
                return VIEW_STRING;
        case JSON_ARRAY:
                return VIEW_ARRAY;
        case JSON_OBJECT:
                return tag ? kind_of_tag(tag, value) : VIEW_OBJECT;
        }
        return VIEW_OTHER;
}

const char *view_kind_name(const json_t *value)
{
        enum view_kind kind = view_kind(value);

        return kind == VIEW_OTHER ? tag_of(value) : kind_names[kind];
}

/* -- objects -------------------------------------------------------------------------------------------------- */

json_t *view_members(const json_t *object)
{
        const json_t *pairs = json_object_get(object, "v");
        json_t *members;

        if (!tag_of(object))
                return json_incref((json_t *)object);
        members = json_object();
        for (size_t i = 0; members && i < json_array_size(pairs); i++) {
                const json_t *pair = json_array_get(pairs, i), *key = json_array_get(pair, 0);

                if (json_object_setn(members, json_string_value(key), json_string_length(key),
                                     json_array_get(pair, 1)) < 0) {
                        json_decref(members);
                        return NULL;
                }
        }
        return members;
}

static int needs_escape(json_t *members)
{
        size_t size;
        const char *key;
        json_t *member;

        json_object_keylen_foreach (members, key, size, member)
                if (strlen(key) != size || strcmp(key, "$") == 0)
                        return 1;
        return 0;
}

json_t *view_object(json_t *members)
{
        json_t *pairs, *member;
        const char *key;
        size_t size;

        if (!needs_escape(members))
                return json_incref(members);
        pairs = json_array();
        json_object_keylen_foreach (members, key, size, member)
                if (json_array_append_new(pairs, json_pack("[o, O]", json_stringn(key, size), member)) < 0) {
                        json_decref(pairs);
                        return NULL;
                }
        return json_pack("{s:s, s:o}", "$", "object", "v", pairs);
}

/* -- arrays --------------------------------------------------------------------------------------------------- */

struct view_items view_items(const json_t *array)
{
        const char *type = json_string_value(json_object_get(array, "t"));
        const json_t *bytes = json_object_get(array, VALUE_HELD_BYTES);

        if (!type)
                return (struct view_items){.array = array, .count = json_array_size(array)};
        return (struct view_items){
                .bytes = json_string_value(bytes),
                .letter = type[0],
                .width = (unsigned)atoi(type + 1) / 8,
                .count = json_string_length(bytes) / ((unsigned)atoi(type + 1) / 8),
        };
}

static json_t *real_item(double value)
{
        if (isfinite(value))
                return json_real(value);
        return json_pack("{s:s, s:s}", "$", "number", "v", isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
}

static json_t *integer_item(uint64_t raw, int is_signed)
{
        int64_t value = (int64_t)raw;
        char digits[24];

        if (is_signed ? value >= -SAFE_INTEGER_MAX && value <= SAFE_INTEGER_MAX : raw <= SAFE_INTEGER_MAX)
                return json_integer(value);
        if (is_signed)
                snprintf(digits, sizeof(digits), "%lld", (long long)value);
        else
                snprintf(digits, sizeof(digits), "%llu", (unsigned long long)raw);
        return json_pack("{s:s, s:s}", "$", "bigint", "v", digits);
}

json_t *view_item(const struct view_items *items, size_t index)
{
        uint64_t raw = 0;
        uint32_t half;
        float narrow;
        double wide;
        unsigned unused = 64 - 8 * items->width;

        if (items->array)
                return json_incref(json_array_get(items->array, index));
        for (unsigned i = 0; i < items->width; i++)
                raw |= (uint64_t)(unsigned char)items->bytes[index * items->width + i] << 8 * i;
        if (items->letter == 'u')
                return integer_item(raw, 0);
        if (items->letter == 'i')
                return integer_item((uint64_t)((int64_t)(raw << unused) >> unused), 1);
        half = (uint32_t)raw;
        memcpy(&narrow, &half, sizeof(narrow));
        memcpy(&wide, &raw, sizeof(wide));
        return real_item(items->width == 4 ? (double)narrow : wide);
}

/* -- comparing ------------------------------------------------------------------------------------------------ */

/* Return the digits of a bigint, or NULL. */
static const char *big_digits(const json_t *number)
{
        const char *tag = tag_of(number);

        return tag && strcmp(tag, "bigint") == 0 ? json_string_value(json_object_get(number, "v")) : NULL;
}

/* For all numbers except bigints; exact, because integers are in the safe range. */
static double real_of(const json_t *number)
{
        const char *name = json_string_value(json_object_get(number, "v"));

        return name ? strtod(name, NULL) : json_number_value(number);
}

static int compare_digits(const char *a, const char *b)
{
        int sign = *a == '-' ? -1 : 1;
        size_t size = strlen(a), other = strlen(b);

        if ((*a == '-') != (*b == '-'))
                return sign;
        return sign * (size != other ? (size > other ? 1 : -1) : strcmp(a, b));
}

static int compare_big(const char *digits, double other)
{
        char others[DOUBLE_DIGITS_MAX];
        double part = other - whole(other);
        int order;

        if (isinf(other))
                return other < 0 ? 1 : -1;
        snprintf(others, sizeof(others), "%.0f", whole(other));
        order = compare_digits(digits, others);
        return order ? order : part > 0 ? -1 : part < 0;
}

int view_compare(const json_t *a, const json_t *b, int *ret)
{
        const char *big_a = big_digits(a), *big_b = big_digits(b);
        double x = big_a ? 0 : real_of(a), y = big_b ? 0 : real_of(b);

        if (isnan(x) || isnan(y))
                return 0;
        if (big_a && big_b)
                *ret = compare_digits(big_a, big_b);
        else if (big_a)
                *ret = compare_big(big_a, y);
        else if (big_b)
                *ret = -compare_big(big_b, x);
        else
                *ret = x < y ? -1 : x > y;
        return 1;
}

static int equal_arrays(const json_t *a, const json_t *b)
{
        int same = json_array_size(a) == json_array_size(b);

        for (size_t i = 0; same == 1 && i < json_array_size(a); i++)
                same = view_equal(json_array_get(a, i), json_array_get(b, i));
        return same;
}

static int equal_objects(const json_t *a, const json_t *b)
{
        json_t *left = view_members(a), *right = view_members(b), *member, *other;
        int same = !left || !right ? -ENOMEM : json_object_size(left) == json_object_size(right);
        const char *key;
        size_t size;

        if (same == 1)
                json_object_keylen_foreach (left, key, size, member) {
                        other = json_object_getn(right, key, size);
                        same = other ? view_equal(member, other) : 0;
                        if (same != 1)
                                break;
                }
        json_decref(left);
        json_decref(right);
        return same;
}

static int is_number(enum view_kind kind)
{
        return kind == VIEW_INTEGER || kind == VIEW_NUMBER;
}

int view_equal(const json_t *a, const json_t *b)
{
        enum view_kind kind = view_kind(a), other = view_kind(b);
        int order;

        if (is_number(kind) && is_number(other))
                return view_compare(a, b, &order) && order == 0;
        if (kind != other)
                return 0;
        if (kind == VIEW_NULL)
                return 1;
        if (json_is_array(a) && json_is_array(b))
                return equal_arrays(a, b);
        return kind == VIEW_OBJECT ? equal_objects(a, b) : json_equal(a, b);
}

/* -- references ----------------------------------------------------------------------------------------------- */

int view_has_references(const json_t *value)
{
        const char *key, *tag = tag_of(value);
        json_t *member;

        if (tag && strcmp(tag, "ref") == 0)
                return 1;
        for (size_t i = 0; i < json_array_size(value); i++)
                if (view_has_references(json_array_get(value, i)))
                        return 1;
        json_object_foreach ((json_t *)value, key, member)
                if (view_has_references(member))
                        return 1;
        return 0;
}
