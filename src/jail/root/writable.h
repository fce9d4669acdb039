/* The places of a box that its guest may write: one tmpfs with the quota, shown at each of them.
 * The current directory is the root. */
#ifndef CLOCHE_JAIL_ROOT_WRITABLE_H
#define CLOCHE_JAIL_ROOT_WRITABLE_H

#include "plan.h"

#include <cloche/error.h>

#define ROOT_SCRATCH "run/scratch" /* mount point of a sandbox's root until root_turn; empty in other boxes */

/* Masks of /proc are copies of these two: one mount each, at half the cost of a new file
 * system and its attributes. */
#define ROOT_MASK_DIRECTORY "run/.nothing"
#define ROOT_MASK_FILE "run/.null"
#define ROOT_RUNTIME "run/cloche"

extern const char *const root_places[JAIL_PLACES]; /* below the root */

/* Show the home directory at the place that the box's user has for it, too. */
int root_link_home(const struct jail_plan *plan, int root_fd, struct cloche_err *e);
int root_is_writable(const char *path);
/* *ret_root_fd: in a sandbox the directory that becomes its root (root_turn); owned by the
 * caller. */
int root_make_writable(const struct jail_plan *plan, int *ret_root_fd, struct cloche_err *e);
/* Attach the places of a sandbox instead, from root_take_writable. */
int root_attach_writable(const int *places_fds, int *ret_root_fd, struct cloche_err *e);
/* Change to a root in which the guest may make files and directories. The entries of the built
 * root are shown in it, read-only as before; in the place of some, layers_fd has a sandbox's
 * overlays, unless it is -EBADF. This step comes last, when everything is mounted. */
int root_turn(int root_fd, int layers_fd, struct cloche_err *e);

#endif
