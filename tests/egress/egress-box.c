/* egress-box EGRESS CONTROL_FD RESOLV_CONF: a network namespace as the keeper prepares a sandbox's,
 * and cloche-egress for it, in the network the caller is in. Prints the pid of a process in that
 * namespace, where RESOLV_CONF is /etc/resolv.conf, and becomes the egress program. Needs root. */
#include "base/fd.h"
#include "jail/net.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define EGRESS_UID 0x78000001u

static int fail(const char *what)
{
        perror(what);
        return 1;
}

/* The child: the box's side. */
static int stay_inside(int tell_fd, const char *resolv_conf)
{
        struct cloche_err e = {0};
        /* A signal at its death would be another user's. */
        int fds[NET_SOCKETS], parent_fd = (int)syscall(SYS_pidfd_open, getppid(), 0);

        if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(resolv_conf, "/etc/resolv.conf", NULL, MS_BIND, NULL) < 0)
                return fail("make the box");
        if (net_loopback_up(&e) < 0 || net_lead_to_sockets(fds, &e) < 0) {
                fprintf(stderr, "%s\n", e.msg);
                return 1;
        }
        if (fd_send(tell_fd, "s", 1, fds, NET_SOCKETS) < 0)
                return fail("hand out the sockets");
        for (int i = 0; i < NET_SOCKETS; i++)
                close(fds[i]);
        close(tell_fd);
        poll(&(struct pollfd){.fd = parent_fd, .events = POLLIN}, 1, -1);
        return 0;
}

int main(int argc, char **argv)
{
        char numbers[NET_SOCKETS][12], byte;
        int pair[2], fds[NET_SOCKETS];
        size_t count = NET_SOCKETS;
        pid_t pid;

        if (argc != 4 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return fail("usage: egress-box EGRESS CONTROL_FD RESOLV_CONF");
        pid = fork();
        if (pid == 0)
                return stay_inside(pair[1], argv[3]);
        close(pair[1]);
        if (fd_receive(pair[0], &byte, 1, fds, &count, 0) != 1 || count != NET_SOCKETS)
                return fail("get the sockets");
        for (int i = 0; i < NET_SOCKETS; i++) {
                fcntl(fds[i], F_SETFD, 0);
                snprintf(numbers[i], sizeof(numbers[i]), "%d", fds[i]);
        }
        printf("%d\n", (int)pid);
        fflush(stdout);
        if (setgroups(0, NULL) < 0 || setresgid(EGRESS_UID, EGRESS_UID, EGRESS_UID) < 0 ||
            setresuid(EGRESS_UID, EGRESS_UID, EGRESS_UID) < 0)
                return fail("give up root");
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        execl(argv[1], "cloche-egress", argv[2], numbers[0], numbers[1], numbers[2], (char *)NULL);
        return fail(argv[1]);
}
