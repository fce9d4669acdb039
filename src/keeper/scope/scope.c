/* Runs in: the keeper, at its start, before any box. The helper links libsystemd, which parses
 * messages of the bus: so this code stays out of the keeper, and the helper has exited before the
 * first guest begins. */
#include "keeper/scope/scope.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "keeper/box.h"
#include "proto/scope.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define TIMEOUT_MS (SCOPE_TIMEOUT_MS + 5000) /* the helper's own timeout comes first */
#define STATUS_NO_PROGRAM 127
#define STATUS_KILLED (-1)
#define REASON_MAX 200
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCu /* linux/proc_ns.h: PROC_PID_INIT_INO */

static _Noreturn void run_helper(int program_fd, int output_fd)
{
        char pid[16];
        char *const argv[] = {(char *)"cloche-scope", pid, NULL}, *const environment[] = {NULL};
        int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

        snprintf(pid, sizeof(pid), "%d", (int)getppid());
        if (null_fd >= 0 && dup2(null_fd, 0) >= 0 && dup2(output_fd, 1) >= 0 && dup2(null_fd, 2) >= 0 &&
            close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
                syscall(SYS_execveat, program_fd, "", argv, environment, AT_EMPTY_PATH);
        _exit(STATUS_NO_PROGRAM);
}

/* Read the helper's output until it exits or the time is over; terminated. */
static void read_reason(int fd, char *ret, size_t size)
{
        uint64_t deadline_ns = clock_now_ns() + (uint64_t)TIMEOUT_MS * 1000000;
        size_t have = 0;

        for (;;) {
                struct pollfd polled = {.fd = fd, .events = POLLIN};
                uint64_t now_ns = clock_now_ns();
                ssize_t n;

                if (now_ns >= deadline_ns || poll(&polled, 1, (int)((deadline_ns - now_ns) / 1000000) + 1) <= 0 ||
                    have + 1 >= size)
                        break;
                n = read(fd, ret + have, size - 1 - have);
                if (n <= 0)
                        break;
                have += (size_t)n;
        }
        ret[have] = '\0';
}

static int helper_status(pid_t pid)
{
        int status;

        kill(pid, SIGKILL); /* it has ended, or its time is over */
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return STATUS_KILLED;
        return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_KILLED;
}

static int status_error(int status, const char *reason, struct cloche_err *e)
{
        switch (status) {
        case SCOPE_MOVED:
                return 0;
        case SCOPE_NO_MANAGER:
                return err_set(e, CLOCHE_E_NOT_FOUND, "no service manager serves user %u", (unsigned)geteuid());
        case STATUS_NO_PROGRAM:
                return err_set(e, CLOCHE_E_CGROUP, "cloche-scope cannot start: is libsystemd installed?");
        case STATUS_KILLED:
                return err_set(e, CLOCHE_E_CGROUP, "systemd did not answer within %d s", TIMEOUT_MS / 1000);
        default:
                return err_set(e, CLOCHE_E_CGROUP, "%s", reason[0] ? reason : "cloche-scope failed without a reason");
        }
}

/* The request names this process by its pid, which the service manager reads in its own pid
 * namespace: both must be in the same one. */
static int is_in_managers_namespace(void)
{
        _cleanup_fd_ int fd = open("/proc/1/comm", O_RDONLY | O_CLOEXEC);
        char name[8] = "";
        struct stat st;

        if (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == INITIAL_PID_NAMESPACE)
                return 1;
        return fd >= 0 && read(fd, name, sizeof(name)) == sizeof(name) && memcmp(name, "systemd\n", sizeof(name)) == 0;
}

int scope_request(const void *data, struct cloche_err *e)
{
        _cleanup_fd_ int program_fd = serve_open_beside(data, "cloche-scope", O_PATH), read_fd = -EBADF,
                         write_fd = -EBADF;
        char reason[REASON_MAX];
        int pair[2];
        pid_t pid;

        if (access("/run/systemd/system", F_OK) < 0 || !is_in_managers_namespace()) /* sd_booted(3) */
                return status_error(SCOPE_NO_MANAGER, "", e);
        if (program_fd < 0)
                return err_os(e, CLOCHE_E_CGROUP, -program_fd, "open cloche-scope beside box-init");
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_CGROUP, errno, "make a pipe");
        read_fd = pair[0];
        write_fd = pair[1];
        pid = fork();
        if (pid < 0)
                return err_os(e, CLOCHE_E_CGROUP, errno, "fork");
        if (pid == 0)
                run_helper(program_fd, write_fd);
        fd_close(&write_fd);
        read_reason(read_fd, reason, sizeof(reason));
        return status_error(helper_status(pid), reason, e);
}
