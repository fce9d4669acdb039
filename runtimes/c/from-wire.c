#include "convert.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 wide;

struct integer {
        int is_negative;
        wide magnitude;
};

int incoming_refuse(struct incoming *in, const char *format, ...)
{
        char text[400];
        va_list list;

        if (in->is_trying)
                return -1;
        va_start(list, format);
        vsnprintf(text, sizeof(text), format, list);
        va_end(list);
        snprintf(in->why, sizeof(in->why), "argument '%s': %s", in->path, text);
        return -1;
}

void *incoming_allocate(struct incoming *in, size_t size)
{
        void *memory = in->library->allocate(size ? size : 1);

        if (!memory)
                incoming_refuse(in, "no memory for %zu bytes", size);
        else
                memset(memory, 0, size ? size : 1);
        return memory;
}

static size_t enter(char *path, size_t room, const char *format, va_list list) __attribute__((format(printf, 3, 0)));
static size_t enter(char *path, size_t room, const char *format, va_list list)
{
        size_t before = strlen(path);

        vsnprintf(path + before, room - before, format, list);
        return before;
}

size_t incoming_enter(struct incoming *in, const char *format, ...)
{
        va_list list;
        size_t before;

        va_start(list, format);
        before = enter(in->path, sizeof(in->path), format, list);
        va_end(list);
        return before;
}

void incoming_leave(struct incoming *in, size_t before)
{
        in->path[before] = '\0';
}

const char *convert_describe(const json_t *value, char *ret, size_t size)
{
        const char *tag = agent_tag(value);
        char *text = NULL;

        if (tag && strcmp(tag, "bigint") == 0)
                snprintf(ret, size, "%.60s", json_string_value(json_object_get(value, "v")));
        else if (tag && strcmp(tag, "number") == 0)
                snprintf(ret, size, "%s", json_string_value(json_object_get(value, "v")));
        else if (tag)
                snprintf(ret, size, "a value of the kind %s", tag);
        else if (json_is_array(value))
                snprintf(ret, size, "an array");
        else if (json_is_object(value))
                snprintf(ret, size, "an object");
        else if (json_is_string(value) && json_string_length(value) > 40)
                snprintf(ret, size, "a string of %zu bytes", json_string_length(value));
        else if ((text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))))
                snprintf(ret, size, "%s", text);
        free(text);
        return ret;
}

static int refuse_kind(struct incoming *in, const struct type *type, const json_t *value, const char *expected)
{
        char text[80];

        return incoming_refuse(in, "%s is not %s (%s)", convert_describe(value, text, sizeof(text)), expected,
                               type->name);
}

/* -- numbers -------------------------------------------------------------------------------------------------- */

static int digits_of(const char *text, struct integer *ret)
{
        wide value = 0;

        ret->is_negative = *text == '-';
        for (text += ret->is_negative; *text; text++) {
                if (value > ((wide)-1 - (wide)(*text - '0')) / 10)
                        return 0;
                value = value * 10 + (wide)(*text - '0');
        }
        ret->magnitude = value;
        return 1;
}

/* 1; 0: no integer; -1: one of more than 128 bits. */
static int integer_of(const json_t *value, struct integer *ret)
{
        const char *tag = agent_tag(value), *text = json_string_value(json_object_get(value, "v"));
        double real;

        if (json_is_boolean(value)) {
                *ret = (struct integer){0, json_is_true(value)};
                return 1;
        }
        if (json_is_integer(value)) {
                json_int_t n = json_integer_value(value);

                *ret = (struct integer){n < 0, n < 0 ? -(wide)n : (wide)n};
                return 1;
        }
        if (tag && strcmp(tag, "bigint") == 0)
                return digits_of(text, ret) ? 1 : -1;
        if (tag && strcmp(tag, "number") == 0 && strcmp(text, "-0") == 0) {
                *ret = (struct integer){0};
                return 1;
        }
        if (!json_is_real(value))
                return 0;
        real = json_real_value(value);
        if (real != trunc(real))
                return 0;
        if (fabs(real) >= 0x1p127)
                return -1;
        *ret = (struct integer){real < 0, (wide)fabs(real)};
        return 1;
}

