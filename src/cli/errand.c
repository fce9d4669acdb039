#include "errand.h"

#include "base/fd.h"
#include "cli.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int wait_for_word(int fd, int (*work)(void *data, int out_fd), void *data)
{
        char word;

        return fd_read_full(fd, &word, 1) == 0 ? work(data, fd) : 0;
}

int errand_prepare(struct errand *errand, int (*work)(void *data, int out_fd), void *data)
{
        int fds[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return cli_bad("cannot make a socket: %s", strerror(errno));
        errand->pid = fork();
        if (errand->pid == 0) {
                close(fds[0]);
                /* It ends with its socket; a signal to all in the foreground is for whoever gives the word. */
                signal(SIGINT, SIG_IGN);
                signal(SIGTERM, SIG_IGN);
                signal(SIGHUP, SIG_IGN);
                signal(SIGPIPE, SIG_IGN);
                _exit(wait_for_word(fds[1], work, data));
        }
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
