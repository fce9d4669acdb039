/* Enters the filter of the daemon's engine and tries calls that kill, calls that are refused,
 * and permitted ones. Prints failures. */
#include "jail/filter/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum outcome { DONE, REFUSED, UNKNOWN, KILLED };

static const struct sock_filter calls[] = {
#include "daemon-filter-rows.inc"
};
static const char *const words[] = {"done", "refused", "unknown", "killed"};
static int wrong;

static void expect(const char *what, enum outcome expected, enum outcome found)
{
        if (found != expected) {
                printf("%s: %s, expected %s\n", what, words[found], words[expected]);
                wrong = 1;
        }
}

static enum outcome outcome_of(long result)
{
        return result != -1      ? DONE
               : errno == EPERM  ? REFUSED
               : errno == ENOSYS ? UNKNOWN
                                 : DONE; /* any other error is the call's own */
}

static void enter(void)
{
        struct cloche_err e;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || FILTER_ENTER(calls, &e) < 0)
                _exit(100);
}

/* Each in a process of its own. */
static void try(const char *what, enum outcome expected, long number, long a, long b, long c, long d, long e)
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                enter();
                _exit(outcome_of(syscall(number, a, b, c, d, e, 0)));
        }
        waitpid(pid, &status, 0);
        expect(what, expected,
               WIFSIGNALED(status) ? (WTERMSIG(status) == SIGSYS ? KILLED : DONE) : (enum outcome)WEXITSTATUS(status));
}

static void *work(void *data)
{
        return data;
}

static void try_thread(void)
{
        int status, result = 1;
        pid_t pid = fork();

        if (pid == 0) {
                pthread_t thread;
                void *ret = NULL;

                enter();
                _exit(pthread_create(&thread, NULL, work, &result) != 0 || pthread_join(thread, &ret) != 0 ||
                      ret != &result);
        }
        waitpid(pid, &status, 0);
        expect("a thread", DONE, WIFEXITED(status) && WEXITSTATUS(status) == 0 ? DONE : REFUSED);
}

/* The filter is in force in threads that were there before. */
static void *call_in_thread(void *data)
{
        int *pair = data;
        char byte;

        if (read(pair[0], &byte, 1) == 1)
                syscall(SYS_execve, "/bin/true", NULL, NULL);
        return NULL;
}

static void try_older_thread(void)
{
        int status, pair[2];
        pid_t pid = fork();

        if (pid == 0) {
                pthread_t thread;

                if (pipe(pair) < 0 || pthread_create(&thread, NULL, call_in_thread, pair) != 0)
                        _exit(100);
                enter();
                _exit(write(pair[1], "x", 1) != 1 || pthread_join(thread, NULL) != 0);
        }
        waitpid(pid, &status, 0);
        expect("a call in an older thread", KILLED, WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? KILLED : DONE);
}

#define THREAD 0x3d0f00

