/* The entry of a template's fork into the box that was made for it. */
#ifndef CLOCHE_BOX_JOIN_JOIN_H
#define CLOCHE_BOX_JOIN_JOIN_H

#include "proto/fork.h"

#include <cloche/error.h>

/* fds: in the order of proto/fork.h; borrowed. Afterwards the process has the rights, ids, limits
 * and groups of its box and is in directory. After an error it may be half in: it must exit. */
int box_join(const struct fork_request *request, const int *fds, const char *directory, struct cloche_err *e);

#endif
