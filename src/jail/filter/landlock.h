/* Landlock: a process gives up all of the file system except the trees of a few
 * directories. landlock(7). */
#ifndef CLOCHE_JAIL_FILTER_LANDLOCK_H
#define CLOCHE_JAIL_FILTER_LANDLOCK_H

#include <cloche/error.h>
#include <stddef.h>

struct landlock_place {
        int fd;       /* directory, or one file; borrowed */
        int writable; /* files beneath may be made, written, truncated and removed; 0: read and listed only */
};

/* A value of writable: also directories and symbolic links, and moves between directories (ABI
 * 2). */
#define LANDLOCK_TREE 2

/* Restrict this process and its children for good; also network and signals to other processes if
 * the kernel can. Needs no_new_privs. *ret_abi: the kernel's version of Landlock.
 * -CLOCHE_E_GUARD_MISSING if it has none. */
int landlock_enter(const struct landlock_place *places, size_t count, int *ret_abi, struct cloche_err *e);
/* Give up all of the file system, abstract sockets and signals to other processes; TCP connections
 * may still be made. */
int landlock_leave_connections(int *ret_abi, struct cloche_err *e);

#endif
