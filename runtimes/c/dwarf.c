#include "types.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TYPES_BUCKETS 256
#define NAME_BYTES 600
#define NESTING_MAX 100 /* types in types, of hostile debug information too */

struct known {
        Dwarf_Off offset;
        struct type *type;
        struct known *next;
};

struct program {
        Dwarf *dwarf;
        uintptr_t bias;
        struct function *functions;
        size_t function_count, function_room;
        struct known *types[TYPES_BUCKETS];
        int nesting;
};

static void *get(size_t size)
{
        void *memory = calloc(1, size ? size : 1);

        if (!memory)
                abort();
        return memory;
}

static char *format(const char *text, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *text, ...)
{
        va_list list;
        char *made;

        va_start(list, text);
        if (vasprintf(&made, text, list) < 0)
                abort();
        va_end(list);
        return made;
}

/* -- looking into the debug information ----------------------------------------------------------------------- */

static int flag(Dwarf_Die *die, unsigned name)
{
        Dwarf_Attribute attribute;
        bool set = false;

        return dwarf_attr_integrate(die, name, &attribute) && dwarf_formflag(&attribute, &set) == 0 && set;
}

static int number(Dwarf_Die *die, unsigned name, uint64_t *ret)
{
        Dwarf_Attribute attribute;
        Dwarf_Word value;

        if (!dwarf_attr_integrate(die, name, &attribute) || dwarf_formudata(&attribute, &value) < 0)
                return 0;
        *ret = value;
        return 1;
}

static int reference(Dwarf_Die *die, unsigned name, Dwarf_Die *ret)
{
        Dwarf_Attribute attribute;

        return dwarf_attr_integrate(die, name, &attribute) && dwarf_formref_die(&attribute, ret);
}

/* Calls visit for each child until it returns something else than 0. */
static int each_child(Dwarf_Die *die, int (*visit)(Dwarf_Die *child, void *data), void *data)
{
        Dwarf_Die child;
        int r = dwarf_child(die, &child);

        while (r == 0) {
                int stopped = visit(&child, data);

                if (stopped)
                        return stopped;
                r = dwarf_siblingof(&child, &child);
        }
        return 0;
}

/* "a::b::" around die; *ret_hidden: in an unnamed namespace. Inline namespaces are left out. */
static char *scope_of(Dwarf_Die *die, int *ret_hidden)
{
        Dwarf_Die *scopes = NULL;
        int count = dwarf_getscopes_die(die, &scopes);
        char *text = format("%s", "");

        *ret_hidden = 0;
        for (int i = 1; i < count; i++) {
                int tag = dwarf_tag(&scopes[i]);
                const char *name = dwarf_diename(&scopes[i]);
                char *longer;

                if (tag != DW_TAG_namespace && tag != DW_TAG_class_type && tag != DW_TAG_structure_type && tag != DW_TAG_union_type)
                        continue;
                *ret_hidden |= !name;
                if (!name || flag(&scopes[i], DW_AT_export_symbols))
                        continue;
                longer = format("%s::%s", name, text);
                free(text);
                text = longer;
        }
        free(scopes);
        return text;
}

static int is_cpp(Dwarf_Die *die)
{
        Dwarf_Die unit;

        switch (dwarf_diecu(die, &unit, NULL, NULL) ? dwarf_srclang(&unit) : 0) {
        case DW_LANG_C_plus_plus:
        case DW_LANG_C_plus_plus_03:
        case DW_LANG_C_plus_plus_11:
        case DW_LANG_C_plus_plus_14:
                return 1;
        default:
                return 0;
        }
}

static char *spell(Dwarf_Die *die, const char *inside, int nesting);

static char *spell_target(Dwarf_Die *die, const char *inside, int nesting)
{
        Dwarf_Die target;

        if (nesting > NESTING_MAX)
                return format("...%s", inside);
        if (!reference(die, DW_AT_type, &target))
                return format("void%s%s", *inside ? " " : "", inside);
        return spell(&target, inside, nesting + 1);
}

static int append_parameter(Dwarf_Die *child, void *data)
{
        char **text = data, *longer, *type;

        if (dwarf_tag(child) != DW_TAG_formal_parameter)
                return 0;
        type = spell_target(child, "", 1);
        longer = format("%s%s%s", *text, **text ? ", " : "", type);
        free(*text);
        free(type);
        *text = longer;
        return 0;
}

