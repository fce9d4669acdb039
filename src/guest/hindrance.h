/* What stands in the way of forking this process: whatever is not the interpreter's own. */
#ifndef CLOCHE_GUEST_HINDRANCE_H
#define CLOCHE_GUEST_HINDRANCE_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Before code of others runs: these threads are the interpreter's own. */
void hindrance_know_threads(void);
/* And these descriptors, beside those that were before. In a forked child too, where everything open is its own; but_fd: what the agent is going to move. */
void hindrance_know_descriptors(int but_fd);

struct hindrance_allowed {
        const int *fds; /* ours */
        size_t fd_count;
        int (*is_fork)(pid_t pid); /* a child that lives in a box of its own */
};

/* 0, or -EBUSY and text names it. Nothing is waited for or taken away: children that ended stay for whoever waits for them. */
int hindrance_find(const struct hindrance_allowed *allowed, char *text, size_t size);

#endif
