/* Landlock: a process takes from itself all of the file system but what is beneath a few directories. landlock(7). */
#ifndef CLOCHE_JAIL_LANDLOCK_H
#define CLOCHE_JAIL_LANDLOCK_H

#include <cloche/cloche.h>
#include <stddef.h>

struct landlock_place {
        int fd;       /* of a directory, or of one file; borrowed */
        int writable; /* files beneath may be made, written, truncated and removed; else read and listed */
};

#define LANDLOCK_TREE 2 /* as writable: directories and symbolic links, too, and moved from one directory to another (ABI 2) */

/* For good, for this process and its children; network and signals to others go too where the kernel knows how. Wants no_new_privs.
 * *ret_abi: what the kernel has. -CLOCHE_E_GUARD_MISSING where it has none. */
int landlock_enter(const struct landlock_place *places, size_t count, int *ret_abi, struct cloche_err *e);
/* All of the file system, abstract sockets and signals to others; TCP connections may still be made. */
int landlock_leave_connections(int *ret_abi, struct cloche_err *e);

#endif
