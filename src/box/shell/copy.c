/* A command beside the shell: the shell forks a supervisor, and the supervisor forks the copy,
 * which runs the command and whose pid is reported. The supervisor sees the exit of the copy, even
 * if it is killed or executes a program. Both reap: leftovers of the command stay beneath the copy
 * while that lives, then beneath the supervisor, which exits when none is left.
 * Runs in: bash of a session, with the guest's rights, beside the guest's code. */
#include "session.h"

#include "base/fd.h"

#include <command.h>
#include <jobs.h>
#include <sig.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern int subshell_environment, subshell_level;

/* Declared in trap.h, which Debian does not ship. */
void reset_signal_handlers(void);
void clear_pending_traps(void);

/* -- the copy -------------------------------------------------------------------------------------------------- */

/* As the shell does for `( … ) &`, except that SIGINT is not ignored. */
static void become_subshell(void)
{
        clear_pending_traps();
        reset_signal_handlers();
        subshell_environment = SUBSHELL_ASYNC | SUBSHELL_PAREN | SUBSHELL_RESETTRAP;
        subshell_level++;
        without_job_control();
        restore_sigmask();
}

static _Noreturn void run_copy(struct session_request *request)
{
        fd_close(&request->fds[4]);
        setsid();
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        become_subshell();
        command_run_and_exit(request);
}

/* -- the supervisor -------------------------------------------------------------------------------------------- */

static void send_status(int status_fd, int wait_status, const struct rusage *usage)
{
        const struct shell_status status = {
                .wait_status = wait_status,
                .user_us = (uint64_t)usage->ru_utime.tv_sec * 1000000 + (uint64_t)usage->ru_utime.tv_usec,
                .system_us = (uint64_t)usage->ru_stime.tv_sec * 1000000 + (uint64_t)usage->ru_stime.tv_usec,
                .max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024,
        };

        fd_write_full(status_fd, &status, sizeof(status));
        close(status_fd);
}

static void close_all_but(int fd)
{
        if (fd > 0)
                close_range(0, (unsigned)fd - 1, 0);
        close_range((unsigned)fd + 1, ~0u, 0);
}

/* Every signal is blocked: a signal to the whole tree must not kill the process that reports its
 * end. */
static _Noreturn void supervise(pid_t copy, int status_fd)
{
        struct rusage usage;
        int wait_status;
        pid_t pid;

        close_all_but(status_fd);
        while ((pid = wait4(-1, &wait_status, 0, &usage)) > 0 || errno == EINTR)
                if (pid == copy)
                        send_status(status_fd, wait_status, &usage);
        _exit(0);
}

static _Noreturn void run_supervisor(struct session_request *request, int pid_fd)
{
        int32_t pid;

        setsid();
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        pid = fork();
        if (pid == 0) {
                close(pid_fd);
                run_copy(request);
        }
        pid = pid < 0 ? -errno : pid;
        fd_write_full(pid_fd, &pid, sizeof(pid));
        if (pid < 0)
                _exit(1);
        supervise(pid, request->fds[4]);
}

static pid_t fork_supervisor(struct session_request *request, int read_fd, int write_fd)
{
        sigset_t all, before;
        pid_t pid;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before);
        pid = fork();
        if (pid == 0) {
                close(read_fd);
                run_supervisor(request, write_fd);
        }
        pid = pid < 0 ? -errno : pid;
        sigprocmask(SIG_SETMASK, &before, NULL);
        return pid;
}

pid_t copy_run(struct session_request *request, pid_t *ret_supervisor)
{
        _cleanup_fd_ int read_fd = -EBADF, write_fd = -EBADF;
        int32_t pid;
        int fds[2], r;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        read_fd = fds[0];
        write_fd = fds[1];
        fflush(stdout);
        r = fork_supervisor(request, read_fd, write_fd);
        fd_close(&write_fd);
        if (r < 0)
                return r;
        *ret_supervisor = r;
        r = fd_read_full(read_fd, &pid, sizeof(pid));
        return r < 0 ? r : pid;
}