static int first_bound(Dwarf_Die *child, void *data)
{
        uint64_t bound, *count = data;

        if (dwarf_tag(child) != DW_TAG_subrange_type)
                return 0;
        if (number(child, DW_AT_upper_bound, &bound))
                *count = bound + 1;
        else
                number(child, DW_AT_count, count);
        return 1;
}

/* What people call std::string, and no allocators. */
static char *plain_name(const char *name)
{
        static const struct {
                const char *long_form, *short_form;
        } rows[] = {{"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"},
                    {"basic_string<char, std::char_traits<char>, std::allocator<char> >", "string"},
                    {"basic_string_view<char, std::char_traits<char> >", "string_view"}};
        char *made = format("%s", name ? name : "(unnamed)"), *at, *end;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                while ((at = strstr(made, rows[i].long_form))) {
                        memcpy(at, rows[i].short_form, strlen(rows[i].short_form));
                        memmove(at + strlen(rows[i].short_form), at + strlen(rows[i].long_form), strlen(at + strlen(rows[i].long_form)) + 1);
                }
        while ((at = strstr(made, ", std::allocator<"))) {
                int depth = 0;

                for (end = at; *end && !(*end == '>' && --depth == 0); end++)
                        depth += *end == '<';
                end += *end == '>';
                memmove(at, end + (*end == ' '), strlen(end + (*end == ' ')) + 1);
        }
        return made;
}

/* A type as it stands in C around inside, the declarator: "int (*)[3]". */
static char *spell(Dwarf_Die *die, const char *inside, int nesting)
{
        int tag = dwarf_tag(die), hidden;
        char *text, *made, *scope, *name;
        uint64_t count = 0;
        Dwarf_Die target;

        switch (tag) {
        case DW_TAG_pointer_type:
        case DW_TAG_reference_type:
        case DW_TAG_rvalue_reference_type: {
                int around = reference(die, DW_AT_type, &target) &&
                             (dwarf_tag(&target) == DW_TAG_array_type || dwarf_tag(&target) == DW_TAG_subroutine_type);

                text = format("%s%s%s%s", around ? "(" : "",
                              tag == DW_TAG_pointer_type ? "*" : tag == DW_TAG_reference_type ? "&" : "&&", inside, around ? ")" : "");
                break;
        }
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
        case DW_TAG_atomic_type: {
                const char *word = tag == DW_TAG_const_type ? "const" : tag == DW_TAG_volatile_type ? "volatile" :
                                   tag == DW_TAG_restrict_type ? "restrict" : "_Atomic";

                if (reference(die, DW_AT_type, &target) && dwarf_tag(&target) == DW_TAG_pointer_type) {
                        text = format("%s%s%s", word, *inside ? " " : "", inside);
                        break;
                }
                made = spell_target(die, inside, nesting);
                text = format("%s %s", word, made);
                free(made);
                return text;
        }
        case DW_TAG_array_type:
                each_child(die, first_bound, &count);
                text = count ? format("%s[%llu]", inside, (unsigned long long)count) : format("%s[]", inside);
                break;
        case DW_TAG_subroutine_type:
                made = format("%s", "");
                each_child(die, append_parameter, &made);
                text = format("%s(%s)", inside, made);
                free(made);
                break;
        default:
                scope = scope_of(die, &hidden);
                name = plain_name(dwarf_diename(die));
                text = format("%s%s%s%s%s",
                              is_cpp(die) ? "" :
                              tag == DW_TAG_structure_type ? "struct " : tag == DW_TAG_union_type ? "union " :
                              tag == DW_TAG_enumeration_type ? "enum " : "",
                              scope, name,
                              *inside && *inside != '[' && (*inside != '(' || inside[1] == '*' || inside[1] == '&') ? " " : "", inside);
                free(scope);
                free(name);
                return text;
        }
        made = spell_target(die, text, nesting);
        free(text);
        return made;
}

/* -- types ---------------------------------------------------------------------------------------------------- */

static struct type *type_of(struct program *p, Dwarf_Die *holder);
static struct type *read_type(struct program *p, Dwarf_Die *die);

static void refuse(struct type *type, const char *why)
{
        type->kind = TYPE_REFUSED;
        type->why = why;
}

