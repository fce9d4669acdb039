#include "convert.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 wide;

json_t *outgoing_refuse(struct outgoing *out, const char *format, ...)
{
        char text[400];
        va_list list;

        if (*out->why || out->is_too_large)
                return NULL;
        va_start(list, format);
        vsnprintf(text, sizeof(text), format, list);
        va_end(list);
        snprintf(out->why, sizeof(out->why), "$%s: %s", out->path, text);
        return NULL;
}

json_t *outgoing_spend(struct outgoing *out, size_t size, json_t *value)
{
        out->spent += size;
        if (out->spent <= out->reply->result_bytes)
                return value ? value : outgoing_refuse(out, "no memory");
        out->is_too_large = 1;
        json_decref(value);
        return NULL;
}

size_t outgoing_enter(struct outgoing *out, const char *format, ...)
{
        size_t before = strlen(out->path);
        va_list list;

        va_start(list, format);
        vsnprintf(out->path + before, sizeof(out->path) - before, format, list);
        va_end(list);
        return before;
}

void outgoing_leave(struct outgoing *out, size_t before)
{
        out->path[before] = '\0';
}

/* -- names of lengths ----------------------------------------------------------------------------------------- */

static int is_one_of(const char *name, const char *const *names)
{
        for (; *names; names++)
                if (strcmp(name, *names) == 0)
                        return 1;
        return 0;
}

static int is_joined(const char *name, const char *of, const char *const *words)
{
        char text[160];

        for (; *words; words++) {
                snprintf(text, sizeof(text), "%s_%s", of, *words);
                if (strcmp(name, text) == 0)
                        return 1;
                snprintf(text, sizeof(text), "%s%s", of, *words);
                if (strcmp(name, text) == 0)
                        return 1;
                snprintf(text, sizeof(text), "%s_%s", *words, of);
                if (strcmp(name, text) == 0)
                        return 1;
        }
        return 0;
}

int convert_is_length(const char *of, const struct type *pointer, const char *name, const struct type *type)
{
        static const char *const words[] = {"n", "len", "length", "count", "size", "num", NULL};
        /* A number after a string is often something else: repeat(const char *text, int n). */
        static const char *const of_text[] = {"len", "length", "size", NULL};

        if (!of || !name || pointer->kind != TYPE_POINTER || type->kind != TYPE_INTEGER || type->size < 2)
                return 0;
        return is_one_of(name, pointer->inner[0]->kind == TYPE_CHAR ? of_text : words) || is_joined(name, of, words);
}

/* -- numbers -------------------------------------------------------------------------------------------------- */

static wide bits_at(const char *at, unsigned bit_offset, unsigned bits, int is_signed)
{
        wide value = 0;

        for (unsigned i = 0; i < bits; i++) {
                unsigned place = bit_offset + i;

                value |= (wide)((unsigned char)at[place / 8] >> place % 8 & 1) << i;
        }
        if (is_signed && bits < 128 && bits > 0 && value >> (bits - 1) & 1)
                value |= ~(wide)0 << bits;
        return value;
}

int64_t convert_integer_at(const struct type *type, const void *at)
{
        return (int64_t)bits_at(at, 0, (unsigned)(type->size > 8 ? 8 : type->size) * 8, type->is_signed);
}

static json_t *write_integer(struct outgoing *out, wide value, int is_signed)
{
        int is_negative = is_signed && (__int128)value < 0;
        char digits[48], *at = digits + sizeof(digits) - 1;

        if (is_negative ? (__int128)value >= INT64_MIN : value <= UINT64_MAX)
                return outgoing_spend(out, 1,
                                      is_negative ? agent_integer((int64_t)value) : agent_unsigned((uint64_t)value));
        if (is_negative)
                value = -value;
        for (*at = '\0'; value; value /= 10)
                *--at = (char)('0' + value % 10);
        if (is_negative)
                *--at = '-';
        return outgoing_spend(out, 60, json_pack("{s:s, s:s}", "$", "bigint", "v", at));
}

