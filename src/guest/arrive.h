/* From a fork of a template to a process of the box that was made for it. */
#ifndef CLOCHE_GUEST_ARRIVE_H
#define CLOCHE_GUEST_ARRIVE_H

#include "keeper/fork-protocol.h"

#include <cloche/cloche.h>

/* fds: in the order of fork-protocol.h; borrowed. Afterwards the process has the rights, ids, limits and groups of its box and is in /workspace. A failure
 * leaves it somewhere between: it has to end. */
int arrive(const struct fork_request *request, const int *fds, struct cloche_err *e);

#endif
