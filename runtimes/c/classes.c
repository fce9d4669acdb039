#include "die.h"
#include "program.h"
#include "storage.h"

#include <dwarf.h>
#include <string.h>

static struct member *add_member(struct type *type)
{
        type->members = storage_grow(type->members, type->member_count + 1, sizeof(*type->members));
        type->members[type->member_count] = (struct member){0};
        return &type->members[type->member_count++];
}

/* The members of an unnamed struct or union, and of a base class, are its own. */
static void take_members(struct type *type, const struct type *from, size_t offset)
{
        for (size_t i = 0; i < from->member_count; i++) {
                struct member *m = add_member(type);

                *m = from->members[i];
                m->offset += offset;
        }
        types_grow_align(type, from->align);
        type->by_reference |= from->by_reference;
        type->is_made_by_itself |= from->is_made_by_itself;
}

struct reading {
        struct program *p;
        struct type *type;
        int is_class;
        int copies, deleted_copies; /* constructors that copy or move, declared */
};

static uint64_t location(Dwarf_Die *die)
{
        uint64_t offset = 0;

        die_number(die, DW_AT_data_member_location, &offset);
        return offset;
}

static int is_private(const struct reading *r, Dwarf_Die *child)
{
        uint64_t access;

        if (die_number(child, DW_AT_accessibility, &access))
                return access != DW_ACCESS_public;
        return r->is_class;
}

static void read_bit_field(struct member *m, Dwarf_Die *child)
{
        uint64_t size, offset, storage = m->type->size;

        if (!die_number(child, DW_AT_bit_size, &size))
                return;
        m->bit_size = (unsigned)size;
        if (die_number(child, DW_AT_data_bit_offset, &offset)) {
                m->offset = offset / 8;
                m->bit_offset = (unsigned)(offset % 8);
        } else if (die_number(child, DW_AT_bit_offset, &offset)) { /* DWARF 3, counted from the other end */
                die_number(child, DW_AT_byte_size, &storage);
                offset = m->offset * 8 + storage * 8 - offset - size;
                m->offset = offset / 8;
                m->bit_offset = (unsigned)(offset % 8);
        }
}

static void read_member(struct reading *r, Dwarf_Die *child)
{
        struct type *inner;
        struct member *m;

        if (die_flag(child, DW_AT_external) || die_flag(child, DW_AT_declaration)) /* a static member */
                return;
        inner = types_of(r->p, child);
        r->type->by_reference |= inner->by_reference;
        if (die_flag(child, DW_AT_artificial)) { /* the table of virtual functions */
                r->type->is_made_by_itself = r->type->by_reference = 1;
                types_grow_align(r->type, sizeof(void *));
                return;
        }
        if (!dwarf_diename(child) && inner->kind == TYPE_STRUCT) {
                take_members(r->type, inner, location(child));
                return;
        }
        if (is_private(r, child) && r->type->kind != TYPE_REFUSED)
                types_refuse(r->type, "a class with members that are not public");
        m = add_member(r->type);
        m->name = dwarf_diename(child);
        m->type = inner;
        m->offset = location(child);
        read_bit_field(m, child);
        types_grow_align(r->type, inner->align);
        if (inner->kind == TYPE_REFERENCE)
                r->type->is_made_by_itself = 1;
}

static int is_own_type(Dwarf_Die *class, Dwarf_Die *parameter)
{
        Dwarf_Die type, peeled;

        if (!die_reference(parameter, DW_AT_type, &type) ||
            (dwarf_tag(&type) != DW_TAG_reference_type && dwarf_tag(&type) != DW_TAG_rvalue_reference_type) ||
            !die_reference(&type, DW_AT_type, &type) || dwarf_peel_type(&type, &peeled) != 0)
                return 0;
        return dwarf_dieoffset(&peeled) == dwarf_dieoffset(class);
}

struct shape {
        Dwarf_Die *class;
        int given; /* parameters, without the object */
        int copies;
};

static int see_parameter(Dwarf_Die *child, void *data)
{
        struct shape *shape = data;

        if (dwarf_tag(child) != DW_TAG_formal_parameter || die_flag(child, DW_AT_artificial))
                return 0;
        shape->copies |= shape->given++ == 0 && is_own_type(shape->class, child);
        return 0;
}

static void read_special(struct reading *r, Dwarf_Die *class, Dwarf_Die *child)
{
        const char *name = dwarf_diename(child), *own = dwarf_diename(class);
        struct shape shape = {.class = class};
        uint64_t defaulted = 0;
        int is_deleted = die_flag(child, DW_AT_deleted);
        size_t plain;

        if (!name || !own)
                return;
        die_number(child, DW_AT_defaulted, &defaulted);
        if (*name == '~') {
                r->type->by_reference |= defaulted != DW_DEFAULTED_in_class && !die_flag(child, DW_AT_artificial);
                return;
        }
        plain = strcspn(own, "<");
        if (strncmp(name, own, plain) != 0 || (name[plain] && name[plain] != '<'))
                return;
        die_each_child(child, see_parameter, &shape);
        if (!shape.copies)
                return;
        r->copies++;
        r->deleted_copies += is_deleted;
        if (!is_deleted && defaulted != DW_DEFAULTED_in_class && !die_flag(child, DW_AT_artificial))
                r->type->by_reference = 1;
}

static void read_base_class(struct reading *r, Dwarf_Die *child)
{
        struct type *base = types_of(r->p, child);
        uint64_t virtuality = 0;

        die_number(child, DW_AT_virtuality, &virtuality);
        if (virtuality)
                types_refuse(r->type, "a class with a virtual base");
        else if (base->kind != TYPE_STRUCT && base->kind != TYPE_PAIR)
                types_refuse(r->type, base->why ? base->why : "a class with a base that values do not have");
        take_members(r->type, base, location(child));
}

struct class_reading {
        struct reading r;
        Dwarf_Die *class;
};

static int read_class_child(Dwarf_Die *child, void *data)
{
        struct class_reading *reading = data;

        switch (dwarf_tag(child)) {
        case DW_TAG_member:
                read_member(&reading->r, child);
                break;
        case DW_TAG_inheritance:
                read_base_class(&reading->r, child);
                break;
        case DW_TAG_subprogram:
                read_special(&reading->r, reading->class, child);
                break;
        default:
                break;
        }
        return 0;
}

void classes_read_members(struct program *p, struct type *type, Dwarf_Die *die)
{
        struct class_reading reading = {
                .r = {.p = p, .type = type, .is_class = dwarf_tag(die) == DW_TAG_class_type},
                .class = die,
        };

        type->align = 1;
        die_each_child(die, read_class_child, &reading);
        if (reading.r.copies && reading.r.copies == reading.r.deleted_copies)
                type->by_reference = 1;
}
