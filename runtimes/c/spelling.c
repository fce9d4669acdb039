#include "spelling.h"
#include "die.h"
#include "storage.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

char *spelling_of_target(Dwarf_Die *die, const char *inside, int nesting)
{
        Dwarf_Die target;

        if (nesting > SPELLING_NESTING_MAX)
                return storage_text("...%s", inside);
        if (!die_reference(die, DW_AT_type, &target))
                return storage_text("void%s%s", *inside ? " " : "", inside);
        return spelling_of(&target, inside, nesting + 1);
}

static int append_parameter(Dwarf_Die *child, void *data)
{
        char **text = data, *longer, *type;

        if (dwarf_tag(child) != DW_TAG_formal_parameter)
                return 0;
        type = spelling_of_target(child, "", 1);
        longer = storage_text("%s%s%s", *text, **text ? ", " : "", type);
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
        if (die_number(child, DW_AT_upper_bound, &bound))
                *count = bound + 1;
        else
                die_number(child, DW_AT_count, count);
        return 1;
}

/* With std::string's usual name, and no allocators. */
static char *plain_name(const char *name)
{
        static const struct {
                const char *long_form, *short_form;
        } rows[] = {{"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"},
                    {"basic_string<char, std::char_traits<char>, std::allocator<char> >", "string"},
                    {"basic_string_view<char, std::char_traits<char> >", "string_view"}};
        char *made = storage_text("%s", name ? name : "(unnamed)"), *at, *end;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                while ((at = strstr(made, rows[i].long_form))) {
                        end = at + strlen(rows[i].long_form);
                        memcpy(at, rows[i].short_form, strlen(rows[i].short_form));
                        memmove(at + strlen(rows[i].short_form), end, strlen(end) + 1);
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

static char *spell_pointer(Dwarf_Die *die, const char *inside, int nesting)
{
        int tag = dwarf_tag(die), around;
        char *declarator, *text;
        Dwarf_Die target;

        around = die_reference(die, DW_AT_type, &target) &&
                 (dwarf_tag(&target) == DW_TAG_array_type || dwarf_tag(&target) == DW_TAG_subroutine_type);
        declarator = storage_text("%s%s%s%s", around ? "(" : "",
                                  tag == DW_TAG_pointer_type     ? "*"
                                  : tag == DW_TAG_reference_type ? "&"
                                                                 : "&&",
                                  inside, around ? ")" : "");
        text = spelling_of_target(die, declarator, nesting);
        free(declarator);
        return text;
}

static char *spell_qualified(Dwarf_Die *die, const char *inside, int nesting)
{
        int tag = dwarf_tag(die);
        const char *word = tag == DW_TAG_const_type      ? "const"
                           : tag == DW_TAG_volatile_type ? "volatile"
                           : tag == DW_TAG_restrict_type ? "restrict"
                                                         : "_Atomic";
        char *rest, *text;
        Dwarf_Die target;

        if (die_reference(die, DW_AT_type, &target) && dwarf_tag(&target) == DW_TAG_pointer_type) {
                rest = storage_text("%s%s%s", word, *inside ? " " : "", inside);
                text = spelling_of_target(die, rest, nesting);
        } else {
                rest = spelling_of_target(die, inside, nesting);
                text = storage_text("%s %s", word, rest);
        }
        free(rest);
        return text;
}

static char *spell_array(Dwarf_Die *die, const char *inside, int nesting)
{
        char *declarator, *text;
        uint64_t count = 0;

        die_each_child(die, first_bound, &count);
        declarator = count ? storage_text("%s[%llu]", inside, (unsigned long long)count) : storage_text("%s[]", inside);
        text = spelling_of_target(die, declarator, nesting);
        free(declarator);
        return text;
}

static char *spell_function(Dwarf_Die *die, const char *inside, int nesting)
{
        char *parameters = storage_text("%s", ""), *declarator, *text;

        die_each_child(die, append_parameter, &parameters);
        declarator = storage_text("%s(%s)", inside, parameters);
        text = spelling_of_target(die, declarator, nesting);
        free(parameters);
        free(declarator);
        return text;
}

static char *spell_named(Dwarf_Die *die, const char *inside)
{
        int tag = dwarf_tag(die), hidden;
        int is_declarator = *inside && *inside != '[' && (*inside != '(' || inside[1] == '*' || inside[1] == '&');
        char *scope = die_scope(die, &hidden), *name = plain_name(dwarf_diename(die)), *text;

        text = storage_text("%s%s%s%s%s",
                            die_is_cpp(die)                  ? ""
                            : tag == DW_TAG_structure_type   ? "struct "
                            : tag == DW_TAG_union_type       ? "union "
                            : tag == DW_TAG_enumeration_type ? "enum "
                                                             : "",
                            scope, name, is_declarator ? " " : "", inside);
        free(scope);
        free(name);
        return text;
}

char *spelling_of(Dwarf_Die *die, const char *inside, int nesting)
{
        switch (dwarf_tag(die)) {
        case DW_TAG_pointer_type:
        case DW_TAG_reference_type:
        case DW_TAG_rvalue_reference_type:
                return spell_pointer(die, inside, nesting);
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
        case DW_TAG_atomic_type:
                return spell_qualified(die, inside, nesting);
        case DW_TAG_array_type:
                return spell_array(die, inside, nesting);
        case DW_TAG_subroutine_type:
                return spell_function(die, inside, nesting);
        default:
                return spell_named(die, inside);
        }
}