static int fits(const struct integer *n, unsigned bits, int is_signed)
{
        wide most = bits >= 128 ? (wide)-1 : ((wide)1 << bits) - 1;

        if (is_signed)
                return n->magnitude <= most / 2 + (wide)n->is_negative;
        return n->magnitude <= most && (!n->is_negative || n->magnitude == 0);
}

static int read_integer(struct incoming *in, const struct type *type, const json_t *value, unsigned bits, wide *ret)
{
        char text[80];
        struct integer n;
        int r = integer_of(value, &n);

        if (r == 0)
                return refuse_kind(in, type, value, "an integer");
        if (r < 0 || !fits(&n, bits, type->is_signed)) {
                if (bits != type->size * 8)
                        return incoming_refuse(in, "%s does not fit in a bit-field of %u bits (%s)",
                                               convert_describe(value, text, sizeof(text)), bits, type->name);
                return incoming_refuse(in, "%s does not fit in %s", convert_describe(value, text, sizeof(text)),
                                       type->name);
        }
        *ret = n.is_negative ? -n.magnitude : n.magnitude;
        return 0;
}

static int float_of(const json_t *value, long double *ret)
{
        const char *tag = agent_tag(value), *text = json_string_value(json_object_get(value, "v"));

        if (json_is_number(value))
                *ret = json_is_integer(value) ? (long double)json_integer_value(value)
                                              : (long double)json_real_value(value);
        else if (tag && strcmp(tag, "bigint") == 0)
                *ret = strtold(text, NULL);
        else if (tag && strcmp(tag, "number") == 0)
                *ret = strcmp(text, "NaN") == 0  ? (long double)NAN
                       : strcmp(text, "-0") == 0 ? -0.0L
                       : *text == '-'            ? -(long double)INFINITY
                                                 : (long double)INFINITY;
        else
                return 0;
        return 1;
}

static int read_float(struct incoming *in, const struct type *type, const json_t *value, void *at)
{
        long double number;
        char text[80];
        float single;
        double twice;

        if (!float_of(value, &number))
                return refuse_kind(in, type, value, "a number");
        single = (float)number;
        twice = (double)number;
        if (isfinite(number) &&
            ((type->size == sizeof(float) && !isfinite(single)) || (type->size == sizeof(double) && !isfinite(twice))))
                return incoming_refuse(in, "%s does not fit in %s", convert_describe(value, text, sizeof(text)),
                                       type->name);
        memcpy(at,
               type->size == sizeof(float)    ? (void *)&single
               : type->size == sizeof(double) ? (void *)&twice
                                              : (void *)&number,
               type->size == sizeof(long double) ? 10 : type->size);
        return 0;
}

static int read_bool(struct incoming *in, const struct type *type, const json_t *value, wide *ret)
{
        struct integer n;

        if (integer_of(value, &n) != 1 || n.is_negative || n.magnitude > 1)
                return refuse_kind(in, type, value, "true or false");
        *ret = n.magnitude;
        return 0;
}

static int read_enum(struct incoming *in, const struct type *type, const json_t *value, wide *ret)
{
        const char *name = json_string_value(value), *scope = name;
        char known[200] = "";
        size_t size = 0;

        if (!name)
                return read_integer(in, type, value, (unsigned)type->size * 8, ret);
        while ((scope = strstr(name, "::")))
                name = scope + 2;
        for (size_t i = 0; i < type->enumerator_count; i++) {
                if (strcmp(type->enumerators[i].name, name) == 0) {
                        *ret = (wide)(__int128)type->enumerators[i].value;
                        return 0;
                }
                if (size < sizeof(known))
                        size += (size_t)snprintf(known + size, sizeof(known) - size, "%s%s", i ? ", " : "",
                                                 type->enumerators[i].name);
        }
        return incoming_refuse(in, "'%.60s' is no %s, expected one of: %s", name, type->name, known);
}

static int read_char(struct incoming *in, const struct type *type, const json_t *value, wide *ret)
{
        if (!json_is_string(value))
                return read_integer(in, type, value, 8, ret);
        if (json_string_length(value) != 1)
                return refuse_kind(in, type, value, "one ASCII character or an integer");
        *ret = (wide)(unsigned char)json_string_value(value)[0];
        return 0;
}