static void read_base(struct type *type, Dwarf_Die *die)
{
        uint64_t encoding = 0;
        const char *name = dwarf_diename(die);

        number(die, DW_AT_encoding, &encoding);
        type->align = type->size;
        switch (encoding) {
        case DW_ATE_boolean:
                type->kind = TYPE_BOOL;
                break;
        case DW_ATE_float:
                type->kind = TYPE_FLOAT;
                /* Only what the agent's own compiler computes with. */
                if (type->size != sizeof(float) && type->size != sizeof(double) &&
                    (type->size != sizeof(long double) || (name && strcmp(name, "long double") != 0)))
                        refuse(type, "a floating type that is none of float, double and long double");
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
                refuse(type, "a complex number");
                break;
        default:
                refuse(type, "a type of a kind that values do not have");
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
        type->enumerators = realloc(type->enumerators, (type->enumerator_count + 1) * sizeof(*type->enumerators));
        if (!type->enumerators)
                abort();
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
        if (reference(die, DW_AT_type, &under))
                type->is_signed = type_of(p, die)->is_signed;
        else
                type->is_signed = each_child(die, is_negative, NULL) != 0;
        each_child(die, add_enumerator, type);
}

static struct member *add_member(struct type *type)
{
        type->members = realloc(type->members, (type->member_count + 1) * sizeof(*type->members));
        if (!type->members)
                abort();
        type->members[type->member_count] = (struct member){0};
        return &type->members[type->member_count++];
}

static void add_inner(struct type *type, struct type *inner)
{
        type->inner = realloc(type->inner, (type->inner_count + 1) * sizeof(*type->inner));
        if (!type->inner)
                abort();
        type->inner[type->inner_count++] = inner;
}

static void grow_align(struct type *type, size_t align)
{
        if (align > type->align)
                type->align = align;
}

/* The members of an unnamed struct or union, and of a base class, are its own. */
static void take_members(struct type *type, const struct type *from, size_t offset)
{
        for (size_t i = 0; i < from->member_count; i++) {
                struct member *m = add_member(type);

                *m = from->members[i];
                m->offset += offset;
        }
        grow_align(type, from->align);
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

        number(die, DW_AT_data_member_location, &offset);
        return offset;
}

static int is_private(const struct reading *r, Dwarf_Die *child)
{
        uint64_t access;

        if (number(child, DW_AT_accessibility, &access))
                return access != DW_ACCESS_public;
        return r->is_class;
}

static void read_bit_field(struct member *m, Dwarf_Die *child)
{
        uint64_t size, offset, storage = m->type->size;

        if (!number(child, DW_AT_bit_size, &size))
                return;
        m->bit_size = (unsigned)size;
        if (number(child, DW_AT_data_bit_offset, &offset)) {
                m->offset = offset / 8;
                m->bit_offset = (unsigned)(offset % 8);
        } else if (number(child, DW_AT_bit_offset, &offset)) { /* DWARF 3, counted from the other end */
                number(child, DW_AT_byte_size, &storage);
                offset = m->offset * 8 + storage * 8 - offset - size;
                m->offset = offset / 8;
                m->bit_offset = (unsigned)(offset % 8);
        }
}

static void read_member(struct reading *r, Dwarf_Die *child)
{
        struct type *inner;
        struct member *m;

        if (flag(child, DW_AT_external) || flag(child, DW_AT_declaration)) /* a static member */
                return;
        inner = type_of(r->p, child);
        r->type->by_reference |= inner->by_reference;
        if (flag(child, DW_AT_artificial)) { /* the table of virtual functions */
                r->type->is_made_by_itself = r->type->by_reference = 1;
                grow_align(r->type, sizeof(void *));
                return;
        }
        if (!dwarf_diename(child) && inner->kind == TYPE_STRUCT) {
                take_members(r->type, inner, location(child));
                return;
        }
        if (is_private(r, child) && r->type->kind != TYPE_REFUSED)
                refuse(r->type, "a class with members that are not public");
        m = add_member(r->type);
        m->name = dwarf_diename(child);
        m->type = inner;
        m->offset = location(child);
        read_bit_field(m, child);
        grow_align(r->type, inner->align);
        if (inner->kind == TYPE_REFERENCE)
                r->type->is_made_by_itself = 1;
}

static int is_own_type(Dwarf_Die *class, Dwarf_Die *parameter)
{
        Dwarf_Die type, peeled;

        if (!reference(parameter, DW_AT_type, &type) ||
            (dwarf_tag(&type) != DW_TAG_reference_type && dwarf_tag(&type) != DW_TAG_rvalue_reference_type) ||
            !reference(&type, DW_AT_type, &type) || dwarf_peel_type(&type, &peeled) != 0)
                return 0;
        return dwarf_dieoffset(&peeled) == dwarf_dieoffset(class);
}

struct shape {
        Dwarf_Die *class;
        int given;  /* parameters, without the object */
        int copies;
};

static int see_parameter(Dwarf_Die *child, void *data)
{
        struct shape *shape = data;

        if (dwarf_tag(child) != DW_TAG_formal_parameter || flag(child, DW_AT_artificial))
                return 0;
        shape->copies |= shape->given++ == 0 && is_own_type(shape->class, child);
        return 0;
}

static void read_special(struct reading *r, Dwarf_Die *class, Dwarf_Die *child)
{
        const char *name = dwarf_diename(child), *own = dwarf_diename(class);
        struct shape shape = {.class = class};
        uint64_t defaulted = 0;
        int is_deleted = flag(child, DW_AT_deleted);
        size_t plain;

        if (!name || !own)
                return;
        number(child, DW_AT_defaulted, &defaulted);
        if (*name == '~') {
                r->type->by_reference |= defaulted != DW_DEFAULTED_in_class && !flag(child, DW_AT_artificial);
                return;
        }
        plain = strcspn(own, "<");
        if (strncmp(name, own, plain) != 0 || (name[plain] && name[plain] != '<'))
                return;
        each_child(child, see_parameter, &shape);
        if (!shape.copies)
                return;
        r->copies++;
        r->deleted_copies += is_deleted;
        if (!is_deleted && defaulted != DW_DEFAULTED_in_class && !flag(child, DW_AT_artificial))
                r->type->by_reference = 1;
}

static void read_base_class(struct reading *r, Dwarf_Die *child)
{
        struct type *base = type_of(r->p, child);
        uint64_t virtuality = 0;

        number(child, DW_AT_virtuality, &virtuality);
        if (virtuality)
                refuse(r->type, "a class with a virtual base");
        else if (base->kind != TYPE_STRUCT && base->kind != TYPE_PAIR)
                refuse(r->type, base->why ? base->why : "a class with a base that values do not have");
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

/* Members, and how such an object is passed. */
static void read_members(struct program *p, struct type *type, Dwarf_Die *die)
{
        struct class_reading reading = {.r = {.p = p, .type = type, .is_class = dwarf_tag(die) == DW_TAG_class_type}, .class = die};

        type->align = 1;
        each_child(die, read_class_child, &reading);
        if (reading.r.copies && reading.r.copies == reading.r.deleted_copies)
                type->by_reference = 1;
}

/* -- the C++ library ------------------------------------------------------------------------------------------ */

struct arguments {
        struct program *p;
        struct type *type;
        uint64_t number; /* the last that is a number */
        const char *last_name;
        const char *names[4];
        size_t seen;
};

static int add_argument(Dwarf_Die *child, void *data)
{
        struct arguments *arguments = data;
        Dwarf_Die type;

        switch (dwarf_tag(child)) {
        case DW_TAG_template_type_parameter:
                if (arguments->seen < 4 && reference(child, DW_AT_type, &type))
                        arguments->names[arguments->seen] = dwarf_diename(&type);
                arguments->seen++;
                add_inner(arguments->type, type_of(arguments->p, child));
                break;
        case DW_TAG_template_value_parameter:
                number(child, DW_AT_const_value, &arguments->number);
                break;
        case DW_TAG_GNU_template_parameter_pack:
                each_child(child, add_argument, data);
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

static int starts(const char *text, const char *with)
{
        return text && strncmp(text, with, strlen(with)) == 0;
}

static void read_order(struct type *type, const struct library_class *row, const struct arguments *arguments)
{
        const char *order = row->own_order && row->own_order < 4 ? arguments->names[row->own_order] : NULL;

        if (!row->own_order)
                return;
        type->is_descending = starts(order, "greater<");
        type->is_ordered_otherwise = !starts(order, "less<") && !starts(order, "greater<") && !starts(order, "hash<");
}

static void read_library_class(struct program *p, struct type *type, Dwarf_Die *die, const struct library_class *row)
{
        struct arguments arguments = {.p = p, .type = type};

        each_child(die, add_argument, &arguments);
        type->kind = row->kind;
        type->by_reference = row->by_reference;
        type->align = sizeof(void *);
        read_order(type, row, &arguments);
        if (type->inner_count < row->inner || (type->size && type->size != row->size))
                refuse(type, "a class of the library with an allocator or deleter of its own");
        type->size = row->size;
        type->inner_count = row->inner < type->inner_count ? row->inner : type->inner_count;
}

static void read_choice(struct program *p, struct type *type, Dwarf_Die *die, enum type_kind kind)
{
        struct arguments arguments = {.p = p, .type = type};

        read_members(p, type, die); /* for how it is passed, and its alignment */
        type->kind = kind;
        type->why = NULL;
        type->member_count = 0;
        each_child(die, add_argument, &arguments);
        for (size_t i = 0; i < type->inner_count; i++)
                grow_align(type, type->inner[i]->align);
        if (type->inner_count == 0 || type->inner_count > 250)
                refuse(type, "a class of the library with too few or too many alternatives");
}

/* In a tuple each element is the one member of a base; the last comes first in memory. */
static void read_tuple(struct program *p, struct type *type, Dwarf_Die *die)
{
        read_members(p, type, die);
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

        read_members(p, type, die);
        each_child(die, add_argument, &arguments);
        type->kind = TYPE_ARRAY;
        type->count = arguments.number;
        if (type->inner_count != 1 || type->inner[0]->size * type->count > (type->size ? type->size : 1))
                refuse(type, "an array of the library of an unknown form");
}

/* LLVM's C++ library has the same names in an inline namespace of its own. */
static int is_of_other_library(Dwarf_Die *die)
{
        Dwarf_Die *scopes = NULL;
        int count = dwarf_getscopes_die(die, &scopes), other = 0;

        for (int i = 1; i < count; i++)
                other |= dwarf_tag(&scopes[i]) == DW_TAG_namespace && starts(dwarf_diename(&scopes[i]), "__1");
        free(scopes);
        return other;
}

/* 1 when die is a class of namespace std that values have. */
static int read_std(struct program *p, struct type *type, Dwarf_Die *die)
{
        const char *name = dwarf_diename(die);
        int hidden, is_std;
        char *scope;

        if (!is_cpp(die) || !name || !strchr(name, '<'))
                return 0;
        scope = scope_of(die, &hidden);
        is_std = strcmp(scope, "std::") == 0;
        free(scope);
        if (!is_std)
                return 0;
        if (is_of_other_library(die)) {
                refuse(type, "a class of another C++ library than GNU's");
                return 1;
        }
        for (size_t i = 0; i < sizeof(library_classes) / sizeof(library_classes[0]); i++)
                if (starts(name, library_classes[i].prefix)) {
                        read_library_class(p, type, die, &library_classes[i]);
                        return 1;
                }
        if (starts(name, "pair<")) {
                read_members(p, type, die);
                type->kind = TYPE_PAIR;
        } else if (starts(name, "tuple<")) {
                read_tuple(p, type, die);
        } else if (starts(name, "array<")) {
                read_array_class(p, type, die);
        } else if (starts(name, "optional<")) {
                read_choice(p, type, die, TYPE_OPTIONAL);
        } else if (starts(name, "variant<")) {
                read_choice(p, type, die, TYPE_VARIANT);
        } else {
                /* What the above are made of has names of its own, and members that are not public. */
                read_members(p, type, die);
                type->kind = type->why ? TYPE_REFUSED : TYPE_STRUCT;
                if (*name != '_')
                        refuse(type, "a class of the library that values do not have");
                else if (starts(name, "_Head_base<") && strstr(name, ", true>"))
                        refuse(type, "a tuple with an element that is an empty class");
        }
        return 1;
}

/* -- every type ----------------------------------------------------------------------------------------------- */

struct search {
        const char *name;
        char *scope;
        int tag;
        Dwarf_Die found;
};

static int find_definition(Dwarf_Die *die, void *data)
{
        struct search *search = data;
        int tag = dwarf_tag(die), hidden, same;
        const char *name = dwarf_diename(die);
        char *scope;

        if (tag == DW_TAG_namespace)
                return each_child(die, find_definition, data);
        if ((tag != DW_TAG_structure_type && tag != DW_TAG_class_type && tag != DW_TAG_union_type && tag != DW_TAG_enumeration_type) ||
            !name || strcmp(name, search->name) != 0 || flag(die, DW_AT_declaration))
                return 0;
        scope = scope_of(die, &hidden);
        same = strcmp(scope, search->scope) == 0;
        free(scope);
        if (same)
                search->found = *die;
        return same;
}

/* The definition of a type that this source only declares, from another one. */
static int find_elsewhere(struct program *p, Dwarf_Die *die)
{
        int hidden, found = 0;
        struct search search = {.name = dwarf_diename(die)};
        Dwarf_CU *unit = NULL;
        Dwarf_Die top;

        if (!search.name)
                return 0;
        search.scope = scope_of(die, &hidden);
        while (!found && dwarf_get_units(p->dwarf, unit, &unit, NULL, NULL, &top, NULL) == 0)
                found = each_child(&top, find_definition, &search);
        free(search.scope);
        if (found)
                *die = search.found;
        return found;
}

static void read_class(struct program *p, struct type *type, Dwarf_Die *die)
{
        uint64_t size;

        if (flag(die, DW_AT_declaration) && !find_elsewhere(p, die)) {
                /* Strings are the same everywhere, and never defined in debug information that has no need to. */
                if (!read_std(p, type, die) || (type->kind != TYPE_STRING && type->kind != TYPE_STRING_VIEW))
                        refuse(type, "a type that is declared but not defined");
                return;
        }
        if (number(die, DW_AT_byte_size, &size))
                type->size = size;
        if (read_std(p, type, die))
                return;
        type->kind = dwarf_tag(die) == DW_TAG_union_type ? TYPE_UNION : TYPE_STRUCT;
        read_members(p, type, die);
        if (!is_cpp(die) && dwarf_diename(die) && strcmp(dwarf_diename(die), "_IO_FILE") == 0)
                refuse(type, "a FILE");
}

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
        if (number(child, DW_AT_upper_bound, &bound))
                count = bound + 1;
        else
                number(child, DW_AT_count, &count);
        if (d->count == 8 || count > UINT32_MAX)
                d->open = 1;
        else
                d->counts[d->count++] = count;
        return 0;
}

static void read_array(struct program *p, struct type *type, Dwarf_Die *die)
{
        struct dimensions d = {0};
        struct type *element = type_of(p, die);

        each_child(die, add_dimension, &d);
        if (flag(die, DW_AT_GNU_vector)) {
                refuse(type, "a vector register");
                return;
        }
        if (d.open || d.count == 0) {
                refuse(type, "an array whose length the type does not say");
                return;
        }
        for (size_t i = d.count; i-- > 0;) {
                struct type *array = i == 0 ? type : get(sizeof(*array));

                array->kind = TYPE_ARRAY;
                array->name = type->name;
                array->count = d.counts[i];
                array->size = element->size * array->count;
                array->align = element->align;
                array->by_reference = element->by_reference;
                add_inner(array, element);
                element = array;
        }
}

static void read_pointer(struct program *p, struct type *type, Dwarf_Die *die)
{
        Dwarf_Die target;
        struct type *inner;

        type->kind = dwarf_tag(die) == DW_TAG_pointer_type ? TYPE_POINTER : TYPE_REFERENCE;
        type->size = type->align = sizeof(void *);
        if (reference(die, DW_AT_type, &target))
                while (dwarf_tag(&target) == DW_TAG_const_type || dwarf_tag(&target) == DW_TAG_typedef ||
                       dwarf_tag(&target) == DW_TAG_volatile_type) {
                        type->target_constant |= dwarf_tag(&target) == DW_TAG_const_type;
                        if (!reference(&target, DW_AT_type, &target))
                                break;
                }
        inner = type_of(p, die);
        add_inner(type, inner);
}

static void read_into(struct program *p, struct type *type, Dwarf_Die *die)
{
        uint64_t size;

        if (number(die, DW_AT_byte_size, &size))
                type->size = size;
        switch (dwarf_tag(die)) {
        case DW_TAG_base_type:
                read_base(type, die);
                break;
        case DW_TAG_enumeration_type:
                if (flag(die, DW_AT_declaration) && find_elsewhere(p, die) && number(die, DW_AT_byte_size, &size))
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
                refuse(type, "a function");
                break;
        case DW_TAG_unspecified_type:
                refuse(type, "nullptr_t");
                break;
        case DW_TAG_ptr_to_member_type:
                refuse(type, "a pointer to a member");
                break;
        default:
                refuse(type, "a type of a kind that values do not have");
        }
}

/* Types may hold pointers to themselves: a type is known before it is read. */
static struct type *read_type(struct program *p, Dwarf_Die *die)
{
        Dwarf_Off offset = dwarf_dieoffset(die);
        struct known **bucket = &p->types[offset % TYPES_BUCKETS], *known;

        for (known = *bucket; known; known = known->next)
                if (known->offset == offset)
                        return known->type;
        known = get(sizeof(*known));
        *known = (struct known){offset, get(sizeof(*known->type)), *bucket};
        *bucket = known;
        known->type->name = spell(die, "", 0);
        if (p->nesting++ < NESTING_MAX)
                read_into(p, known->type, die);
        else
                refuse(known->type, "a type nested too deeply");
        p->nesting--;
        return known->type;
}

/* The type that DW_AT_type of holder names, behind typedefs and qualifiers. */
static struct type *type_of(struct program *p, Dwarf_Die *holder)
{
        static struct type nothing = {.kind = TYPE_VOID, .name = "void", .align = 1};
        Dwarf_Die die;
        int tag;

        if (!reference(holder, DW_AT_type, &die))
                return &nothing;
        for (int i = 0; i < NESTING_MAX; i++) {
                tag = dwarf_tag(&die);
                if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type && tag != DW_TAG_restrict_type &&
                    tag != DW_TAG_atomic_type)
                        return read_type(p, &die);
                if (!reference(&die, DW_AT_type, &die))
                        return &nothing;
        }
        return &nothing;
}

/* -- functions ------------------------------------------------------------------------------------------------ */

struct prototype {
        struct program *p;
        struct function *f;
        char *text;
};

static int add_parameter(Dwarf_Die *child, void *data)
{
        struct prototype *made = data;
        struct function *f = made->f;
        char *longer, *spelled;
        const char *name;

        if (dwarf_tag(child) == DW_TAG_unspecified_parameters) {
                f->is_variadic = 1;
                spelled = format("...");
        } else if (dwarf_tag(child) == DW_TAG_formal_parameter && !flag(child, DW_AT_artificial)) {
                f->parameters = realloc(f->parameters, (f->parameter_count + 1) * sizeof(*f->parameters));
                if (!f->parameters)
                        abort();
                name = dwarf_diename(child);
                f->parameters[f->parameter_count++] = (struct parameter){name, type_of(made->p, child)};
                spelled = spell_target(child, name ? name : "", 0);
        } else {
                return 0;
        }
        longer = format("%s%s%s", made->text, *made->text ? ", " : "", spelled);
        free(made->text);
        free(spelled);
        made->text = longer;
        return 0;
}

static int is_parameter(Dwarf_Die *child, void *data)
{
        (void)data;
        return dwarf_tag(child) == DW_TAG_formal_parameter || dwarf_tag(child) == DW_TAG_unspecified_parameters;
}

void program_read_function(struct program *p, struct function *f)
{
        struct prototype made = {.p = p, .f = f};
        Dwarf_Die die, origin;
        char *declarator;

        if (f->was_read || !dwarf_offdie(p->dwarf, f->die, &die))
                return;
        f->was_read = 1;
        /* An optimised copy keeps what it uses only: the declaration has all. */
        if (reference(&die, DW_AT_abstract_origin, &origin))
                die = origin;
        if (!each_child(&die, is_parameter, NULL) && reference(&die, DW_AT_specification, &origin))
                die = origin;
        made.text = format("%s", "");
        each_child(&die, add_parameter, &made);
        f->result = type_of(p, &die);
        declarator = format("%s(%s)", f->name, *made.text ? made.text : is_cpp(&die) ? "" : "void");
        f->prototype = spell_target(&die, declarator, 0);
        free(made.text);
        free(declarator);
}

static int is_artificial_first(Dwarf_Die *child, void *data)
{
        (void)data;
        return dwarf_tag(child) == DW_TAG_formal_parameter ? (flag(child, DW_AT_artificial) ? 1 : -1) : 0;
}

static int visit_function(Dwarf_Die *die, void *data);

static int needs_object(Dwarf_Die *die)
{
        Dwarf_Die object;

        return reference(die, DW_AT_object_pointer, &object) || each_child(die, is_artificial_first, NULL) == 1;
}

static void add_function(struct program *p, Dwarf_Die *die)
{
        Dwarf_Die origin = *die, next;
        const char *name = dwarf_diename(die), *file = dwarf_decl_file(die);
        struct function *f;
        Dwarf_Addr address;
        int hidden;
        char *scope;

        /* Of the user's own: neither the image's headers nor the compiler's. */
        if (!name || dwarf_entrypc(die, &address) != 0 || !file || starts(file, "/usr/") || *file == '<')
                return;
        if (address == 0) /* another unit's copy is the one that was kept */
                return;
        while (reference(&origin, DW_AT_abstract_origin, &next) || reference(&origin, DW_AT_specification, &next)) {
                if (dwarf_dieoffset(&next) == dwarf_dieoffset(&origin))
                        break;
                origin = next;
        }
        if (p->function_count == p->function_room) {
                p->function_room = p->function_room ? p->function_room * 2 : 32;
                p->functions = realloc(p->functions, p->function_room * sizeof(*p->functions));
                if (!p->functions)
                        abort();
        }
        scope = scope_of(&origin, &hidden);
        f = &p->functions[p->function_count++];
        *f = (struct function){
                .name = format("%s%s", scope, name),
                .address = (void *)(p->bias + address), /* NOLINT: where the loader put it */
                .is_public = flag(die, DW_AT_external) && !hidden && *name != '_' && !strchr(name, '<') && !strchr(name, '~') &&
                             !starts(name, "operator") && !strchr(scope, '<'),
                .needs_object = needs_object(die),
                .die = dwarf_dieoffset(die),
        };
        free(scope);
}

static int visit_function(Dwarf_Die *die, void *data)
{
        switch (dwarf_tag(die)) {
        case DW_TAG_subprogram:
                if (!flag(die, DW_AT_declaration) || dwarf_hasattr(die, DW_AT_low_pc) || dwarf_hasattr(die, DW_AT_ranges))
                        add_function(data, die);
                return 0;
        case DW_TAG_namespace:
                return each_child(die, visit_function, data);
        default:
                return 0;
        }
}

struct function *program_functions(struct program *p, size_t *ret_count)
{
        *ret_count = p->function_count;
        return p->functions;
}

/* Private: libelf may write into what it was given. No descriptor stays open, as a template must have none. */
static char *map_file(const char *path, size_t *ret_size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        void *image = MAP_FAILED;

        if (fd < 0)
                return NULL;
        if (fstat(fd, &st) == 0)
                image = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        close(fd);
        *ret_size = (size_t)st.st_size;
        return image == MAP_FAILED ? NULL : image;
}

struct program *program_read(const char *path, uintptr_t bias, char *ret_why, size_t why_size)
{
        struct program *p = get(sizeof(*p));
        Dwarf_CU *unit = NULL;
        Dwarf_Die top;
        size_t size;
        char *image = map_file(path, &size);
        Elf *elf = NULL;

        elf_version(EV_CURRENT);
        if (image)
                elf = elf_memory(image, size);
        p->bias = bias;
        p->dwarf = elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
        /* Code without a function, of templates that are used nowhere say, has none. */
        if (elf && !p->dwarf && elf_kind(elf) == ELF_K_ELF)
                return p;
        if (!p->dwarf) {
                snprintf(ret_why, why_size, "cannot read the debug information: %s",
                         !image ? strerror(errno) : !elf ? elf_errmsg(-1) : dwarf_errmsg(-1));
                free(p);
                return NULL;
        }
        while (dwarf_get_units(p->dwarf, unit, &unit, NULL, NULL, &top, NULL) == 0)
                each_child(&top, visit_function, p);
        return p;
}
