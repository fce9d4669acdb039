/* The image's compiler: from the user's text to a shared object or a program. */
#ifndef CLOCHE_NATIVE_COMPILE_H
#define CLOCHE_NATIVE_COMPILE_H

#include "base/buf.h"

#include <jansson.h>

enum compile_target { COMPILE_LIBRARY, COMPILE_PROGRAM };

struct compile_job {
        int is_cpp;
        enum compile_target target;
        const char *code;
        const char *filename;    /* the user's name for it */
        const json_t *build;     /* NULL, or {standard, flags, sources} */
        unsigned is_body : 1;    /* the code is the body of a function */
        unsigned is_partial : 1; /* names may be those of a program that is already loaded */
};

struct compiled {
        char directory[64]; /* holds all generated files; compiled_done() removes it */
        char object[96];
        struct buf dependencies; /* rows for an artifact; empty: unknown */
};

/* {type, message, stack} in the user's coordinates. */
struct compile_error {
        const char *type;
        char message[800];
        char *text; /* the compiler's output; owned */
};

/* 0, -1 with *error. Warnings go to descriptor 2. */
int compile(const struct compile_job *job, struct compiled *ret, struct compile_error *error);
void compiled_done(struct compiled *c);
void compile_error_done(struct compile_error *e);

/* An empty directory for *ret; 0 or -1. */
int compile_directory(struct compiled *ret);

/* The shape of code: it defines functions; it is the body of one; or it may be declarations, or
 * a body of expressions alone. */
enum compile_shape { SHAPE_PROGRAM, SHAPE_BODY, SHAPE_UNKNOWN };
enum compile_shape compile_shape(const char *code);

/* The code as the body of a function, in its own coordinates; errors as in buf_append. */
int compile_wrap_body(const struct compile_job *job, const char *name, struct buf *out);

/* The name of the function made from a body. */
const char *compile_body_name(int is_cpp);

#endif