static int read_scalar(struct incoming *in, const struct type *type, const json_t *value, wide *ret)
{
        if (type->kind == TYPE_BOOL)
                return read_bool(in, type, value, ret);
        if (type->kind == TYPE_ENUM)
                return read_enum(in, type, value, ret);
        if (type->kind == TYPE_CHAR)
                return read_char(in, type, value, ret);
        return read_integer(in, type, value, (unsigned)type->size * 8, ret);
}

/* -- structs -------------------------------------------------------------------------------------------------- */

/* The member of an object, in both of its forms; NULL: none. */
static const json_t *member_of(const json_t *value, const char *name)
{
        const json_t *pairs = json_object_get(value, "v");

        if (!agent_tag(value))
                return json_object_get(value, name);
        for (size_t i = 0; i < json_array_size(pairs); i++) {
                const json_t *pair = json_array_get(pairs, i);

                if (json_string_length(json_array_get(pair, 0)) == strlen(name) &&
                    strcmp(json_string_value(json_array_get(pair, 0)), name) == 0)
                        return json_array_get(pair, 1);
        }
        return NULL;
}

static int has_member(const struct type *type, const char *name)
{
        for (size_t i = 0; i < type->member_count; i++)
                if (type->members[i].name && strcmp(type->members[i].name, name) == 0)
                        return 1;
        return 0;
}

static int check_names(struct incoming *in, const struct type *type, const json_t *value)
{
        const json_t *pairs = json_object_get(value, "v"), *item;
        const char *key;

        if (agent_tag(value)) {
                for (size_t i = 0; i < json_array_size(pairs); i++) {
                        key = json_string_value(json_array_get(json_array_get(pairs, i), 0));
                        if (!key || !has_member(type, key))
                                return incoming_refuse(in, "%s has no member '%.60s'", type->name, key ? key : "?");
                }
                return 0;
        }
        json_object_foreach ((json_t *)value, key, item) /* NOLINT: only read */
                if (!has_member(type, key))
                        return incoming_refuse(in, "%s has no member '%.60s'", type->name, key);
        return 0;
}

static void store_bits(const struct member *m, wide value, char *at)
{
        for (unsigned bit = 0; bit < m->bit_size; bit++) {
                unsigned place = m->bit_offset + bit;
                char mask = (char)(1u << place % 8);

                if (value >> bit & 1)
                        at[m->offset + place / 8] |= mask;
                else
                        at[m->offset + place / 8] &= (char)~mask;
        }
}

static int read_bits(struct incoming *in, const struct member *m, const json_t *value, char *at)
{
        wide bits;
        int r = m->type->kind == TYPE_INTEGER ? read_integer(in, m->type, value, m->bit_size, &bits)
                                              : read_scalar(in, m->type, value, &bits);

        if (r == 0)
                store_bits(m, bits, at);
        return r;
}

static int store_count(struct incoming *in, const struct member *m, size_t count, const json_t *given, char *at)
{
        struct integer n = {0, count};
        wide value = count;

        if (given && (integer_of(given, &n) != 1 || n.is_negative || n.magnitude > count))
                return incoming_refuse(in, "member '%s' is more than the %zu elements there are", m->name, count);
        value = n.magnitude;
        if (!fits(&n, (unsigned)m->type->size * 8, m->type->is_signed))
                return incoming_refuse(in, "%zu elements are more than member '%s' can count", count, m->name);
        memcpy(at + m->offset, &value, m->type->size);
        return 0;
}

static int is_counted(const struct type *type, size_t i)
{
        const struct member *m = &type->members[i];

        return i + 1 < type->member_count && m[1].bit_size == 0 &&
               convert_is_length(m->name, m->type, m[1].name, m[1].type);
}

static int read_counted(struct incoming *in, const struct type *type, size_t i, const json_t *value,
                        const json_t *count, char *at)
{
        const struct member *m = &type->members[i];
        size_t given;
        void *elements;
        int r = convert_elements(in, m->type->inner[0], value, &elements, &given);

        if (r < 0)
                return r;
        memcpy(at + m->offset, &elements, sizeof(elements));
        return store_count(in, m + 1, given, count, at);
}

