/* The images that runs, prefixes and sandboxes name. */
#ifndef CLOCHE_ENGINE_BOX_IMAGE_H
#define CLOCHE_ENGINE_BOX_IMAGE_H

#include "proto/keeper.h"

#include <cloche/engine.h>
#include <stdint.h>

/* Interpreters in an image of the store are kept for this time without use. */
#define IMAGE_IDLE_NS (UINT64_C(600) * 1000000000)

/* A tree of the store; "": the engine's own image. */
struct image {
        char name[KEEPER_TREE_SIZE];
};

/* Read sha256-DIGITS or sha256:DIGITS. 0 if it is neither. */
int image_read(const char *name, struct image *ret);

/* name: NULL or "" for the engine's own. The keeper reports whether there is such a tree.
 * Errors  CLOCHE_E_INVALID_ARGUMENT: it is no digest, or the engine has no store. */
CLOCHE_MUST_CHECK int image_take(const cloche_engine *engine, const char *name, struct image *ret,
                                 struct cloche_err *e);

static inline int image_equals(const struct image *one, const struct image *other)
{
        return strcmp(one->name, other->name) == 0;
}

#endif
