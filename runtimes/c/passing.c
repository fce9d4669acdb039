#include "passing.h"

#include <stdlib.h>
#include <string.h>

/* A larger value goes through memory, on x86-64 and aarch64 (except floats there). */
#define REGISTERS_BYTES 16
#define LEAVES_MAX 64

struct leaf {
        size_t offset, size;
        int is_float;
};

struct leaves {
        struct leaf leaf[LEAVES_MAX];
        size_t count;
        int is_odd; /* too many, or unaligned */
};

static void add(struct leaves *l, size_t offset, size_t size, int is_float)
{
        if (l->count == LEAVES_MAX || (size && offset % size))
                l->is_odd = 1;
        else
                l->leaf[l->count++] = (struct leaf){offset, size, is_float};
}

static void walk(struct leaves *l, const struct type *type, size_t offset);

static void walk_members(struct leaves *l, const struct type *type, size_t offset)
{
        for (size_t i = 0; i < type->member_count; i++) {
                const struct member *m = &type->members[i];

                if (m->bit_size)
                        for (size_t byte = 0; byte * 8 < m->bit_offset + m->bit_size; byte++)
                                add(l, offset + m->offset + byte, 1, 0);
                else
                        walk(l, m->type, offset + m->offset);
        }
}

static void walk(struct leaves *l, const struct type *type, size_t offset)
{
        switch (type->kind) {
        case TYPE_STRUCT:
        case TYPE_UNION:
        case TYPE_PAIR:
                walk_members(l, type, offset);
                break;
        case TYPE_ARRAY:
                for (size_t i = 0; i < type->count && l->count < LEAVES_MAX; i++)
                        walk(l, type->inner[0], offset + i * type->inner[0]->size);
                break;
        case TYPE_OPTIONAL:
                walk(l, type->inner[0], offset);
                add(l, offset + type->inner[0]->size, 1, 0);
                break;
        case TYPE_VARIANT: {
                size_t largest = 1;

                for (size_t i = 0; i < type->inner_count; i++) {
                        walk(l, type->inner[i], offset);
                        largest = type->inner[i]->size > largest ? type->inner[i]->size : largest;
                }
                add(l, offset + (largest + type->align - 1) / type->align * type->align, 1, 0);
                break;
        }
        case TYPE_DURATION:
        case TYPE_TIME:
                walk(l, type->inner[0], offset);
                break;
        case TYPE_STRING_VIEW:
                add(l, offset, 8, 0);
                add(l, offset + 8, 8, 0);
                break;
        case TYPE_FLOAT:
                add(l, offset, type->size, 1);
                break;
        case TYPE_VOID:
                break;
        default:
                add(l, offset, type->size, 0);
        }
}

static ffi_type *float_type(size_t size)
{
        return size == sizeof(float)    ? &ffi_type_float
               : size == sizeof(double) ? &ffi_type_double
                                        : &ffi_type_longdouble;
}

static ffi_type *aggregate(const struct type *type, ffi_type **elements, size_t count)
{
        ffi_type *made = calloc(1, sizeof(*made));

        elements[count] = NULL;
        *made = (ffi_type){
                .size = type->size,
                .alignment = (unsigned short)type->align,
                .type = FFI_TYPE_STRUCT,
                .elements = elements,
        };
        return made;
}

static int are_floats(const struct leaves *l)
{
        for (size_t i = 0; i < l->count; i++)
                if (!l->leaf[i].is_float || (i > 0 && l->leaf[i].offset < l->leaf[i - 1].offset + l->leaf[i - 1].size))
                        return 0;
        return 1;
}

/* Integer if anything in these eight bytes is; else one floating-point register. */
static size_t add_chunk(const struct leaves *l, const struct type *type, size_t begin, ffi_type **elements)
{
        size_t size = type->size - begin < 8 ? type->size - begin : 8, count = 0;
        int is_integer = 0, is_used = 0;

        for (size_t i = 0; i < l->count; i++)
                if (l->leaf[i].offset < begin + 8 && l->leaf[i].offset + l->leaf[i].size > begin) {
                        is_integer |= !l->leaf[i].is_float;
                        is_used = 1;
                }
        if (!is_integer && is_used)
                elements[count++] = size == 8 ? &ffi_type_double : &ffi_type_float;
        else
                while (count < size)
                        elements[count++] = &ffi_type_uint8;
        return count;
}

static ffi_type *aggregate_type(const struct type *type, int *ret_is_empty)
{
        struct leaves l = {0};
        ffi_type **elements;
        size_t count = 0;

        walk(&l, type, 0);
        *ret_is_empty = l.count == 0 && !l.is_odd;
        if (*ret_is_empty)
                return &ffi_type_void;
        elements = calloc(type->size + LEAVES_MAX + 1, sizeof(ffi_type *));
        if (!l.is_odd && are_floats(&l)) {
                for (; count < l.count; count++)
                        elements[count] = float_type(l.leaf[count].size);
                return aggregate(type, elements, count);
        }
        if (type->size > REGISTERS_BYTES) {
                while (count < type->size)
                        elements[count++] = &ffi_type_uint8;
                return aggregate(type, elements, count);
        }
        if (l.is_odd) {
                free(elements);
                return NULL;
        }
        for (size_t begin = 0; begin < type->size; begin += 8)
                count += add_chunk(&l, type, begin, elements + count);
        return aggregate(type, elements, count);
}

static ffi_type *integer_type(const struct type *type)
{
        static ffi_type *halves[] = {&ffi_type_uint64, &ffi_type_uint64, NULL};
        static ffi_type wide = {.size = 16, .alignment = 16, .type = FFI_TYPE_STRUCT, .elements = halves};

        switch (type->size) {
        case 1:
                return type->is_signed ? &ffi_type_sint8 : &ffi_type_uint8;
        case 2:
                return type->is_signed ? &ffi_type_sint16 : &ffi_type_uint16;
        case 4:
                return type->is_signed ? &ffi_type_sint32 : &ffi_type_uint32;
        case 8:
                return type->is_signed ? &ffi_type_sint64 : &ffi_type_uint64;
        case 16:
                return &wide;
        default:
                return NULL;
        }
}

ffi_type *passing_type(const struct type *type, int *ret_is_empty)
{
        *ret_is_empty = 0;
        if (type->by_reference)
                return &ffi_type_pointer;
        switch (type->kind) {
        case TYPE_REFUSED:
                return NULL;
        case TYPE_VOID:
                return &ffi_type_void;
        case TYPE_BOOL:
        case TYPE_CHAR:
        case TYPE_INTEGER:
        case TYPE_ENUM:
                return integer_type(type);
        case TYPE_FLOAT:
                return float_type(type->size);
        case TYPE_POINTER:
        case TYPE_REFERENCE:
                return &ffi_type_pointer;
        default:
                return aggregate_type(type, ret_is_empty);
        }
}
