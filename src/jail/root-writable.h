/* The places of a box that its guest may write: one tmpfs with the quota, shown at each of them.
 * The current directory is the root. */
#ifndef CLOCHE_JAIL_ROOT_WRITABLE_H
#define CLOCHE_JAIL_ROOT_WRITABLE_H

#include "plan.h"

#include <cloche/cloche.h>

#define ROOT_SCRATCH "run/scratch" /* mount point of the tmpfs with the quota while it is built; empty afterwards */

extern const char *const root_places[JAIL_PLACES]; /* below the root */

/* More directories at the top of a sandbox, in the same tmpfs, unless the image or a mount has
 * them: programs expect such paths. */
#define ROOT_EACH_TOP(TOP) TOP("app") TOP("data") TOP("home") TOP("mnt") TOP("opt") TOP("src") TOP("srv") TOP("var")
#define ROOT_ONE_MORE(name) +1
#define ROOT_TOPS (0 ROOT_EACH_TOP(ROOT_ONE_MORE))
extern const char *const root_tops[ROOT_TOPS];

int root_is_writable(const char *path);
int root_make_writable(const struct jail_plan *plan, struct cloche_err *e);
/* Attach the places of a sandbox instead, from root_take_writable. */
int root_attach_writable(const int *places_fds, struct cloche_err *e);

#endif
