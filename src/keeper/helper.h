/* A helper: a child of the keeper that enters namespaces of a box, from which there is no way back, clones PID 1 of another box there with CLONE_PARENT,
 * tells its pid, and ends. PID 1 is the keeper's child then, reaped by it. Where guest code may have rights over it, a helper holds nothing but what its
 * task needs (helper_keep), cannot be traced, and is killed when its time is over (pending.h). */
#ifndef CLOCHE_KEEPER_HELPER_H
#define CLOCHE_KEEPER_HELPER_H

#include "jail/plan.h"

#include <cloche/cloche.h>
#include <sys/types.h>

#define HELPERS_MAX 2

/* At work for one box; a pid of 0: none. */
struct helpers {
        pid_t pids[HELPERS_MAX];
};

struct helper_told {
        pid_t pid; /* in the keeper's namespace; 0: none was cloned */
        struct cloche_err err;
};

/* Two ends of a seqpacket socket, owned by the caller. */
int helper_open_pair(int ret_fds[2], struct cloche_err *e);
/* In the helper, first of all: a process group of its own, which whom it clones inherits, and no descriptors but these and those of which the plan makes
 * PID 1. */
int helper_keep(const struct jail_plan *plan, const int *fds, size_t count, struct cloche_err *e);
/* Sets the out-of-memory score of a box's PID 1: of pid, or of the caller when 0, whose children inherit it. It must be called while the process is dumpable, or by root:
 * its files in /proc belong to root afterwards. */
int helper_set_score(int proc_fd, pid_t pid, struct cloche_err *e);
/* In the helper: send it, with pidfd unless -EBADF, and end. */
_Noreturn void helper_tell(int tell_fd, const struct helper_told *told, int pidfd);
/* In the keeper, when fd is readable: the pid, with *ret_pidfd owned by the caller; or -1. */
pid_t helpers_hear(int fd, int *ret_pidfd, struct cloche_err *e);
/* Kill and reap those that are left: what they tell was heard, or nobody waits for it. is_untold: with whom they may have cloned. */
void helpers_end(struct helpers *helpers, int is_untold);

#define HELPER_FDS_MAX 8
/* Another kind, which clones nobody: it goes where the keeper stays out of, where no guest sees it, makes descriptors, hands them out and ends. make: in the
 * helper, which ends without closing anything; ret_fds: count rows, owned by the caller. */
int helper_fetch(int (*make)(const void *data, int *ret_fds, struct cloche_err *e), const void *data, size_t count, int timeout_s, int *ret_fds,
                 struct cloche_err *e);

#endif
