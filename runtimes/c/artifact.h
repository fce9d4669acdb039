/* The result of a compilation, as bytes that the engine keeps for later runs: the object, and
 * its dependencies. If any of those has changed, the code is compiled anew. The bytes are
 * checked like any untrusted input. */
#ifndef CLOCHE_NATIVE_ARTIFACT_H
#define CLOCHE_NATIVE_ARTIFACT_H

#include "base/buf.h"

#include <stddef.h>

/* Append the artifact of the object at path. dependencies: paths, a line each. 0 or -1. */
int artifact_pack(const char *object, const struct buf *dependencies, unsigned flags, struct buf *out);

/* 1: it is valid, and the object was written to path; 0: it is not. */
int artifact_unpack(const void *data, size_t size, const char *object, unsigned *ret_flags);

#endif
