/* What a compilation made, as bytes that the engine keeps for later runs: the object, and what it was made of. Compiled
 * anew when any of that has changed. The bytes are checked like those of a stranger. */
#ifndef CLOCHE_NATIVE_ARTIFACT_H
#define CLOCHE_NATIVE_ARTIFACT_H

#include "base/buf.h"

#include <stddef.h>

/* Append the artifact of the object at path. dependencies: paths, a line each. 0 or -1. */
int artifact_pack(const char *object, const struct buf *dependencies, unsigned flags, struct buf *out);

/* 1: it holds, and the object was written to path; 0: it does not. */
int artifact_unpack(const void *data, size_t size, const char *object, unsigned *ret_flags);

#endif
