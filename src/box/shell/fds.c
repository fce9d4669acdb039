#include "session.h"

#include "base/fd.h"

#include <pthread.h>

static struct {
        int fds[OWN_COUNT];
        pid_t shell_pid;
} own = {.fds = {-EBADF, -EBADF, -EBADF, -EBADF}};

void own_keep(enum own_fd which, int fd)
{
        fd_close(&own.fds[which]);
        own.fds[which] = fd < 0 ? -EBADF : loadable_move_up(fd);
}

int own_fd(enum own_fd which)
{
        return own.fds[which];
}

void own_drop(enum own_fd which)
{
        fd_close(&own.fds[which]);
}

int own_is_shell(void)
{
        return getpid() == own.shell_pid;
}

/* A subshell that never executes a program would hold the session's socket open. */
static void in_fork(void)
{
        for (int i = 0; i < OWN_COUNT; i++)
                fd_close(&own.fds[i]);
        interrupt_forget();
}

int own_start(void)
{
        own.shell_pid = getpid();
        return -pthread_atfork(NULL, NULL, in_fork);
}