static int read_member(struct incoming *in, const struct type *type, size_t *i, const json_t *object, char *at)
{
        const struct member *m = &type->members[*i];
        const json_t *value;
        size_t before;
        int r;

        if (!m->name)
                return m->type->size == 0 || m->bit_size ? 0
                                                         : incoming_refuse(in, "%s has an unnamed member", type->name);
        value = member_of(object, m->name);
        if (!value)
                return incoming_refuse(in, "member '%s' of %s is missing", m->name, type->name);
        before = incoming_enter(in, ".%s", m->name);
        if (is_counted(type, *i))
                r = read_counted(in, type, (*i)++, value, member_of(object, m[1].name), at);
        else
                r = m->bit_size ? read_bits(in, m, value, at) : convert_in(in, m->type, value, at + m->offset);
        incoming_leave(in, before);
        return r;
}

static int is_object(const json_t *value)
{
        const char *tag = agent_tag(value);

        return json_is_object(value) && (!tag || strcmp(tag, "object") == 0);
}

static int read_struct(struct incoming *in, const struct type *type, const json_t *value, char *at)
{
        int r;

        if (type->is_made_by_itself)
                return incoming_refuse(in, "%s cannot be made from a value: it has virtual functions or references",
                                       type->name);
        if (type->member_count == 0 && json_is_null(value)) /* std::monostate and such */
                return 0;
        if (!is_object(value))
                return refuse_kind(in, type, value, "an object");
        r = check_names(in, type, value);
        for (size_t i = 0; r == 0 && i < type->member_count; i++)
                r = read_member(in, type, &i, value, at);
        return r;
}

/* The one given member selects the union's member. */
static int read_union(struct incoming *in, const struct type *type, const json_t *value, char *at)
{
        const struct member *found = NULL;
        const json_t *inner = NULL;
        size_t before;
        int r;

        if (!is_object(value))
                return refuse_kind(in, type, value, "an object of one member");
        r = check_names(in, type, value);
        for (size_t i = 0; r == 0 && i < type->member_count; i++) {
                const json_t *given = type->members[i].name ? member_of(value, type->members[i].name) : NULL;

                if (given && found)
                        return incoming_refuse(in, "%s is a union: only one of its members can be given", type->name);
                if (given) {
                        found = &type->members[i];
                        inner = given;
                }
        }
        if (r < 0)
                return r;
        if (!found)
                return incoming_refuse(in, "%s is a union: one of its members must be given", type->name);
        before = incoming_enter(in, ".%s", found->name);
        r = found->bit_size ? read_bits(in, found, inner, at) : convert_in(in, found->type, inner, at + found->offset);
        incoming_leave(in, before);
        return r;
}

/* -- arrays and pointers -------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        size_t size;
        int is_float, is_signed;
} element_types[] = {
        {"i8", 1, 0, 1},  {"u8", 1, 0, 0},  {"u8c", 1, 0, 0}, {"i16", 2, 0, 1}, {"u16", 2, 0, 0}, {"i32", 4, 0, 1},
        {"u32", 4, 0, 0}, {"i64", 8, 0, 1}, {"u64", 8, 0, 0}, {"f32", 4, 1, 1}, {"f64", 8, 1, 1},
};

static json_t *typed_element(size_t row, const unsigned char *at)
{
        int64_t n = 0;
        float single;
        double twice;

        if (element_types[row].is_float) {
                memcpy(&single, at, sizeof(single));
                if (element_types[row].size == sizeof(double))
                        memcpy(&twice, at, sizeof(twice));
                else
                        twice = (double)single;
                return agent_real(twice);
        }
        memcpy(&n, at, element_types[row].size);
        if (!element_types[row].is_signed)
                return agent_unsigned((uint64_t)n);
        return agent_integer((int64_t)((uint64_t)n << (64 - 8 * element_types[row].size)) >>
                             (64 - 8 * element_types[row].size));
}

/* The content of bytes, typed arrays and sets, as an array of values; NULL: value is none of them. */
static json_t *spread(struct incoming *in, const json_t *value)
{
        const char *tag = agent_tag(value), *type = json_string_value(json_object_get(value, "t"));
        const unsigned char *data;
        size_t size, row = 1;
        json_t *array;

        if (json_is_array(value))
                return json_incref((json_t *)value); /* NOLINT: only counted */
        if (tag && strcmp(tag, "set") == 0)
                return json_incref(json_object_get(value, "v"));
        if (!agent_bytes(in->request, value, &data, &size))
                return NULL;
        for (size_t i = 0; type && i < sizeof(element_types) / sizeof(element_types[0]); i++)
                if (strcmp(type, element_types[i].name) == 0)
                        row = i;
        array = json_array();
        for (size_t at = 0; at + element_types[row].size <= size; at += element_types[row].size)
                json_array_append_new(array, typed_element(row, data + at));
        return array;
}

