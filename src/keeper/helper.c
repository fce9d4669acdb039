#include "helper.h"

#include "base/err.h"
#include "base/fd.h"

#include <signal.h>
#include <sys/wait.h>

_Noreturn void helper_tell(int tell_fd, const struct helper_told *told, int pidfd)
{
        _exit(fd_send(tell_fd, told, sizeof(*told), &pidfd, pidfd >= 0) < 0);
}

void helper_reap(pid_t pid)
{
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

pid_t helper_hear(int fd, int *ret_pidfd, struct cloche_err *e)
{
        struct helper_told told;
        size_t fd_count = 1;
        ssize_t n = fd_receive(fd, &told, sizeof(told), ret_pidfd, &fd_count, 0);

        if (n != sizeof(told) || err_check(&told.err) < 0)
                return err_set(e, CLOCHE_E_NAMESPACE, "the helper died while making a box");
        if (told.err.code == CLOCHE_OK && fd_count == 1 && told.pid > 0)
                return told.pid;
        if (told.pid > 0) {
                kill(told.pid, SIGKILL);
                helper_reap(told.pid);
        }
        if (fd_count)
                fd_close(ret_pidfd);
        if (e)
                *e = told.err;
        return -1;
}
