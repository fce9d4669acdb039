/* The contents of a program's debug information: functions, and the types of their parameters
 * and results. Made once for a loaded program and never freed. */
#ifndef CLOCHE_NATIVE_TYPES_H
#define CLOCHE_NATIVE_TYPES_H

#include <stddef.h>
#include <stdint.h>

enum type_kind {
        TYPE_REFUSED, /* why has the reason */
        TYPE_VOID,
        TYPE_BOOL,
        TYPE_CHAR, /* plain char */
        TYPE_INTEGER,
        TYPE_FLOAT,
        TYPE_ENUM,
        TYPE_STRUCT,
        TYPE_UNION,
        TYPE_ARRAY,   /* count elements of inner[0] */
        TYPE_POINTER, /* to inner[0] */
        TYPE_REFERENCE,
        /* Classes of the C++ library; inner are the template's type arguments. */
        TYPE_STRING,
        TYPE_STRING_VIEW,
        TYPE_VECTOR,
        TYPE_BITS, /* std::vector<bool> */
        TYPE_LIST,
        TYPE_DEQUE,
        TYPE_MAP,
        TYPE_SET,
        TYPE_HASH_MAP,
        TYPE_HASH_SET,
        TYPE_PAIR, /* pairs and tuples: members in order */
        TYPE_OPTIONAL,
        TYPE_VARIANT,
        TYPE_UNIQUE,
        TYPE_SHARED,
        TYPE_DURATION, /* inner[0] ticks of numerator/denominator seconds */
        TYPE_TIME,     /* inner[0], a duration since 1970 */
        TYPE_FILE_PATH,
};

struct type;

struct member {
        const char *name; /* NULL: none */
        struct type *type;
        size_t offset;
        unsigned bit_offset, bit_size; /* bit_size 0: no bit-field */
};

struct enumerator {
        const char *name;
        int64_t value; /* for an unsigned type of 64 bits: the same bits */
};

struct type {
        enum type_kind kind;
        const char *name; /* in C's notation */
        const char *why;
        size_t size, align;
        unsigned is_signed : 1;
        unsigned is_byte : 1;         /* unsigned char */
        unsigned target_constant : 1; /* of a pointer or reference */
        unsigned by_reference : 1;    /* a class that is passed by the address of an object (Itanium C++ ABI 3.1.2.3) */
        unsigned is_made_by_itself : 1;    /* has virtual functions: only its own constructor can make one */
        unsigned is_descending : 1;        /* maps and sets with std::greater */
        unsigned is_ordered_otherwise : 1; /* with an order or a hash of its own */
        unsigned is_multi : 1;             /* maps and sets that may hold a key several times */
        uint64_t numerator, denominator;
        size_t count;
        struct type **inner;
        size_t inner_count;
        struct member *members;
        size_t member_count;
        struct enumerator *enumerators;
        size_t enumerator_count;
};

struct parameter {
        const char *name; /* NULL: the code gives none */
        struct type *type;
};

struct function {
        const char *name; /* qualified */
        const char *prototype;
        const char *place; /* "f (main.c, line 3)" */
        void *address;
        unsigned is_public : 1;    /* external, of the user's own sources, no leading underscore */
        unsigned needs_object : 1; /* a non-static member function */
        unsigned is_variadic : 1;
        unsigned was_read : 1; /* the following members are set */
        struct type *result;
        struct parameter *parameters;
        size_t parameter_count;
        uint64_t die; /* offset in the debug information */
};

struct program;

/* The program in the shared object at path, loaded at that bias. NULL with the reason. */
struct program *program_read(const char *path, uintptr_t bias, char *ret_why, size_t why_size);

struct function *program_functions(struct program *p, size_t *ret_count);

/* Fill in the types of f. */
void program_read_function(struct program *p, struct function *f);

#endif