/* Bytes and typed arrays already in memory layout. 1 if copied. */
static int copy_plain(struct incoming *in, const struct type *element, const json_t *value,
                      const unsigned char **ret_data, size_t *ret_count)
{
        const char *type = json_string_value(json_object_get(value, "t"));
        size_t size, row = 1;

        if (!agent_bytes(in->request, value, ret_data, &size))
                return 0;
        for (size_t i = 0; type && i < sizeof(element_types) / sizeof(element_types[0]); i++)
                if (strcmp(type, element_types[i].name) == 0)
                        row = i;
        if (element->size != element_types[row].size)
                return 0;
        if (!(element->kind == TYPE_CHAR && row <= 2) &&
            !(element->kind == TYPE_FLOAT && element_types[row].is_float) &&
            !(element->kind == TYPE_INTEGER && !element_types[row].is_float &&
              element->is_signed == (unsigned)element_types[row].is_signed))
                return 0;
        *ret_count = size / element->size;
        return 1;
}

static int read_all(struct incoming *in, const struct type *element, const json_t *array, char *at)
{
        for (size_t i = 0; i < json_array_size(array); i++) {
                size_t before = incoming_enter(in, "[%zu]", i);
                int r = convert_in(in, element, json_array_get(array, i), at + i * element->size);

                if (r < 0)
                        return r;
                incoming_leave(in, before);
        }
        return 0;
}

static int is_refused(struct incoming *in, const struct type *type)
{
        if (type->kind == TYPE_REFUSED)
                return incoming_refuse(in, "%s is %s, which no value can be", type->name, type->why);
        if (type->kind == TYPE_VOID)
                return incoming_refuse(in, "a pointer to void does not say what it points to");
        return 0;
}

static int copy_out_of(struct incoming *in, const void *data, size_t count, size_t size, void **ret, size_t *ret_count)
{
        *ret = incoming_allocate(in, (count + 1) * size);
        if (!*ret)
                return -1;
        if (count)
                memcpy(*ret, data, count * size);
        *ret_count = count;
        return 0;
}

int convert_elements(struct incoming *in, const struct type *element, const json_t *value, void **ret,
                     size_t *ret_count)
{
        static const struct type byte = {.kind = TYPE_INTEGER, .name = "void", .size = 1, .is_byte = 1};
        const unsigned char *data;
        size_t count;
        json_t *array;
        int r;

        *ret = NULL;
        *ret_count = 0;
        if (json_is_null(value))
                return 0;
        if (element->kind == TYPE_VOID) {
                if (!agent_bytes(in->request, value, &data, &count) && !json_is_string(value))
                        return incoming_refuse(in, "a pointer to void with a length takes bytes or a string");
                element = &byte;
        }
        if (is_refused(in, element) < 0)
                return -1;
        if (json_is_string(value) && (element->kind == TYPE_CHAR || element->is_byte))
                return copy_out_of(in, json_string_value(value), json_string_length(value), 1, ret, ret_count);
        if (copy_plain(in, element, value, &data, &count))
                return copy_out_of(in, data, count, element->size, ret, ret_count);
        array = spread(in, value);
        count = array ? json_array_size(array) : 1;
        *ret = incoming_allocate(in, (count + 1) * element->size);
        if (!*ret)
                r = -1;
        else
                r = array ? read_all(in, element, array, *ret) : convert_in(in, element, value, *ret);
        json_decref(array);
        *ret_count = count;
        return r;
}

