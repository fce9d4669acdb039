/* Resource limits: the second wall behind the control groups, per process. getrlimit(2). */
#ifndef CLOCHE_JAIL_RLIMIT_H
#define CLOCHE_JAIL_RLIMIT_H

#include "jail/root/plan.h"

#include <cloche/error.h>

#include <stdint.h>

/* Set the hard and soft limits of everything in the box. */
int rlimit_apply(const struct jail_plan *plan, struct cloche_err *e);

/* Lower the hard and soft limit of this process to value; a hard limit that is lower stays.
 * Returns 0 or -errno. */
int rlimit_lower(int resource, uint64_t value);

#endif
