/* Shared by the readers of debug information: types.c reads any type, with classes.c the members
 * of classes and with standard.c the classes of the C++ library; program.c finds functions. */
#ifndef CLOCHE_NATIVE_PROGRAM_H
#define CLOCHE_NATIVE_PROGRAM_H

#include "types.h"

#include <elfutils/libdw.h>

#define TYPES_BUCKETS 256
#define TYPES_NESTING_MAX 100 /* nesting of types, in hostile debug information too */

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

/* The type in the DW_AT_type of holder, without typedefs and qualifiers. */
struct type *types_of(struct program *p, Dwarf_Die *holder);
void types_refuse(struct type *type, const char *why);
void types_add_inner(struct type *type, struct type *inner);
void types_grow_align(struct type *type, size_t align);

/* Read the members, and how such an object is passed. */
void classes_read_members(struct program *p, struct type *type, Dwarf_Die *die);

/* 1 if die is a class of namespace std that has values, or one that is refused as such. */
int standard_read(struct program *p, struct type *type, Dwarf_Die *die);

#endif
