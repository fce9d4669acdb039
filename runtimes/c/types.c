#include "die.h"
#include "program.h"
#include "spelling.h"
#include "storage.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

void types_refuse(struct type *type, const char *why)
{
        type->kind = TYPE_REFUSED;
        type->why = why;
}

/* -- numbers and enums ---------------------------------------------------------------------------------------- */

static void read_base(struct type *type, Dwarf_Die *die)
{
        uint64_t encoding = 0;
        const char *name = dwarf_diename(die);

        die_number(die, DW_AT_encoding, &encoding);
        type->align = type->size;
        switch (encoding) {
        case DW_ATE_boolean:
                type->kind = TYPE_BOOL;
                break;
        case DW_ATE_float:
                type->kind = TYPE_FLOAT;
                /* Only formats that the agent's own compiler computes with. */
                if (type->size != sizeof(float) && type->size != sizeof(double) &&
                    (type->size != sizeof(long double) || (name && strcmp(name, "long double") != 0)))
                        types_refuse(type, "a floating type that is none of float, double and long double");
                break;
        case DW_ATE_signed_char:
        case DW_ATE_unsigned_char:
                type->kind = name && strcmp(name, "char") == 0 ? TYPE_CHAR : TYPE_INTEGER;
                type->is_signed = encoding == DW_ATE_signed_char;
                type->is_byte = type->kind == TYPE_INTEGER && !type->is_signed;
                break;
        case DW_ATE_signed:
        case DW_ATE_unsigned:
        case DW_ATE_UTF:
                type->kind = TYPE_INTEGER;
                type->is_signed = encoding == DW_ATE_signed;
                break;
        case DW_ATE_complex_float:
                types_refuse(type, "a complex number");
                break;
        default:
                types_refuse(type, "a type of a kind that values do not have");
        }
}

static int add_enumerator(Dwarf_Die *child, void *data)
{
        struct type *type = data;
        Dwarf_Attribute attribute;
        Dwarf_Sword value = 0;
        Dwarf_Word bits;

        if (dwarf_tag(child) != DW_TAG_enumerator || !dwarf_attr(child, DW_AT_const_value, &attribute))
                return 0;
        if (type->is_signed)
                dwarf_formsdata(&attribute, &value);
        else if (dwarf_formudata(&attribute, &bits) == 0)
                value = (Dwarf_Sword)bits;
        type->enumerators = storage_grow(type->enumerators, type->enumerator_count + 1, sizeof(*type->enumerators));
        type->enumerators[type->enumerator_count++] = (struct enumerator){dwarf_diename(child), value};
        return 0;
}

static int is_negative(Dwarf_Die *child, void *data)
{
        Dwarf_Attribute attribute;
        Dwarf_Sword value;

        (void)data;
        return dwarf_tag(child) == DW_TAG_enumerator && dwarf_attr(child, DW_AT_const_value, &attribute) &&
               dwarf_whatform(&attribute) == DW_FORM_sdata && dwarf_formsdata(&attribute, &value) == 0 && value < 0;
}

static void read_enum(struct program *p, struct type *type, Dwarf_Die *die)
{
        Dwarf_Die under;

        type->kind = TYPE_ENUM;
        type->align = type->size;
        if (die_reference(die, DW_AT_type, &under))
                type->is_signed = types_of(p, die)->is_signed;
        else
                type->is_signed = die_each_child(die, is_negative, NULL) != 0;
        die_each_child(die, add_enumerator, type);
}

/* -- classes -------------------------------------------------------------------------------------------------- */

void types_add_inner(struct type *type, struct type *inner)
{
        type->inner = storage_grow(type->inner, type->inner_count + 1, sizeof(*type->inner));
        type->inner[type->inner_count++] = inner;
}

void types_grow_align(struct type *type, size_t align)
{
        if (align > type->align)
                type->align = align;
}

struct search {
        const char *name;
        char *scope;
        Dwarf_Die found;
};

static int find_definition(Dwarf_Die *die, void *data)
{
        struct search *search = data;
        int tag = dwarf_tag(die), hidden, same;
        const char *name = dwarf_diename(die);
        char *scope;

        if (tag == DW_TAG_namespace)
                return die_each_child(die, find_definition, data);
        if ((tag != DW_TAG_structure_type && tag != DW_TAG_class_type && tag != DW_TAG_union_type &&
             tag != DW_TAG_enumeration_type) ||
            !name || strcmp(name, search->name) != 0 || die_flag(die, DW_AT_declaration))
                return 0;
        scope = die_scope(die, &hidden);
        same = strcmp(scope, search->scope) == 0;
        free(scope);
        if (same)
                search->found = *die;
        return same;
}

/* Find the definition, in another source, of a type that this source only declares. */
static int find_elsewhere(struct program *p, Dwarf_Die *die)
{
        int hidden, found = 0;
        struct search search = {.name = dwarf_diename(die)};
        Dwarf_CU *unit = NULL;
        Dwarf_Die top;

        if (!search.name)
                return 0;
        search.scope = die_scope(die, &hidden);
        while (!found && dwarf_get_units(p->dwarf, unit, &unit, NULL, NULL, &top, NULL) == 0)
                found = die_each_child(&top, find_definition, &search);
        free(search.scope);
        if (found)
                *die = search.found;
        return found;
}

