/* A helper: a child of the keeper that enters namespaces of a box, from which there is no way back, clones PID 1 of another box there with CLONE_PARENT,
 * says its pid, and ends. PID 1 is the keeper's child then, reaped by it. */
#ifndef CLOCHE_KEEPER_HELPER_H
#define CLOCHE_KEEPER_HELPER_H

#include <cloche/cloche.h>
#include <sys/types.h>

struct helper_told {
        pid_t pid; /* in the keeper's namespace; 0: none was cloned */
        struct cloche_err err;
};

/* In the helper: say it, with pidfd unless -EBADF, and end. */
_Noreturn void helper_tell(int tell_fd, const struct helper_told *told, int pidfd);
/* In the keeper: the pid, with *ret_pidfd owned by the caller; or -1, and whoever was cloned is dead. */
pid_t helper_hear(int fd, int *ret_pidfd, struct cloche_err *e);
void helper_reap(pid_t pid);

#define HELPER_FDS_MAX 8
/* Another kind, which clones nobody: it goes where the keeper stays out of, makes descriptors, hands them out and ends. make: in the helper, which ends
 * without closing anything; ret_fds: count rows, owned by the caller. */
int helper_fetch(int (*make)(const void *data, int *ret_fds, struct cloche_err *e), const void *data, size_t count, int *ret_fds, struct cloche_err *e);

#endif
