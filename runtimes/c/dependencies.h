/* The dependencies of an object: paths, a line each. Empty: unknown. */
#ifndef CLOCHE_NATIVE_DEPENDENCIES_H
#define CLOCHE_NATIVE_DEPENDENCIES_H

#include "base/buf.h"

#include <stddef.h>

/* Append the paths in text, make's rules as compilers write them ("x: /usr/include/a.h \ ..."),
 * except those that begin with without. Text that ends amid a rule, and lists beyond the list's
 * maximum, leave it empty. */
void dependencies_parse(const char *text, size_t size, const char *without, struct buf *list);

/* Append one. */
void dependencies_append(struct buf *list, const char *path, size_t size);

#endif
