/* A privileged helper: one task that needs the privilege this process drops. A child forked earlier
 * waits for a signal byte, performs the task and exits. The byte carries no data, so a compromised
 * parent cannot request anything else. */
#ifndef CLOCHE_CLI_RUN_HELPER_H
#define CLOCHE_CLI_RUN_HELPER_H

#include <stddef.h>
#include <sys/types.h>

struct privileged_helper {
        pid_t pid; /* 0: none */
        int fd;
};

/* work: its result is the child's exit code; its output on out_fd is the answer. 0, or a line
 * was printed. */
int privileged_helper_prepare(struct privileged_helper *helper, int (*work)(void *data, int out_fd), void *data);
/* Start the task and read the answer. The exit code of work, or -1 without a complete answer. */
int privileged_helper_run(struct privileged_helper *helper, void *answer, size_t size);
/* The same in steps, for work that exchanges more data over privileged helper->fd: 0 or -errno,
 * then the exit code or -1. */
int privileged_helper_start(struct privileged_helper *helper);
int privileged_helper_wait(struct privileged_helper *helper);
/* End it without performing the task; also valid if never prepared or already ended. */
void privileged_helper_cancel(struct privileged_helper *helper);

#endif
