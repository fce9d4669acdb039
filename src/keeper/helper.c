/* Children of the keeper that enter namespaces for it. Runs in: the keeper and its helpers. */
#include "helper.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/cgroup/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

/* The order in which the kernel kills when the memory of the host or of the daemon's group runs
 * out: programs first (box/init/programs.c), then boxes, whose files are in memory, then the
 * processes that all boxes need. */
#define SCORE "400"

int helper_report(int report_fd, const struct helper_report *report, int pidfd)
{
        return fd_send(report_fd, report, sizeof(*report), &pidfd, pidfd >= 0);
}

_Noreturn void helper_report_send(int report_fd, const struct helper_report *report, int pidfd)
{
        _exit(helper_report(report_fd, report, pidfd) < 0);
}

int helper_open_pair(int ret_fds[2], struct cloche_err *e)
{
        return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fds) < 0
                       ? err_os(e, CLOCHE_E_RESOURCE, errno, "make a socket pair")
                       : 0;
}

int helper_set_score(int proc_fd, pid_t pid, struct cloche_err *e)
{
        char path[64] = "self/oom_score_adj";
        _cleanup_fd_ int fd = -EBADF;
        int r;

        if (pid)
                snprintf(path, sizeof(path), "%d/oom_score_adj", (int)pid);
        fd = openat(proc_fd, path, O_WRONLY | O_CLOEXEC);
        r = fd < 0 ? -errno : fd_write_full(fd, SCORE, sizeof(SCORE) - 1);
        return r < 0 ? err_os(e, CLOCHE_E_NAMESPACE, -r, "set the out-of-memory score of the box") : 0;
}

static void reap(pid_t pid)
{
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

static void kill_and_reap(pid_t pid)
{
        kill(pid, SIGKILL);
        reap(pid);
}

pid_t helpers_receive(int fd, int *ret_pidfd, struct cloche_err *e)
{
        struct helper_report report;
        size_t fd_count = 1;
        ssize_t n = fd_receive(fd, &report, sizeof(report), ret_pidfd, &fd_count, MSG_DONTWAIT);

        if (n != sizeof(report) || err_check(&report.err) < 0)
                return err_set(e, CLOCHE_E_NAMESPACE, "the helper died while making a box"), -1;
        if (report.err.code == CLOCHE_OK && fd_count == 1 && report.pid > 0)
                return report.pid;
        if (fd_count)
                fd_close(ret_pidfd);
        *e = report.err;
        return -1;
}

/* Code of a template may kill or stop a helper between clone(2) and its message. Unreaped, the
 * child would hold the template's pid namespace for ever. */
void helpers_end(struct helpers *helpers, int is_unreported)
{
        for (size_t i = 0; i < HELPERS_MAX; i++) {
                pid_t pid = helpers->pids[i];

                if (!pid)
                        continue;
                if (is_unreported)
                        kill(-pid, SIGKILL); /* fails if the helper never made its process group */
                /* A mapper that has reported still reaps its holder, then exits. Killed before,
                 * it would leave the holder to the init of the host. */
                if (is_unreported || i != HELPER_MAPPER)
                        kill(pid, SIGKILL);
                reap(pid);
                while (is_unreported && (waitpid(-pid, NULL, 0) > 0 || errno == EINTR))
                        ;
        }
        *helpers = (struct helpers){0};
}

static int compare(const void *a, const void *b)
{
        return *(const int *)a - *(const int *)b;
}

int helper_keep(const struct jail_plan *plan, const int *fds, size_t count, struct cloche_err *e)
{
        int kept[HELPER_FDS_MAX + CGROUP_CONTROLLERS + JAIL_SHARED_PLACES + JAIL_MOUNTS_MAX + 7], next = 0;
        size_t n = 0;

        if (setsid() < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "make a process group");
        for (size_t i = 0; i < count && i < HELPER_FDS_MAX; i++)
                kept[n++] = fds[i];
        for (size_t i = 0; i < plan->tasks_count; i++)
                kept[n++] = plan->tasks_fds[i];
        for (size_t i = 0; plan->places_fds && i < JAIL_SHARED_PLACES; i++)
                kept[n++] = plan->places_fds[i];
        for (size_t i = 0; plan->mount_fds && i < plan->mount_count; i++)
                kept[n++] = plan->mount_fds[i];
        if (plan->mount_count > 0 && !plan->mount_fds)
                kept[n++] = plan->fuse_dir_fd;
        if (plan->layers_fd >= 0)
                kept[n++] = plan->layers_fd;
        if (plan->runtime_fd >= 0)
                kept[n++] = plan->runtime_fd;
        kept[n++] = plan->init_fd;
        kept[n++] = plan->control_fd;
        kept[n++] = INT_MAX;
        qsort(kept, n, sizeof(kept[0]), compare);
        for (size_t i = 0; i < n; i++) {
                if (kept[i] > next && close_range((unsigned)next, (unsigned)kept[i] - 1, 0) < 0)
                        return err_os(e, CLOCHE_E_PRIVILEGE, errno, "close the keeper's descriptors");
                next = kept[i] < 0 ? 0 : kept[i] == INT_MAX ? INT_MAX : kept[i] + 1;
        }
        return 0;
}

static _Noreturn void fetch(int (*make)(const void *data, int *ret_fds, struct cloche_err *e), const void *data,
                            size_t count, int report_fd)
{
        struct cloche_err error = {0};
        int fds[HELPER_FDS_MAX], r = make(data, fds, &error);

        _exit(fd_send(report_fd, &error, sizeof(error), fds, r == 0 ? count : 0) < 0);
}

static int receive_fetched(int fd, size_t count, int timeout_s, int *ret_fds, struct cloche_err *e)
{
        struct cloche_err theirs;
        size_t came = count;
        ssize_t n = fd_receive(fd, &theirs, sizeof(theirs), ret_fds, &came, 0);

        if (n == -EAGAIN)
                return err_set(e, CLOCHE_E_NAMESPACE, "the helper did not answer within %d s", timeout_s);
        if (n == sizeof(theirs) && err_check(&theirs) == 0 && theirs.code == CLOCHE_OK && came == count)
                return 0;
        for (size_t i = 0; n > 0 && i < came; i++)
                fd_close(&ret_fds[i]);
        if (n != sizeof(theirs) || err_check(&theirs) < 0 || theirs.code == CLOCHE_OK)
                return err_set(e, CLOCHE_E_NAMESPACE, "the helper died before it answered");
        *e = theirs;
        return -(int)theirs.code;
}

int helper_fetch(int (*make)(const void *data, int *ret_fds, struct cloche_err *e), const void *data, size_t count,
                 int timeout_s, int *ret_fds, struct cloche_err *e)
{
        const struct timeval patience = {.tv_sec = timeout_s};
        _cleanup_fd_ int ours_fd = -EBADF, theirs_fd = -EBADF;
        int pair[2], r;
        pid_t pid;

        r = helper_open_pair(pair, e);
        if (r < 0)
                return r;
        ours_fd = pair[0];
        theirs_fd = pair[1];
        pid = fork();
        if (pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        if (pid == 0)
                fetch(make, data, count, theirs_fd);
        fd_close(&theirs_fd);
        if (setsockopt(ours_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "set a timeout");
        else
                r = receive_fetched(ours_fd, count, timeout_s, ret_fds, e);
        kill_and_reap(pid);
        return r;
}
