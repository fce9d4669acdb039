/* Enters the filter of cloche-fs and tries refused calls, and beside them permitted ones. Prints failures. */
#include "jail/filter/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct sock_filter calls[] = {
#include "fs-filter-rows.inc"
};
static int wrong;

static void expect(const char *what, long result, int refused)
{
        if (refused ? result != -1 || errno != EPERM : result < 0) {
                printf("%s: %s\n", what, refused ? "it was not refused" : "it was refused");
                wrong = 1;
        }
}

int main(void)
{
        int fd = open("/", O_RDONLY | O_DIRECTORY);
        struct cloche_err e = {0};
        void *page;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || FILTER_ENTER(calls, &e) < 0) {
                printf("%s\n", e.msg);
                return 1;
        }
        expect("fork", syscall(SYS_fork), 1);
        expect("vfork", syscall(SYS_clone, SIGCHLD | CLONE_VFORK, 0, 0, 0, 0), 1);
        expect("clone3", syscall(SYS_clone3, NULL, 0), 1);
        expect("execve", syscall(SYS_execve, "/bin/true", NULL, NULL), 1);
        expect("socket", syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0), 1);
        expect("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0), 1);
        expect("kill", syscall(SYS_kill, 1, 0), 1);
        expect("tgkill of another signal", syscall(SYS_tgkill, getpid(), getpid(), 0), 1);
        expect("open", syscall(SYS_open, "/etc/passwd", O_RDONLY), 1);
        expect("chmod", syscall(SYS_fchmodat, fd, "x", 0777), 1);
        expect("mkdir", syscall(SYS_mkdirat, fd, "x", 0777), 1);
        expect("rename", syscall(SYS_renameat2, fd, "x", fd, "y", 0), 1);
        expect("link", syscall(SYS_linkat, fd, "x", fd, "y", 0), 1);
        expect("io_uring", syscall(SYS_io_uring_setup, 1, NULL), 1);
        expect("mount", syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL), 1);
        expect("memfd", syscall(SYS_memfd_create, "x", 0), 1);
        expect("prctl", syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0), 1);
        expect("ioctl", syscall(SYS_ioctl, 0, 0x5401, NULL), 1);
        expect("fcntl", syscall(SYS_fcntl, fd, F_SETLEASE, F_RDLCK), 1);
        expect("memory to run", (long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1);
        page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        expect("memory", (long)page, 0);
        expect("memory made to run", mprotect(page, 4096, PROT_READ | PROT_EXEC), 1);
        expect("memory made read-only", mprotect(page, 4096, PROT_READ), 0);
        expect("fcntl(F_GETFL)", fcntl(fd, F_GETFL), 0);
        expect("openat", openat(fd, "etc", O_RDONLY | O_DIRECTORY), 0);
        expect("getpid", getpid(), 0);
        return wrong;
}
