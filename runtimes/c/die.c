#include "die.h"
#include "storage.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

int die_flag(Dwarf_Die *die, unsigned name)
{
        Dwarf_Attribute attribute;
        bool set = false;

        return dwarf_attr_integrate(die, name, &attribute) && dwarf_formflag(&attribute, &set) == 0 && set;
}

int die_number(Dwarf_Die *die, unsigned name, uint64_t *ret)
{
        Dwarf_Attribute attribute;
        Dwarf_Word value;

        if (!dwarf_attr_integrate(die, name, &attribute) || dwarf_formudata(&attribute, &value) < 0)
                return 0;
        *ret = value;
        return 1;
}

int die_reference(Dwarf_Die *die, unsigned name, Dwarf_Die *ret)
{
        Dwarf_Attribute attribute;

        return dwarf_attr_integrate(die, name, &attribute) && dwarf_formref_die(&attribute, ret);
}

int die_each_child(Dwarf_Die *die, int (*visit)(Dwarf_Die *child, void *data), void *data)
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

char *die_scope(Dwarf_Die *die, int *ret_hidden)
{
        Dwarf_Die *scopes = NULL;
        int count = dwarf_getscopes_die(die, &scopes);
        char *text = storage_text("%s", "");

        *ret_hidden = 0;
        for (int i = 1; i < count; i++) {
                int tag = dwarf_tag(&scopes[i]);
                const char *name = dwarf_diename(&scopes[i]);
                char *longer;

                if (tag != DW_TAG_namespace && tag != DW_TAG_class_type && tag != DW_TAG_structure_type &&
                    tag != DW_TAG_union_type)
                        continue;
                *ret_hidden |= !name;
                if (!name || die_flag(&scopes[i], DW_AT_export_symbols))
                        continue;
                longer = storage_text("%s::%s", name, text);
                free(text);
                text = longer;
        }
        free(scopes);
        return text;
}

int die_is_cpp(Dwarf_Die *die)
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

int die_starts(const char *name, const char *with)
{
        return name && strncmp(name, with, strlen(with)) == 0;
}
