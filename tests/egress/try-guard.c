/* Enters the guards of cloche-egress and tries refused calls, and beside them permitted ones. Prints failures. */
#include "helpers/egress/control.h"
#include "jail/filter/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

static int wrong;

static void expect(const char *what, long result, int refused)
{
        if (refused ? result != -1 || (errno != EPERM && errno != EACCES) : result < 0) {
                printf("%s: %s\n", what, refused ? "it was not refused" : "it was refused");
                wrong = 1;
        }
}

static void on_word(uv_poll_t *poll, int status, int events)
{
        (void)events;
        *(int *)poll->data = status;
        uv_poll_stop(poll);
}

/* A loop that was made before the guard serves a descriptor that it was given after. */
static void try_loop(uv_loop_t *loop, int pair[2])
{
        int heard = -1;
        uv_poll_t poll = {.data = &heard};

        expect("a descriptor for the loop", uv_poll_init(loop, &poll, pair[0]), 0);
        expect("a watched descriptor", uv_poll_start(&poll, UV_READABLE, on_word), 0);
        expect("a word to the loop", write(pair[1], "w", 1), 0);
        uv_run(loop, UV_RUN_DEFAULT);
        expect("a word in the loop", heard, 0);
}

int main(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons(9)};
        struct cloche_err e = {0};
        json_t *guards = NULL;
        uv_loop_t loop;
        void *page;
        int pair[2], fd;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return 1;
        filter_refuse_rings();
        expect("io_uring before the loop", syscall(SYS_io_uring_setup, 1, NULL), 1);
        if (uv_loop_init(&loop) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ||
            guard_enter(NULL, &guards, &e) < 0) {
                printf("%s\n", e.msg);
                return 1;
        }
        try_loop(&loop, pair);
        expect("fork", syscall(SYS_fork), 1);
        expect("clone3", syscall(SYS_clone3, NULL, 0), 1);
        expect("execve", syscall(SYS_execve, "/bin/true", NULL, NULL), 1);
        expect("open", syscall(SYS_open, "/etc/hosts", O_RDONLY), 1);
        expect("openat", syscall(SYS_openat, AT_FDCWD, "/etc/resolv.conf", O_RDONLY), 1);
        expect("stat", syscall(SYS_newfstatat, AT_FDCWD, "/etc", &address, 0), 1);
        expect("unix socket", syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0), 1);
        expect("netlink", syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0), 1);
        expect("packet socket", syscall(SYS_socket, AF_PACKET, SOCK_RAW, 0), 1);
        expect("socket pair", syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, &address), 1);
        expect("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0), 1);
        expect("kill", syscall(SYS_kill, 1, 0), 1);
        expect("setns", syscall(SYS_setns, 0, 0), 1);
        expect("unshare", syscall(SYS_unshare, CLONE_NEWUSER), 1);
        expect("io_uring", syscall(SYS_io_uring_setup, 1, NULL), 1);
        expect("memfd", syscall(SYS_memfd_create, "x", 0), 1);
        expect("mount", syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL), 1);
        expect("prctl", syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0), 1);
        expect("limits", syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &address), 1);
        expect("memory to run", (long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1);
        page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        expect("memory", (long)page, 0);
        expect("memory made to run", mprotect(page, 4096, PROT_READ | PROT_EXEC), 1);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        expect("socket of the internet", fd, 0);
        expect("bind", bind(fd, (struct sockaddr *)&address, sizeof(address)), 1);
        expect("listen", listen(fd, 1), 1);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno != ECONNREFUSED)
                expect("connect", -1, 0);
        expect("socket of the newer internet", socket(AF_INET6, SOCK_DGRAM, 0), 0);
        json_decref(guards);
        return wrong;
}
