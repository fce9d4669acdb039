/* Which classes of namespace std values have, and what they are made of. */
#include "program.h"
#include "die.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
        struct program *p;
        struct type *type;
        uint64_t number; /* the last that is a number */
        const char *names[4];
        size_t seen;
};

static int add_argument(Dwarf_Die *child, void *data)
{
        struct arguments *arguments = data;
        Dwarf_Die type;

        switch (dwarf_tag(child)) {
        case DW_TAG_template_type_parameter:
                if (arguments->seen < 4 && die_reference(child, DW_AT_type, &type))
                        arguments->names[arguments->seen] = dwarf_diename(&type);
                arguments->seen++;
                types_add_inner(arguments->type, types_of(arguments->p, child));
                break;
        case DW_TAG_template_value_parameter:
                die_number(child, DW_AT_const_value, &arguments->number);
                break;
        case DW_TAG_GNU_template_parameter_pack:
                die_each_child(child, add_argument, data);
                break;
        default:
                break;
        }
        return 0;
}

/* inner: how many of the template's arguments are of interest; own_order: which of them is an order or a hash. */
static const struct library_class {
        const char *prefix;
        enum type_kind kind;
        size_t size; /* 0: as the debug information says */
        size_t inner;
        size_t own_order;
        unsigned by_reference;
} library_classes[] = {
        {"basic_string<char,", TYPE_STRING, 32, 0, 0, 1},
        {"basic_string_view<char,", TYPE_STRING_VIEW, 16, 0, 0, 0},
        {"vector<bool,", TYPE_BITS, 40, 1, 0, 1},
        {"vector<", TYPE_VECTOR, 24, 1, 0, 1},
        {"list<", TYPE_LIST, 24, 1, 0, 1},
        {"deque<", TYPE_DEQUE, 80, 1, 0, 1},
        {"map<", TYPE_MAP, 48, 2, 2, 1},
        {"set<", TYPE_SET, 48, 1, 1, 1},
        {"unordered_map<", TYPE_HASH_MAP, 56, 2, 2, 1},
        {"unordered_set<", TYPE_HASH_SET, 56, 1, 1, 1},
        {"unique_ptr<", TYPE_UNIQUE, 8, 1, 0, 1},
        {"shared_ptr<", TYPE_SHARED, 16, 1, 0, 1},
};

static void read_order(struct type *type, const struct library_class *row, const struct arguments *arguments)
{
        const char *order = row->own_order && row->own_order < 4 ? arguments->names[row->own_order] : NULL;

        if (!row->own_order)
                return;
        type->is_descending = die_starts(order, "greater<");
        type->is_ordered_otherwise = !die_starts(order, "less<") && !die_starts(order, "greater<") && !die_starts(order, "hash<");
}

static void read_library_class(struct program *p, struct type *type, Dwarf_Die *die, const struct library_class *row)
{
        struct arguments arguments = {.p = p, .type = type};

        die_each_child(die, add_argument, &arguments);
        type->kind = row->kind;
        type->by_reference = row->by_reference;
        type->align = sizeof(void *);
        read_order(type, row, &arguments);
        if (type->inner_count < row->inner || (type->size && type->size != row->size))
                types_refuse(type, "a class of the library with an allocator or deleter of its own");
        type->size = row->size;
        type->inner_count = row->inner < type->inner_count ? row->inner : type->inner_count;
}

static void read_choice(struct program *p, struct type *type, Dwarf_Die *die, enum type_kind kind)
{
        struct arguments arguments = {.p = p, .type = type};

        classes_read_members(p, type, die); /* for how it is passed, and its alignment */
        type->kind = kind;
        type->why = NULL;
        type->member_count = 0;
        die_each_child(die, add_argument, &arguments);
        for (size_t i = 0; i < type->inner_count; i++)
                types_grow_align(type, type->inner[i]->align);
        if (type->inner_count == 0 || type->inner_count > 250)
                types_refuse(type, "a class of the library with too few or too many alternatives");
}

/* In a tuple each element is the one member of a base; the last comes first in memory. */
static void read_tuple(struct program *p, struct type *type, Dwarf_Die *die)
{
        classes_read_members(p, type, die);
        if (type->why)
                return;
        type->kind = TYPE_PAIR;
        for (size_t i = 0; i < type->member_count / 2; i++) {
                struct member swap = type->members[i];

                type->members[i] = type->members[type->member_count - 1 - i];
                type->members[type->member_count - 1 - i] = swap;
        }
}

static void read_array_class(struct program *p, struct type *type, Dwarf_Die *die)
{
        struct arguments arguments = {.p = p, .type = type};

        classes_read_members(p, type, die);
        die_each_child(die, add_argument, &arguments);
        type->kind = TYPE_ARRAY;
        type->count = arguments.number;
        if (type->inner_count != 1 || type->inner[0]->size * type->count > (type->size ? type->size : 1))
                types_refuse(type, "an array of the library of an unknown form");
}

/* LLVM's C++ library has the same names in an inline namespace of its own. */
static int is_of_other_library(Dwarf_Die *die)
{
        Dwarf_Die *scopes = NULL;
        int count = dwarf_getscopes_die(die, &scopes), other = 0;

        for (int i = 1; i < count; i++)
                other |= dwarf_tag(&scopes[i]) == DW_TAG_namespace && die_starts(dwarf_diename(&scopes[i]), "__1");
        free(scopes);
        return other;
}

int standard_read(struct program *p, struct type *type, Dwarf_Die *die)
{
        const char *name = dwarf_diename(die);
        int hidden, is_std;
        char *scope;

        if (!die_is_cpp(die) || !name || !strchr(name, '<'))
                return 0;
        scope = die_scope(die, &hidden);
        is_std = strcmp(scope, "std::") == 0;
        free(scope);
        if (!is_std)
                return 0;
        if (is_of_other_library(die)) {
                types_refuse(type, "a class of another C++ library than GNU's");
                return 1;
        }
        for (size_t i = 0; i < sizeof(library_classes) / sizeof(library_classes[0]); i++)
                if (die_starts(name, library_classes[i].prefix)) {
                        read_library_class(p, type, die, &library_classes[i]);
                        return 1;
                }
        if (die_starts(name, "pair<")) {
                classes_read_members(p, type, die);
                type->kind = TYPE_PAIR;
        } else if (die_starts(name, "tuple<")) {
                read_tuple(p, type, die);
        } else if (die_starts(name, "array<")) {
                read_array_class(p, type, die);
        } else if (die_starts(name, "optional<")) {
                read_choice(p, type, die, TYPE_OPTIONAL);
        } else if (die_starts(name, "variant<")) {
                read_choice(p, type, die, TYPE_VARIANT);
        } else {
                /* What the above are made of has names of its own, and members that are not public. */
                classes_read_members(p, type, die);
                type->kind = type->why ? TYPE_REFUSED : TYPE_STRUCT;
                if (*name != '_')
                        types_refuse(type, "a class of the library that values do not have");
                else if (die_starts(name, "_Head_base<") && strstr(name, ", true>"))
                        types_refuse(type, "a tuple with an element that is an empty class");
        }
        return 1;
}
