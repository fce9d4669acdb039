#include "session.h"

#include "base/fd.h"

#include <pthread.h>

static struct {
        int fds[FDS_COUNT];
        pid_t shell_pid;
} own = {.fds = {-EBADF, -EBADF, -EBADF, -EBADF}};

void fds_keep(enum fds_kept which, int fd)
{
        fd_close(&own.fds[which]);
        own.fds[which] = fd < 0 ? -EBADF : loadable_move_up(fd);
}

int fds_get(enum fds_kept which)
{
        return own.fds[which];
}

void fds_drop(enum fds_kept which)
{
        fd_close(&own.fds[which]);
}

int fds_is_shell(void)
{
        return getpid() == own.shell_pid;
}

/* A subshell that never executes a program would hold the session's socket open. */
static void in_fork(void)
{
        for (int i = 0; i < FDS_COUNT; i++)
                fd_close(&own.fds[i]);
        interrupt_forget();
}

int fds_start(void)
{
        own.shell_pid = getpid();
        return -pthread_atfork(NULL, NULL, in_fork);
}
