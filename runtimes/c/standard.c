/* The classes of namespace std that have values, and their parts. */
#include "die.h"
#include "program.h"
#include "storage.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
        struct program *p;
        struct type *type;
        uint64_t number; /* the last one that is a number */
        const char *names[4];
        Dwarf_Die types[4];
        size_t seen;
};

static int add_argument(Dwarf_Die *child, void *data)
{
        struct arguments *arguments = data;
        Dwarf_Die type;

        switch (dwarf_tag(child)) {
        case DW_TAG_template_type_parameter:
                if (arguments->seen < 4 && die_reference(child, DW_AT_type, &type)) {
                        arguments->names[arguments->seen] = dwarf_diename(&type);
                        arguments->types[arguments->seen] = type;
                }
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

/* inner: number of relevant template arguments; own_order: index of the argument that is an order or a hash. */
static const struct library_class {
        const char *prefix;
        enum type_kind kind;
        size_t size; /* 0: from the debug information */
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
        {"multimap<", TYPE_MAP, 48, 2, 2, 1},
        {"multiset<", TYPE_SET, 48, 1, 1, 1},
        {"unordered_multimap<", TYPE_HASH_MAP, 56, 2, 2, 1},
        {"unordered_multiset<", TYPE_HASH_SET, 56, 1, 1, 1},
        {"unique_ptr<", TYPE_UNIQUE, 8, 1, 0, 1},
        {"shared_ptr<", TYPE_SHARED, 16, 1, 0, 1},
};

static void read_order(struct type *type, const struct library_class *row, const struct arguments *arguments)
{
        const char *order = row->own_order && row->own_order < 4 ? arguments->names[row->own_order] : NULL;

        if (!row->own_order)
                return;
        type->is_descending = die_starts(order, "greater<");
        type->is_ordered_otherwise =
                !die_starts(order, "less<") && !die_starts(order, "greater<") && !die_starts(order, "hash<");
}

static void read_library_class(struct program *p, struct type *type, Dwarf_Die *die, const struct library_class *row)
{
        struct arguments arguments = {.p = p, .type = type};

        die_each_child(die, add_argument, &arguments);
        type->kind = row->kind;
        type->by_reference = row->by_reference;
        type->align = sizeof(void *);
        type->is_multi = strstr(row->prefix, "multi") != NULL;
        read_order(type, row, &arguments);
        if (type->inner_count < row->inner || (type->size && type->size != row->size))
                types_refuse(type, "a class of the library with an allocator or deleter of its own");
        type->size = row->size;
        type->inner_count = row->inner < type->inner_count ? row->inner : type->inner_count;
}

static void read_choice(struct program *p, struct type *type, Dwarf_Die *die, enum type_kind kind,
                        struct arguments *arguments)
{
        classes_read_members(p, type, die); /* needed for how it is passed, and its alignment */
        type->kind = kind;
        type->why = NULL;
        type->member_count = 0;
        die_each_child(die, add_argument, arguments);
        for (size_t i = 0; i < type->inner_count; i++)
                types_grow_align(type, type->inner[i]->align);
        if (type->inner_count == 0 || type->inner_count > 250)
                types_refuse(type, "a class of the library with too few or too many alternatives");
}

/* Each element of a tuple is the one member of a base; the last comes first in memory. */
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

static const char other_library[] = "a class of another C++ library than GNU's";

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

struct ratio {
        uint64_t numbers[2];
        size_t seen;
};

static int read_ratio(Dwarf_Die *child, void *data)
{
        struct ratio *ratio = data;

        if (dwarf_tag(child) == DW_TAG_template_value_parameter && ratio->seen < 2)
                die_number(child, DW_AT_const_value, &ratio->numbers[ratio->seen++]);
        return 0;
}

static void read_duration(struct program *p, struct type *type, Dwarf_Die *die)
{
        struct arguments arguments = {.p = p, .type = type};
        struct ratio ratio = {0};
        Dwarf_Die peeled;

        read_choice(p, type, die, TYPE_DURATION, &arguments);
        if (arguments.seen == 2 && dwarf_peel_type(&arguments.types[1], &peeled) == 0)
                die_each_child(&peeled, read_ratio, &ratio);
        type->numerator = ratio.numbers[0];
        type->denominator = ratio.numbers[1];
        type->inner_count = 1;
        if (!type->numerator || !type->denominator ||
            (type->inner[0]->kind != TYPE_INTEGER && type->inner[0]->kind != TYPE_FLOAT) ||
            type->inner[0]->size != type->size)
                types_refuse(type, "a duration of another form than ticks of a ratio");
}

/* Other clocks have an epoch that is unknown outside of the process. */
static void read_time(struct program *p, struct type *type, Dwarf_Die *die)
{
        struct arguments arguments = {.p = p, .type = type};

        read_choice(p, type, die, TYPE_TIME, &arguments);
        if (type->inner_count < 2 || type->inner[1]->kind != TYPE_DURATION ||
            !die_starts(arguments.names[0], "system_clock")) {
                types_refuse(type, "a time of another clock than system_clock (give its time_since_epoch())");
                return;
        }
        type->inner[0] = type->inner[1];
        type->inner_count = 1;
}

struct parts {
        struct program *p;
        struct type *container; /* a member called c */
};

static int find_container(Dwarf_Die *child, void *data)
{
        struct parts *parts = data;
        const char *name = dwarf_diename(child);

        if (dwarf_tag(child) == DW_TAG_member && name && strcmp(name, "c") == 0)
                parts->container = types_of(parts->p, child);
        return 0;
}

/* A stack or a queue is encoded as its container, from its bottom or front on. */
static void read_adaptor(struct program *p, struct type *type, Dwarf_Die *die)
{
        struct parts parts = {.p = p};
        const char *name = type->name;
        size_t size = type->size;

        die_each_child(die, find_container, &parts);
        if (!parts.container || parts.container->size != size || parts.container->kind == TYPE_REFUSED) {
                types_refuse(type, "a stack or queue on something that values do not have");
                return;
        }
        *type = *parts.container;
        type->name = name;
}

/* Two adjacent numbers, whatever member holds them. */
static void read_complex(struct program *p, struct type *type, Dwarf_Die *die)
{
        struct arguments arguments = {.p = p, .type = type};
        const struct type *number;

        read_choice(p, type, die, TYPE_STRUCT, &arguments);
        number = type->inner_count ? type->inner[0] : NULL;
        if (!number || number->kind != TYPE_FLOAT || number->size * 2 != type->size) {
                types_refuse(type, "a complex number of another type than float, double and long double");
                return;
        }
        type->align = number->align;
        type->members = storage_grow(NULL, 2, sizeof(*type->members));
        type->member_count = 2;
        type->members[0] = (struct member){.name = "real", .type = type->inner[0]};
        type->members[1] = (struct member){.name = "imag", .type = type->inner[0], .offset = number->size};
}

static void read_path(struct program *p, struct type *type, Dwarf_Die *die)
{
        classes_read_members(p, type, die);
        type->kind = TYPE_FILE_PATH;
        type->why = NULL;
        type->member_count = 0;
        type->by_reference = 1;
        if (type->size != 40)
                types_refuse(type, "a path of an unknown form");
}

/* Classes outside of std:: itself, and classes that only combine others. */
static const struct {
        const char *scope, *prefix;
        void (*read)(struct program *p, struct type *type, Dwarf_Die *die);
} composed_classes[] = {
        {"std::", "complex<", read_complex},         {"std::", "stack<", read_adaptor},
        {"std::", "queue<", read_adaptor},           {"std::chrono::", "duration<", read_duration},
        {"std::chrono::", "time_point<", read_time}, {"std::filesystem::", "path", read_path},
};

static int read_composed(struct program *p, struct type *type, Dwarf_Die *die, const char *scope, const char *name)
{
        for (size_t i = 0; i < sizeof(composed_classes) / sizeof(composed_classes[0]); i++) {
                const char *prefix = composed_classes[i].prefix;

                if (strcmp(scope, composed_classes[i].scope) != 0 || !die_starts(name, prefix) ||
                    (!strchr(prefix, '<') && strcmp(name, prefix) != 0))
                        continue;
                if (is_of_other_library(die))
                        types_refuse(type, other_library);
                else
                        composed_classes[i].read(p, type, die);
                return 1;
        }
        return 0;
}

int standard_read(struct program *p, struct type *type, Dwarf_Die *die)
{
        const char *name = dwarf_diename(die);
        struct arguments arguments = {.p = p, .type = type};
        int hidden, is_std, is_composed;
        char *scope;

        if (!die_is_cpp(die) || !name)
                return 0;
        scope = die_scope(die, &hidden);
        is_std = strcmp(scope, "std::") == 0 && strchr(name, '<');
        is_composed = read_composed(p, type, die, scope, name);
        free(scope);
        if (is_composed || !is_std)
                return is_composed;
        if (is_of_other_library(die)) {
                types_refuse(type, other_library);
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
                read_choice(p, type, die, TYPE_OPTIONAL, &arguments);
        } else if (die_starts(name, "variant<")) {
                read_choice(p, type, die, TYPE_VARIANT, &arguments);
        } else {
                /* The parts of the above have internal names, and members that are not public. */
                classes_read_members(p, type, die);
                type->kind = type->why ? TYPE_REFUSED : TYPE_STRUCT;
                if (*name != '_')
                        types_refuse(type, "a class of the library that values do not have");
                else if (die_starts(name, "_Head_base<") && strstr(name, ", true>"))
                        types_refuse(type, "a tuple with an element that is an empty class");
        }
        return 1;
}