static void read_class(struct program *p, struct type *type, Dwarf_Die *die)
{
        uint64_t size;

        if (die_flag(die, DW_AT_declaration) && !find_elsewhere(p, die)) {
                /* Strings have the same layout everywhere, and debug information often lacks their definition. */
                if (!standard_read(p, type, die) || (type->kind != TYPE_STRING && type->kind != TYPE_STRING_VIEW))
                        types_refuse(type, "a type that is declared but not defined");
                return;
        }
        if (die_number(die, DW_AT_byte_size, &size))
                type->size = size;
        if (standard_read(p, type, die))
                return;
        type->kind = dwarf_tag(die) == DW_TAG_union_type ? TYPE_UNION : TYPE_STRUCT;
        classes_read_members(p, type, die);
        if (!die_is_cpp(die) && dwarf_diename(die) && strcmp(dwarf_diename(die), "_IO_FILE") == 0)
                types_refuse(type, "a FILE");
}

/* -- arrays and pointers -------------------------------------------------------------------------------------- */

struct dimensions {
        uint64_t counts[8];
        size_t count;
        int open;
};

static int add_dimension(Dwarf_Die *child, void *data)
{
        struct dimensions *d = data;
        uint64_t count = UINT64_MAX, bound;

        if (dwarf_tag(child) != DW_TAG_subrange_type)
                return 0;
        if (die_number(child, DW_AT_upper_bound, &bound))
                count = bound + 1;
        else
                die_number(child, DW_AT_count, &count);
        if (d->count == 8 || count > UINT32_MAX)
                d->open = 1;
        else
                d->counts[d->count++] = count;
        return 0;
}

static void read_array(struct program *p, struct type *type, Dwarf_Die *die)
{
        struct dimensions d = {0};
        struct type *element = types_of(p, die);

        die_each_child(die, add_dimension, &d);
        if (die_flag(die, DW_AT_GNU_vector)) {
                types_refuse(type, "a vector register");
                return;
        }
        if (d.open || d.count == 0) {
                types_refuse(type, "an array whose length the type does not say");
                return;
        }
        for (size_t i = d.count; i-- > 0;) {
                struct type *array = i == 0 ? type : storage_get(sizeof(*array));

                array->kind = TYPE_ARRAY;
                array->name = type->name;
                array->count = d.counts[i];
                array->size = element->size * array->count;
                array->align = element->align;
                array->by_reference = element->by_reference;
                types_add_inner(array, element);
                element = array;
        }
}

static void read_pointer(struct program *p, struct type *type, Dwarf_Die *die)
{
        Dwarf_Die target;
        struct type *inner;

        type->kind = dwarf_tag(die) == DW_TAG_pointer_type ? TYPE_POINTER : TYPE_REFERENCE;
        type->size = type->align = sizeof(void *);
        if (die_reference(die, DW_AT_type, &target))
                while (dwarf_tag(&target) == DW_TAG_const_type || dwarf_tag(&target) == DW_TAG_typedef ||
                       dwarf_tag(&target) == DW_TAG_volatile_type) {
                        type->target_constant |= dwarf_tag(&target) == DW_TAG_const_type;
                        if (!die_reference(&target, DW_AT_type, &target))
                                break;
                }
        inner = types_of(p, die);
        types_add_inner(type, inner);
}

/* -- any ------------------------------------------------------------------------------------------------------ */

static void read_into(struct program *p, struct type *type, Dwarf_Die *die)
{
        uint64_t size;

        if (die_number(die, DW_AT_byte_size, &size))
                type->size = size;
        switch (dwarf_tag(die)) {
        case DW_TAG_base_type:
                read_base(type, die);
                break;
        case DW_TAG_enumeration_type:
                if (die_flag(die, DW_AT_declaration) && find_elsewhere(p, die) &&
                    die_number(die, DW_AT_byte_size, &size))
                        type->size = size;
                read_enum(p, type, die);
                break;
        case DW_TAG_structure_type:
        case DW_TAG_class_type:
        case DW_TAG_union_type:
                read_class(p, type, die);
                break;
        case DW_TAG_array_type:
                read_array(p, type, die);
                break;
        case DW_TAG_pointer_type:
        case DW_TAG_reference_type:
        case DW_TAG_rvalue_reference_type:
                read_pointer(p, type, die);
                break;
        case DW_TAG_subroutine_type:
                types_refuse(type, "a function");
                break;
        case DW_TAG_unspecified_type:
                types_refuse(type, "nullptr_t");
                break;
        case DW_TAG_ptr_to_member_type:
                types_refuse(type, "a pointer to a member");
                break;
        default:
                types_refuse(type, "a type of a kind that values do not have");
        }
}

/* Types may hold pointers to themselves: a type is registered before it is read. */
static struct type *read_type(struct program *p, Dwarf_Die *die)
{
        Dwarf_Off offset = dwarf_dieoffset(die);
        struct known **bucket = &p->types[offset % TYPES_BUCKETS], *known;

        for (known = *bucket; known; known = known->next)
                if (known->offset == offset)
                        return known->type;
        known = storage_get(sizeof(*known));
        *known = (struct known){offset, storage_get(sizeof(*known->type)), *bucket};
        *bucket = known;
        known->type->name = spelling_of(die, "", 0);
        if (p->nesting++ < TYPES_NESTING_MAX)
                read_into(p, known->type, die);
        else
                types_refuse(known->type, "a type nested too deeply");
        p->nesting--;
        return known->type;
}

struct type *types_of(struct program *p, Dwarf_Die *holder)
{
        static struct type nothing = {.kind = TYPE_VOID, .name = "void", .align = 1};
        Dwarf_Die die;
        int tag;

        if (!die_reference(holder, DW_AT_type, &die))
                return &nothing;
        for (int i = 0; i < TYPES_NESTING_MAX; i++) {
                tag = dwarf_tag(&die);
                if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type &&
                    tag != DW_TAG_restrict_type && tag != DW_TAG_atomic_type)
                        return read_type(p, &die);
                if (!die_reference(&die, DW_AT_type, &die))
                        return &nothing;
        }
        return &nothing;
}
