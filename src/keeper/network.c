/* The sockets at which everything a sandbox sends ends (jail/net.h) are made in its network namespace, by a process that goes in, hands them out and
 * ends: the keeper itself stays where it is.
 *
 *   keeper ── fork ──▶ the box's user namespace (an ordinary user's keeper has rights only there), its network ── sockets ──▶ keeper */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/net.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

_Static_assert(NETWORK_FDS == NET_SOCKETS, "as many are handed out as are made");

static int join(const struct keeper_state *keeper, pid_t pid, const char *name, int kind, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        char path[64];

        snprintf(path, sizeof(path), "%d/ns/%s", (int)pid, name);
        fd = openat(keeper->proc_fd, path, O_RDONLY | O_CLOEXEC);
        return fd < 0 || setns(fd, kind) < 0 ? err_os(e, CLOCHE_E_NAMESPACE, errno, "join the box's %s namespace", name) : 0;
}

static _Noreturn void make_inside(const struct keeper_state *keeper, pid_t pid, int tell_fd)
{
        struct cloche_err error = {0};
        int fds[NETWORK_FDS], r = 0;

        if (!keeper->is_root)
                r = join(keeper, pid, "user", CLONE_NEWUSER, &error);
        if (r == 0)
                r = join(keeper, pid, "net", CLONE_NEWNET, &error);
        if (r == 0)
                r = net_lead_to_sockets(fds, &error);
        _exit(fd_send(tell_fd, &error, sizeof(error), fds, r == 0 ? NETWORK_FDS : 0) < 0);
}

static int hear(int fd, int ret_fds[NETWORK_FDS], struct cloche_err *e)
{
        struct cloche_err theirs;
        size_t count = NETWORK_FDS;
        ssize_t n = fd_receive(fd, &theirs, sizeof(theirs), ret_fds, &count, 0);

        if (n == sizeof(theirs) && err_check(&theirs) == 0 && theirs.code == CLOCHE_OK && count == NETWORK_FDS)
                return 0;
        for (size_t i = 0; n > 0 && i < count; i++)
                fd_close(&ret_fds[i]);
        if (n != sizeof(theirs) || theirs.code == CLOCHE_OK)
                return err_set(e, CLOCHE_E_NAMESPACE, "the helper died while leading the box's connections");
        *e = theirs;
        return -(int)theirs.code;
}

int network_make_sockets(const struct keeper_state *keeper, const struct box *row, int ret_fds[NETWORK_FDS], struct cloche_err *e)
{
        _cleanup_fd_ int ours_fd = -EBADF, theirs_fd = -EBADF;
        int pair[2], r;
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a socket pair");
        ours_fd = pair[0];
        theirs_fd = pair[1];
        pid = fork();
        if (pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        if (pid == 0)
                make_inside(keeper, row->init_pid, theirs_fd);
        fd_close(&theirs_fd);
        r = hear(ours_fd, ret_fds, e);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r;
}
