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

#endif
