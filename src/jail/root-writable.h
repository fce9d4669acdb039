/* The places of a box where its guest may write: one tmpfs with the quota, shown at each of them. The current directory is the root. */
#ifndef CLOCHE_JAIL_ROOT_WRITABLE_H
#define CLOCHE_JAIL_ROOT_WRITABLE_H

#include "plan.h"

#include <cloche/cloche.h>

#define ROOT_SCRATCH "run/scratch" /* where the tmpfs with the quota is made; empty afterwards */

extern const char *const root_places[JAIL_PLACES]; /* below the root */

/* Directories at the top that a sandbox has besides, where neither the image nor a mount has them: programs are written for such paths. In the same tmpfs. */
#define ROOT_EACH_TOP(TOP) TOP("app") TOP("data") TOP("home") TOP("mnt") TOP("opt") TOP("src") TOP("srv") TOP("var")
#define ROOT_ONE_MORE(name) +1
#define ROOT_TOPS (0 ROOT_EACH_TOP(ROOT_ONE_MORE))
extern const char *const root_tops[ROOT_TOPS];

int root_is_writable(const char *path);
int root_make_writable(const struct jail_plan *plan, struct cloche_err *e);
/* Those of a sandbox instead, from root_take_writable. */
int root_attach_writable(const int *places_fds, struct cloche_err *e);

#endif
