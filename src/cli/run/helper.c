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

int errand_prepare(struct errand *errand, int (*work)(void *data, int out_fd), void *data)
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
        errand->pid = fork();
        if (errand->pid == 0) {
                close(fds[0]);
                run(fds[1], &before, work, data);
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        close(fds[1]);
        errand->fd = fds[0];
        if (errand->pid > 0)
                return 0;
        fd_close(&errand->fd);
        return cli_bad("cannot fork: %s", strerror(errno));
}

int errand_begin(struct errand *errand)
{
        return fd_write_full(errand->fd, "!", 1);
}

int errand_end(struct errand *errand)
{
        int status = 0;

        fd_close(&errand->fd);
        while (waitpid(errand->pid, &status, 0) < 0 && errno == EINTR)
                ;
        errand->pid = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int errand_do(struct errand *errand, void *answer, size_t size)
{
        int r = errand_begin(errand), code;

        if (r == 0)
                r = fd_read_full(errand->fd, answer, size);
        code = errand_end(errand);
        return r < 0 && code == 0 ? -1 : code;
}

void errand_cancel(struct errand *errand)
{
        if (errand->pid > 0)
                (void)errand_end(errand);
}
