#include "program.h"
#include "compile.h"
#include "die.h"
#include "spelling.h"
#include "storage.h"

#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
                spelled = storage_text("...");
        } else if (dwarf_tag(child) == DW_TAG_formal_parameter && !die_flag(child, DW_AT_artificial)) {
                f->parameters = storage_grow(f->parameters, f->parameter_count + 1, sizeof(*f->parameters));
                name = dwarf_diename(child);
                f->parameters[f->parameter_count++] = (struct parameter){name, types_of(made->p, child)};
                spelled = spelling_of_target(child, name ? name : "", 0);
        } else {
                return 0;
        }
        longer = storage_text("%s%s%s", made->text, *made->text ? ", " : "", spelled);
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

static char *place_of(const struct function *f, Dwarf_Die *die)
{
        const char *path = dwarf_decl_file(die), *folder = path ? strrchr(path, '/') : NULL;
        int line;

        if (!path || dwarf_decl_line(die, &line) != 0)
                return storage_text("%s", f->name);
        path = folder ? folder + 1 : path;
        return strcmp(f->name, compile_body_name(1)) == 0 ? storage_text("%s", path)
                                                          : storage_text("%s (%s, line %d)", f->name, path, line);
}

void program_read_function(struct program *p, struct function *f)
{
        struct prototype made = {.p = p, .f = f};
        Dwarf_Die die, origin;
        char *declarator;

        if (f->was_read || !dwarf_offdie(p->dwarf, f->die, &die))
                return;
        f->was_read = 1;
        /* An optimised copy keeps only the attributes it uses: the declaration has all. */
        if (die_reference(&die, DW_AT_abstract_origin, &origin))
                die = origin;
        if (!die_each_child(&die, is_parameter, NULL) && die_reference(&die, DW_AT_specification, &origin))
                die = origin;
        made.text = storage_text("%s", "");
        die_each_child(&die, add_parameter, &made);
        f->result = types_of(p, &die);
        declarator = storage_text("%s(%s)", f->name, *made.text ? made.text : die_is_cpp(&die) ? "" : "void");
        f->prototype = spelling_of_target(&die, declarator, 0);
        f->place = place_of(f, &die);
        free(made.text);
        free(declarator);
}

static int is_artificial_first(Dwarf_Die *child, void *data)
{
        (void)data;
        return dwarf_tag(child) == DW_TAG_formal_parameter ? (die_flag(child, DW_AT_artificial) ? 1 : -1) : 0;
}

static int visit_function(Dwarf_Die *die, void *data);

static int needs_object(Dwarf_Die *die)
{
        Dwarf_Die object;

        return die_reference(die, DW_AT_object_pointer, &object) || die_each_child(die, is_artificial_first, NULL) == 1;
}

static void add_function(struct program *p, Dwarf_Die *die)
{
        Dwarf_Die origin = *die, next;
        const char *name = dwarf_diename(die), *file = dwarf_decl_file(die);
        struct function *f;
        Dwarf_Addr address;
        int hidden;
        char *scope;

        /* Functions of the user's own: neither in the image's headers nor in the compiler's. */
        if (!name || dwarf_entrypc(die, &address) != 0 || !file || die_starts(file, "/usr/") || *file == '<')
                return;
        if (address == 0) /* the linker kept another unit's copy */
                return;
        while (die_reference(&origin, DW_AT_abstract_origin, &next) ||
               die_reference(&origin, DW_AT_specification, &next)) {
                if (dwarf_dieoffset(&next) == dwarf_dieoffset(&origin))
                        break;
                origin = next;
        }
        if (p->function_count == p->function_room) {
                p->function_room = p->function_room ? p->function_room * 2 : 32;
                p->functions = storage_grow(p->functions, p->function_room, sizeof(*p->functions));
        }
        scope = die_scope(&origin, &hidden);
        f = &p->functions[p->function_count++];
        *f = (struct function){
                .name = storage_text("%s%s", scope, name),
                .address = (void *)(p->bias + address), /* NOLINT: where the loader put it */
                .is_public = die_flag(die, DW_AT_external) && !hidden && *name != '_' && !strchr(name, '<') &&
                             !strchr(name, '~') && !die_starts(name, "operator") && !strchr(scope, '<'),
                .needs_object = needs_object(die),
                .die = dwarf_dieoffset(die),
        };
        free(scope);
}

static int visit_function(Dwarf_Die *die, void *data)
{
        switch (dwarf_tag(die)) {
        case DW_TAG_subprogram:
                if (!die_flag(die, DW_AT_declaration) || dwarf_hasattr(die, DW_AT_low_pc) ||
                    dwarf_hasattr(die, DW_AT_ranges))
                        add_function(data, die);
                return 0;
        case DW_TAG_namespace:
                return die_each_child(die, visit_function, data);
        default:
                return 0;
        }
}

struct function *program_functions(struct program *p, size_t *ret_count)
{
        *ret_count = p->function_count;
        return p->functions;
}

/* Private: libelf may write into the mapping. No descriptor stays open, as a template must have none. */
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
        struct program *p = storage_get(sizeof(*p));
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
        /* Code without a function (only unused templates, for example) has none. */
        if (elf && !p->dwarf && elf_kind(elf) == ELF_K_ELF)
                return p;
        if (!p->dwarf) {
                snprintf(ret_why, why_size, "cannot read the debug information: %s",
                         !image ? strerror(errno)
                         : !elf ? elf_errmsg(-1)
                                : dwarf_errmsg(-1));
                free(p);
                return NULL;
        }
        while (dwarf_get_units(p->dwarf, unit, &unit, NULL, NULL, &top, NULL) == 0)
                die_each_child(&top, visit_function, p);
        return p;
}