static int read_text(struct incoming *in, const struct type *type, const json_t *value, void **ret)
{
        size_t size;

        if (json_is_string(value)) {
                if (memchr(json_string_value(value), '\0', json_string_length(value)))
                        return incoming_refuse(in, "the string has a NUL in it, where %s ends", type->name);
        } else if (!json_is_null(value) && !agent_tag(value) && !json_is_array(value)) {
                return refuse_kind(in, type, value, "a string");
        }
        return convert_elements(in, type->inner[0], value, ret, &size);
}

static int read_pointer(struct incoming *in, const struct type *type, const json_t *value, void *at)
{
        const struct type *target = type->inner[0];
        void *made = NULL;
        size_t count;
        int r;

        if (json_is_null(value) && type->kind == TYPE_POINTER)
                return 0; /* NULL, for any target */
        if (target->kind == TYPE_REFUSED)
                return incoming_refuse(in, "%s points to %s, which no value can be", type->name, target->why);
        if (type->kind == TYPE_REFERENCE) {
                made = incoming_allocate(in, target->size);
                r = made ? convert_in(in, target, value, made) : -1;
        } else if (target->kind == TYPE_CHAR) {
                r = read_text(in, type, value, &made);
        } else {
                r = convert_elements(in, target, value, &made, &count);
        }
        memcpy(at, &made, sizeof(made));
        return r;
}

static int read_array(struct incoming *in, const struct type *type, const json_t *value, char *at)
{
        const struct type *element = type->inner[0];
        const unsigned char *data;
        size_t count;
        json_t *array;
        int r;

        if (json_is_string(value) && element->kind == TYPE_CHAR) {
                if (json_string_length(value) >= type->count ||
                    memchr(json_string_value(value), '\0', json_string_length(value)))
                        return incoming_refuse(in, "a string of %zu bytes does not fit in %s%s",
                                               json_string_length(value), type->name,
                                               json_string_length(value) >= type->count ? "" : ": it has a NUL in it");
                memcpy(at, json_string_value(value), json_string_length(value));
                return 0;
        }
        if (copy_plain(in, element, value, &data, &count)) {
                if (count > type->count)
                        return incoming_refuse(in, "%zu elements do not fit in %s", count, type->name);
                memcpy(at, data, count * element->size);
                return 0;
        }
        array = spread(in, value);
        if (!array)
                return refuse_kind(in, type, value, element->kind == TYPE_CHAR ? "a string or an array" : "an array");
        if (json_array_size(array) > type->count)
                r = incoming_refuse(in, "%zu elements do not fit in %s", json_array_size(array), type->name);
        else
                r = read_all(in, element, array, at);
        json_decref(array);
        return r;
}

/* -- any ------------------------------------------------------------------------------------------------------ */

static int read_any(struct incoming *in, const struct type *type, const json_t *value, void *at)
{
        wide bits = 0;
        int r;

        switch (type->kind) {
        case TYPE_REFUSED:
        case TYPE_VOID:
                return is_refused(in, type);
        case TYPE_BOOL:
        case TYPE_CHAR:
        case TYPE_INTEGER:
        case TYPE_ENUM:
                r = read_scalar(in, type, value, &bits);
                memcpy(at, &bits, type->size < sizeof(bits) ? type->size : sizeof(bits));
                return r;
        case TYPE_FLOAT:
                return read_float(in, type, value, at);
        case TYPE_STRUCT:
                return read_struct(in, type, value, at);
        case TYPE_UNION:
                return read_union(in, type, value, at);
        case TYPE_ARRAY:
                return read_array(in, type, value, at);
        case TYPE_POINTER:
        case TYPE_REFERENCE:
                return read_pointer(in, type, value, at);
        default:
                return library_in(in, type, value, at);
        }
}

int convert_in(struct incoming *in, const struct type *type, const json_t *value, void *at)
{
        int is_deeper = type->kind != TYPE_POINTER && type->kind != TYPE_REFERENCE, r;

        if (in->depth > CONVERT_DEPTH_MAX)
                return incoming_refuse(in, "values in values deeper than %d", CONVERT_DEPTH_MAX);
        in->depth += is_deeper;
        r = read_any(in, type, value, at);
        in->depth -= is_deeper;
        return r;
}
