/* A helper: a child of the keeper that enters namespaces of a box, which it can never leave, clones
 * PID 1 of another box there with CLONE_PARENT, sends its pid, and exits. So PID 1 is the keeper's
 * child, reaped by it. Where guest code may have rights over a helper, the helper has only the
 * descriptors its task needs (helper_keep), cannot be traced, and is killed at its deadline
 * (pending.h). */
#ifndef CLOCHE_KEEPER_HELPER_H
#define CLOCHE_KEEPER_HELPER_H

#include "jail/root/plan.h"

#include <cloche/error.h>
#include <sys/types.h>

/* No guest sees the mapper (box-nested.c). */
enum { HELPER_CLONER, HELPER_MAPPER, HELPERS_MAX };

/* The helpers of one box; pid 0: none. */
struct helpers {
        pid_t pids[HELPERS_MAX];
};

struct helper_report {
        pid_t pid; /* in the keeper's namespace; 0: none was cloned */
        struct cloche_err err;
};

/* Make the two ends of a seqpacket socket, owned by the caller. */
int helper_open_pair(int ret_fds[2], struct cloche_err *e);
/* Runs first in a helper: make a process group, which its clones inherit, and close all descriptors
 * but these and those of the plan for PID 1. */
int helper_keep(const struct jail_plan *plan, const int *fds, size_t count, struct cloche_err *e);
/* Set the out-of-memory score of a box's PID 1: of pid, or of the caller if 0, whose children
 * inherit it. Call it while the process is dumpable, or as root: its files in /proc belong to root
 * afterwards. */
int helper_set_score(int proc_fd, pid_t pid, struct cloche_err *e);
/* In the helper: send the message, with pidfd unless -EBADF; the second also exits. */
int helper_report(int report_fd, const struct helper_report *report, int pidfd);
_Noreturn void helper_report_send(int report_fd, const struct helper_report *report, int pidfd);
/* In the keeper, when fd is readable: return the pid, with *ret_pidfd owned by the caller; or
 * -1. */
pid_t helpers_receive(int fd, int *ret_pidfd, struct cloche_err *e);
/* Kill and reap the remaining helpers. is_unreported: their message was not received, so kill their
 * clones too. */
void helpers_end(struct helpers *helpers, int is_unreported);

#define HELPER_FDS_MAX 8
/* A helper of another kind, which clones nothing: it enters namespaces that the keeper stays out of
 * and no guest sees, makes descriptors, sends them and exits. make: runs in the helper, which exits
 * without closing anything; ret_fds: count rows, owned by the caller. */
int helper_fetch(int (*make)(const void *data, int *ret_fds, struct cloche_err *e), const void *data, size_t count,
                 int timeout_s, int *ret_fds, struct cloche_err *e);

#endif