/* A long double is sent as a double if that is the same number; else an integral one may still be a bigint. */
static json_t *write_float(struct outgoing *out, const struct type *type, const void *at)
{
        long double number = 0;
        float single;
        double twice;

        if (type->size == sizeof(float)) {
                memcpy(&single, at, sizeof(single));
                number = (long double)single;
        } else if (type->size == sizeof(double)) {
                memcpy(&twice, at, sizeof(twice));
                number = (long double)twice;
        } else {
                memcpy(&number, at, 10);
        }
        twice = (double)number;
        if (isfinite(number) && !isfinite(twice))
                return outgoing_refuse(out, "%Lg is too large for a number", number);
        return outgoing_spend(out, 3, agent_real(twice));
}

static json_t *write_enum(struct outgoing *out, const struct type *type, wide value)
{
        for (size_t i = 0; i < type->enumerator_count; i++)
                if ((int64_t)value == type->enumerators[i].value)
                        return outgoing_spend(out, strlen(type->enumerators[i].name) + 2,
                                              json_string(type->enumerators[i].name));
        return write_integer(out, value, type->is_signed);
}

static json_t *write_scalar(struct outgoing *out, const struct type *type, wide value)
{
        char text = (char)value;

        if (type->kind == TYPE_BOOL)
                return outgoing_spend(out, 4, json_boolean(value != 0));
        if (type->kind == TYPE_ENUM)
                return write_enum(out, type, value);
        if (type->kind == TYPE_CHAR && (unsigned char)text < 128)
                return outgoing_spend(out, 3, json_stringn(&text, 1));
        return write_integer(out, value, type->is_signed);
}

/* -- arrays, text, pointers ----------------------------------------------------------------------------------- */

static json_t *write_text(struct outgoing *out, const char *text, size_t size)
{
        json_t *made;

        if (size > out->reply->result_bytes)
                return outgoing_spend(out, size, NULL);
        made = json_stringn(text, size);
        if (made)
                return outgoing_spend(out, size + 2, made);
        return outgoing_spend(out, size, agent_attach(out->reply, text, size));
}

json_t *convert_elements_out(struct outgoing *out, const struct type *element, const void *at, size_t count)
{
        json_t *array;

        if (!at)
                return outgoing_spend(out, 4, json_null());
        if (element->kind == TYPE_CHAR)
                return write_text(out, at, strnlen(at, count));
        if (element->is_byte || element->kind == TYPE_VOID) {
                if (count > out->reply->result_bytes)
                        return outgoing_spend(out, count, NULL);
                return outgoing_spend(out, count, agent_attach(out->reply, at, count));
        }
        array = outgoing_spend(out, 2, json_array());
        for (size_t i = 0; array && i < count; i++) {
                size_t before = outgoing_enter(out, "[%zu]", i);
                json_t *item = convert_out(out, element, (const char *)at + i * element->size);

                if (!item || !outgoing_spend(out, 1, item) || json_array_append_new(array, item) < 0) {
                        json_decref(array);
                        return NULL;
                }
                outgoing_leave(out, before);
        }
        return array;
}

static json_t *write_pointer(struct outgoing *out, const struct type *type, const void *at)
{
        const struct type *target = type->inner[0];
        const void *to;

        memcpy(&to, at, sizeof(to));
        if (!to)
                return outgoing_spend(out, 4, json_null());
        if (target->kind == TYPE_CHAR)
                return write_text(out, to, strlen(to));
        if (target->kind == TYPE_VOID)
                return outgoing_refuse(out,
                                       "a pointer to void cannot be sent: return a pointer to the type of its data");
        if (target->kind == TYPE_POINTER &&
            target->inner[0]->kind == TYPE_CHAR) { /* a list terminated by NULL, like environ */
                size_t count = 0;

                while (((char *const *)to)[count])
                        count++;
                return convert_elements_out(out, target, to, count);
        }
        return convert_out(out, target, to);
}

