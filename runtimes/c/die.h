/* Access to the entries of debug information. Attributes that an entry leaves to its origin or
 * its declaration are read there. */
#ifndef CLOCHE_NATIVE_DIE_H
#define CLOCHE_NATIVE_DIE_H

#include <elfutils/libdw.h>
#include <stdint.h>

int die_flag(Dwarf_Die *die, unsigned name);
/* 1 with *ret, or 0: there is none. */
int die_number(Dwarf_Die *die, unsigned name, uint64_t *ret);
int die_reference(Dwarf_Die *die, unsigned name, Dwarf_Die *ret);

/* Calls visit for each child until it returns something other than 0, which is then returned. */
int die_each_child(Dwarf_Die *die, int (*visit)(Dwarf_Die *child, void *data), void *data);

/* "a::b::" around die, owned by the caller; *ret_hidden: in an unnamed namespace. Inline namespaces are left out. */
char *die_scope(Dwarf_Die *die, int *ret_hidden);
int die_is_cpp(Dwarf_Die *die);

/* For names of entries: NULL starts with nothing. */
int die_starts(const char *name, const char *with);

#endif
