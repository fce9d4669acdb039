/* System call filters of our own programs: tables of calls (filter-calls.def in fs,
 * egress and daemon), compiled by filter-compile.c during the build. seccomp.h has the
 * filter of boxes. seccomp(2). */
#ifndef CLOCHE_JAIL_FILTER_FILTER_H
#define CLOCHE_JAIL_FILTER_FILTER_H

#include <cloche/error.h>
#include <linux/filter.h>
#include <stddef.h>

/* Set the filter for good, for every thread of this process. no_new_privs must be set.
 * -CLOCHE_E_GUARD_MISSING if the kernel has no filters. */
int filter_enter(const struct sock_filter *rows, size_t count, struct cloche_err *e);
#define FILTER_ENTER(rows, e) filter_enter(rows, sizeof(rows) / sizeof((rows)[0]), e)

/* libuv batches epoll_ctl(2) by io_uring if io_uring_setup(2) works: since 1.45, and since 1.50
 * nothing turns it off. Our tables forbid io_uring_enter(2), as no filter sees the requests of a
 * ring, and then libuv aborts. So no loop may have a ring: call this before one is made, with
 * no_new_privs or CAP_SYS_ADMIN. Where no filter can be set, nothing forbids rings either. */
void filter_refuse_rings(void);

#endif
