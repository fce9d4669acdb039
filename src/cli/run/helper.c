/* Fork a child that keeps the rights, for one task after this process dropped them.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "helper.h"

#include "base/fd.h"
#include "cli/command/cli.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int wait_for_word(int fd, int (*work)(void *data, int out_fd), void *data)
{
        char word;

        return fd_read_full(fd, &word, 1) == 0 ? work(data, fd) : 0;
}

/* The child ends with its socket; signals to the foreground group concern only the parent. */
static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
#define IGNORED (sizeof(ignored) / sizeof(ignored[0]))

static _Noreturn void run(int fd, const sigset_t *before, int (*work)(void *data, int out_fd), void *data)
{
        for (size_t i = 0; i < IGNORED; i++)
                signal(ignored[i], SIG_IGN); /* pending ones are discarded (signal(7)) */
        sigprocmask(SIG_SETMASK, before, NULL);
        _exit(wait_for_word(fd, work, data));
}

int privileged_helper_prepare(struct privileged_helper *helper, int (*work)(void *data, int out_fd), void *data)
{
        sigset_t held, before;
        int fds[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return cli_bad("cannot make a socket: %s", strerror(errno));
        /* A session leader's exit sends SIGHUP. It may be killed before the child has run at all,
         * and that must not end the child. */
        sigemptyset(&held);
        for (size_t i = 0; i < IGNORED; i++)
                sigaddset(&held, ignored[i]);
        sigprocmask(SIG_BLOCK, &held, &before);
        helper->pid = fork();
        if (helper->pid == 0) {
                close(fds[0]);
                run(fds[1], &before, work, data);
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        close(fds[1]);
        helper->fd = fds[0];
        if (helper->pid > 0)
                return 0;
        fd_close(&helper->fd);
        return cli_bad("cannot fork: %s", strerror(errno));
}

int privileged_helper_start(struct privileged_helper *helper)
{
        return fd_write_full(helper->fd, "!", 1);
}

int privileged_helper_wait(struct privileged_helper *helper)
{
        int status = 0;

        fd_close(&helper->fd);
        while (waitpid(helper->pid, &status, 0) < 0 && errno == EINTR)
                ;
        helper->pid = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int privileged_helper_run(struct privileged_helper *helper, void *answer, size_t size)
{
        int r = privileged_helper_start(helper), code;

        if (r == 0)
                r = fd_read_full(helper->fd, answer, size);
        code = privileged_helper_wait(helper);
        return r < 0 && code == 0 ? -1 : code;
}

void privileged_helper_cancel(struct privileged_helper *helper)
{
        if (helper->pid > 0)
                (void)privileged_helper_wait(helper);
}