int main(void)
{
        const struct {
                const char *what;
                enum outcome expected;
                long number, a, b, c, d, e;
        } rows[] = {
                {"execve", KILLED, SYS_execve, (long)"/bin/true"},
                {"execveat", KILLED, SYS_execveat, AT_FDCWD, (long)"/bin/true"},
                {"fork", KILLED, SYS_fork},
                {"vfork", KILLED, SYS_vfork},
                {"clone of a process", KILLED, SYS_clone, SIGCHLD},
                {"clone into a new user namespace", KILLED, SYS_clone, CLONE_NEWUSER | SIGCHLD},
                {"clone of a process that shares memory", KILLED, SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD},
                {"clone of a thread into a new namespace", UNKNOWN, SYS_clone, THREAD | CLONE_NEWNET},
                {"clone of a traced thread", UNKNOWN, SYS_clone, THREAD | CLONE_PTRACE},
                {"clone3", UNKNOWN, SYS_clone3},
                {"ptrace", KILLED, SYS_ptrace, 0 /* PTRACE_TRACEME */},
                {"process_vm_readv", KILLED, SYS_process_vm_readv, 1},
                {"process_vm_writev", KILLED, SYS_process_vm_writev, 1},
                {"pidfd_getfd", KILLED, SYS_pidfd_getfd, -1},
                {"kill", KILLED, SYS_kill, 1, 0},
                {"pidfd_send_signal", KILLED, SYS_pidfd_send_signal, -1},
                {"tgkill", UNKNOWN, SYS_tgkill, 1, 1, SIGKILL},
                {"tkill", UNKNOWN, SYS_tkill, 1, 0},
                {"unshare", KILLED, SYS_unshare, 0},
                {"setns", KILLED, SYS_setns, -1},
                {"mount", KILLED, SYS_mount, 0},
                {"umount", KILLED, SYS_umount2, 0},
                {"chroot", KILLED, SYS_chroot, (long)"/"},
                {"pivot_root", KILLED, SYS_pivot_root, 0},
                {"fsopen", KILLED, SYS_fsopen, 0},
                {"open_tree", KILLED, SYS_open_tree, -1},
                {"move_mount", KILLED, SYS_move_mount, -1},
                {"open_by_handle_at", KILLED, SYS_open_by_handle_at, -1},
                {"setuid", KILLED, SYS_setuid, 0},
                {"setresuid", KILLED, SYS_setresuid, -1, -1, -1},
                {"setgroups", KILLED, SYS_setgroups, 0},
                {"capset", KILLED, SYS_capset, 0},
                {"bpf", KILLED, SYS_bpf, -1},
                {"perf_event_open", KILLED, SYS_perf_event_open, 0},
                {"userfaultfd", KILLED, SYS_userfaultfd, 0},
                {"keyctl", KILLED, SYS_keyctl, 0},
                {"add_key", KILLED, SYS_add_key, 0},
                {"init_module", KILLED, SYS_init_module, 0},
                {"finit_module", KILLED, SYS_finit_module, -1},
                {"kexec_load", KILLED, SYS_kexec_load, 0},
                {"reboot", KILLED, SYS_reboot, 0},
                {"a socket of the internet", REFUSED, SYS_socket, AF_INET, SOCK_STREAM},
                {"a unix socket", REFUSED, SYS_socket, AF_UNIX, SOCK_STREAM},
                {"a netlink socket", REFUSED, SYS_socket, AF_NETLINK, SOCK_RAW},
                {"connect", REFUSED, SYS_connect, -1},
                {"bind", REFUSED, SYS_bind, -1},
                {"listen", REFUSED, SYS_listen, -1},
                {"a pair of datagram sockets", UNKNOWN, SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC},
                {"to send so that it connects", UNKNOWN, SYS_sendto, -1, 0, 0, MSG_DONTWAIT | MSG_FASTOPEN},
                {"to send a message so that it connects", UNKNOWN, SYS_sendmsg, -1, 0, MSG_FASTOPEN},
                {"a pair of netlink sockets", UNKNOWN, SYS_socketpair, AF_NETLINK, SOCK_RAW},
                {"memory to run", REFUSED, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS},
                {"memory made to run", REFUSED, SYS_mprotect, 0, 4096, PROT_READ | PROT_EXEC},
                {"pkey_mprotect", UNKNOWN, SYS_pkey_mprotect, 0, 4096, PROT_READ | PROT_EXEC, -1},
                {"io_uring_setup", UNKNOWN, SYS_io_uring_setup, 1},
                {"io_uring_enter", UNKNOWN, SYS_io_uring_enter, -1},
                {"prctl", UNKNOWN, SYS_prctl, PR_SET_DUMPABLE, 1},
                {"seccomp", UNKNOWN, SYS_seccomp, 0},
                {"landlock_create_ruleset", UNKNOWN, SYS_landlock_create_ruleset, 0},
                {"a new limit", UNKNOWN, SYS_prlimit64, 0, RLIMIT_NOFILE, 1},
                {"chmod", UNKNOWN, SYS_chmod, (long)"/nowhere", 0777},
                {"chown", UNKNOWN, SYS_fchownat, AT_FDCWD, (long)"/nowhere"},
                {"link", DONE, SYS_linkat, -1, (long)"x", -1, (long)"y"},
                {"link of a descriptor", UNKNOWN, SYS_linkat, -1, (long)"", -1, (long)"y", AT_EMPTY_PATH},
                {"link of a link's target", UNKNOWN, SYS_linkat, -1, (long)"x", -1, (long)"y", AT_SYMLINK_FOLLOW},
                {"symlink", UNKNOWN, SYS_symlinkat, (long)"x", -1, (long)"y"},
                {"mknod", UNKNOWN, SYS_mknodat, -1, (long)"x"},
                {"pushing into a terminal", UNKNOWN, SYS_ioctl, 0, TIOCSTI, 0},
                {"a filter of a socket", UNKNOWN, SYS_setsockopt, -1, SOL_SOCKET, SO_ATTACH_FILTER},
                {"an option of IPv6", UNKNOWN, SYS_setsockopt, -1, IPPROTO_IPV6, SO_KEEPALIVE},
                {"a lease", UNKNOWN, SYS_fcntl, 0, F_SETLEASE, F_RDLCK},
                {"whose signals", UNKNOWN, SYS_fcntl, 0, F_SETOWN, 1},
                /* The twins. */
                {"openat", DONE, SYS_openat, AT_FDCWD, (long)"/", O_RDONLY},
                {"a limit that is read", DONE, SYS_prlimit64, 0, RLIMIT_NOFILE, 0, 0},
                {"memory", DONE, SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS},
                {"a pair of unix sockets", DONE, SYS_socketpair, AF_UNIX, SOCK_STREAM},
                {"a pair of sockets for packets", DONE, SYS_socketpair, AF_UNIX,
                 SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK},
                {"to send", DONE, SYS_sendto, -1, 0, 0, MSG_DONTWAIT | MSG_NOSIGNAL},
                {"to send a message", DONE, SYS_sendmsg, -1, 0, MSG_NOSIGNAL},
                {"a memory file", DONE, SYS_memfd_create, (long)"x", MFD_CLOEXEC},
                {"an option of TCP", DONE, SYS_setsockopt, -1, IPPROTO_TCP, TCP_NODELAY},
                {"keeping alive", DONE, SYS_setsockopt, -1, SOL_SOCKET, SO_KEEPALIVE},
                {"a size of a terminal", DONE, SYS_ioctl, -1, TIOCSWINSZ},
                {"flags", DONE, SYS_fcntl, 0, F_GETFL},
                {"wait4", DONE, SYS_wait4, -1, 0, WNOHANG},
                {"getpid", DONE, SYS_getpid},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                try(rows[i].what, rows[i].expected, rows[i].number, rows[i].a, rows[i].b, rows[i].c, rows[i].d,
                    rows[i].e);
        try_thread();
        try_older_thread();
        return wrong;
}
