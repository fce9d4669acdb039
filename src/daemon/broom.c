#include "broom.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* Another daemon may have taken the name meanwhile: only the socket that was ours then goes. We hold its inode, so that the other's
 * has another number. */
static void sweep(const char *path, const struct stat *ours)
{
        struct stat st;

        if (lstat(path, &st) == 0 && st.st_dev == ours->st_dev && st.st_ino == ours->st_ino)
                (void)unlink(path);
}

static void wait_and_sweep(int fd, const char *path, const struct stat *ours)
{
        char byte;

        prctl(PR_SET_NAME, "cloched-broom");
        signal(SIGTERM, SIG_IGN); /* services are told to end all at once; this is the last */
        signal(SIGINT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        while (read(fd, &byte, 1) < 0 && errno == EINTR)
                ;
        sweep(path, ours);
        _exit(0);
}

/* What others wait for the end of, such as a pipe that is the log, is not held open by it. */
static void keep_only(int *fd, int *ours_fd)
{
        int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), high_fd = fcntl(*fd, F_DUPFD_CLOEXEC, 5),
            ours_high_fd = fcntl(*ours_fd, F_DUPFD_CLOEXEC, 5);

        for (int i = 0; null_fd >= 0 && i < 3; i++)
                dup2(null_fd, i);
        *fd = dup3(high_fd, 3, O_CLOEXEC);
        *ours_fd = dup3(ours_high_fd, 4, O_CLOEXEC);
        if (*fd < 0 || *ours_fd < 0)
                _exit(1); /* a failing read would look like the end of the daemon, and its socket would be removed */
        close_range(5, ~0u, 0);
}

int broom_start(const char *socket_path, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int ours_fd = open(socket_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat ours;
        int fds[2];
        pid_t pid;

        if (ours_fd < 0 || fstat(ours_fd, &ours) < 0 || pipe2(fds, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "watch over %s", socket_path);
        pid = fork();
        if (pid == 0) {
                keep_only(&fds[0], &ours_fd);
                wait_and_sweep(fds[0], socket_path, &ours);
        }
        close(fds[0]);
        if (pid < 0) {
                close(fds[1]);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        }
        *ret_fd = fds[1];
        return 0;
}
