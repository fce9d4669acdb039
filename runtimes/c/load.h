/* The user's program in this process. */
#ifndef CLOCHE_NATIVE_LOAD_H
#define CLOCHE_NATIVE_LOAD_H

#include "convert.h"
#include "invoke.h"
#include "types.h"

struct loaded {
        void *handle;
        struct program *program;
        struct native_library library;
        native_catch *catch;
        void (*flush)(void); /* flushes the streams of C++; NULL: none */
};

enum load_mode {
        LOAD_LOCAL,
        LOAD_GLOBAL, /* its names are visible to later ones */
        LOAD_OWN,    /* its own names come before those of earlier ones */
};

/* Load the object at path. folder: the folder of catch.cc's library. 0, or -1 with the reason. */
int load(const char *path, const char *folder, int is_cpp, enum load_mode mode, struct loaded *ret, char *ret_why,
         size_t why_size);

#endif
