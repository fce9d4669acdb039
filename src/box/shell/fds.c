/* The descriptors of the session, kept out of reach of the code's numbers and closed in each fork.
 * Runs in: bash of a session, with the guest's rights, beside the guest's code. */
#include "session.h"

#include "base/fd.h"

#include <pthread.h>

static struct {
        int fds[FDS_COUNT];
        pid_t shell_pid;
} kept = {.fds = {-EBADF, -EBADF, -EBADF, -EBADF}};

void fds_keep(enum fds_kept which, int fd)
{
        fd_close(&kept.fds[which]);
        kept.fds[which] = fd < 0 ? -EBADF : loadable_move_up(fd);
}

int fds_get(enum fds_kept which)
{
        return kept.fds[which];
}

void fds_drop(enum fds_kept which)
{
        fd_close(&kept.fds[which]);
}

int fds_is_shell(void)
{
        return getpid() == kept.shell_pid;
}

/* A subshell that never executes a program would hold the session's socket open. */
static void in_fork(void)
{
        for (int i = 0; i < FDS_COUNT; i++)
                fd_close(&kept.fds[i]);
        interrupt_reset_in_fork();
}

int fds_start(void)
{
        kept.shell_pid = getpid();
        return -pthread_atfork(NULL, NULL, in_fork);
}
