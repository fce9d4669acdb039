/* Fork blockers of this process: everything that is not the interpreter's own. */
#ifndef CLOCHE_BOX_JOIN_BLOCKER_H
#define CLOCHE_BOX_JOIN_BLOCKER_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Call it before code of others runs: these threads are the interpreter's own. */
void hindrance_know_threads(void);
/* Record the descriptors in the same way, beside earlier ones. Also in a forked child, where all
 * open descriptors are its own; but_fd: one that the agent is going to move. */
void hindrance_know_descriptors(int but_fd);

struct hindrance_allowed {
        const int *fds; /* the agent's own */
        size_t fd_count;
        int (*is_fork)(pid_t pid); /* true for a child that lives in its own box */
};

/* Return 0, or -EBUSY, and text names the blocker. It neither waits nor reaps: children that ended
 * stay for the code that waits for them. */
int hindrance_find(const struct hindrance_allowed *allowed, char *text, size_t size);

#endif
