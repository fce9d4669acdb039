/* Types in C's notation. The texts are the caller's. */
#ifndef CLOCHE_NATIVE_SPELLING_H
#define CLOCHE_NATIVE_SPELLING_H

#include <elfutils/libdw.h>

#define SPELLING_NESTING_MAX 100

/* A type as C writes it around inside, the declarator: "int (*)[3]". nesting: of calls, 0 at first. */
char *spelling_of(Dwarf_Die *die, const char *inside, int nesting);
/* The same for the type of die. */
char *spelling_of_target(Dwarf_Die *die, const char *inside, int nesting);

#endif