/* -- structs -------------------------------------------------------------------------------------------------- */

static json_t *write_member(struct outgoing *out, const struct type *type, size_t i, const char *at)
{
        const struct member *m = &type->members[i];
        const void *elements;

        if (m->bit_size)
                return write_scalar(out, m->type,
                                    bits_at(at + m->offset, m->bit_offset, m->bit_size, m->type->is_signed));
        if (i + 1 < type->member_count && m[1].bit_size == 0 &&
            convert_is_length(m->name, m->type, m[1].name, m[1].type)) {
                int64_t count = convert_integer_at(m[1].type, at + m[1].offset);

                memcpy(&elements, at + m->offset, sizeof(elements));
                if (elements && (count < 0 || (uint64_t)count > SIZE_MAX / 16))
                        return outgoing_refuse(out, "%lld elements", (long long)count);
                return convert_elements_out(out, m->type->inner[0], elements, (size_t)count);
        }
        return convert_out(out, m->type, at + m->offset);
}

static json_t *write_struct(struct outgoing *out, const struct type *type, const char *at)
{
        json_t *object = outgoing_spend(out, 2, json_object());

        for (size_t i = 0; object && i < type->member_count; i++) {
                const struct member *m = &type->members[i];
                size_t before;
                json_t *value;

                if (!m->name) {
                        if (m->bit_size || m->type->size == 0)
                                continue;
                        json_decref(object);
                        return outgoing_refuse(out, "%s has an unnamed member that cannot be sent: name it",
                                               type->name);
                }
                before = outgoing_enter(out, ".%s", m->name);
                value = write_member(out, type, i, at);
                if (!value || !outgoing_spend(out, strlen(m->name) + 4, value) ||
                    json_object_set_new(object, m->name, value) < 0) {
                        json_decref(object);
                        return NULL;
                }
                outgoing_leave(out, before);
        }
        return object;
}

/* -- any ------------------------------------------------------------------------------------------------------ */

static json_t *write_any(struct outgoing *out, const struct type *type, const void *at)
{
        const void *to;

        switch (type->kind) {
        case TYPE_REFUSED:
                return outgoing_refuse(out, "%.180s is %.100s, which cannot be sent: " CONVERT_WAY_OUT, type->name,
                                       type->why);
        case TYPE_VOID:
                return outgoing_spend(out, 4, json_null());
        case TYPE_BOOL:
        case TYPE_CHAR:
        case TYPE_INTEGER:
        case TYPE_ENUM:
                return write_scalar(out, type, bits_at(at, 0, (unsigned)type->size * 8, type->is_signed));
        case TYPE_FLOAT:
                return write_float(out, type, at);
        case TYPE_STRUCT:
                return write_struct(out, type, at);
        case TYPE_UNION:
                return outgoing_refuse(out,
                                       "%s is a union, which does not say what it holds, and cannot be sent: return "
                                       "the "
                                       "member that it holds",
                                       type->name);
        case TYPE_ARRAY:
                return convert_elements_out(out, type->inner[0], at, type->count);
        case TYPE_POINTER:
                return write_pointer(out, type, at);
        case TYPE_REFERENCE:
                memcpy(&to, at, sizeof(to));
                return convert_out(out, type->inner[0], to);
        default:
                return library_out(out, type, at);
        }
}

json_t *convert_out(struct outgoing *out, const struct type *type, const void *at)
{
        int is_deeper = type->kind != TYPE_POINTER && type->kind != TYPE_REFERENCE;
        json_t *value;

        if (out->depth > CONVERT_DEPTH_MAX)
                return outgoing_refuse(out, "values in values deeper than %d, or one that holds itself",
                                       CONVERT_DEPTH_MAX);
        out->depth += is_deeper;
        value = write_any(out, type, at);
        out->depth -= is_deeper;
        return value;
}
