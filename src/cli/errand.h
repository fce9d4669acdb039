/* One thing that needs the privilege this process gives up before: a child made earlier waits for the word, does it and ends.
 * The word is one byte, so that whatever becomes of this process, it cannot ask for anything else. */
#ifndef CLOCHE_CLI_ERRAND_H
#define CLOCHE_CLI_ERRAND_H

#include <stddef.h>
#include <sys/types.h>

struct errand {
        pid_t pid; /* 0: none */
        int fd;
};

/* work: what it returns is the child's exit code; what it writes to out_fd is the answer. 0, or a line was printed. */
int errand_prepare(struct errand *errand, int (*work)(void *data, int out_fd), void *data);
/* Give the word and take the answer. The exit code of work, or -1 when there is no whole answer. */
int errand_do(struct errand *errand, void *answer, size_t size);
/* The same in steps, for work that has more to say and hear over errand->fd: 0 or -errno, and the exit code or -1. */
int errand_begin(struct errand *errand);
int errand_end(struct errand *errand);
/* Nothing is to be done after all; also of one that was never prepared, or has ended. */
void errand_cancel(struct errand *errand);

#endif
