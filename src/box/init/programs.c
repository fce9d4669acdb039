/* Runs in: box-init. Programs of the engine: started, on a terminal if requested, and reported when
 * they end. */
#include "init.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/root.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SPAWN_FDS_MAX 5  /* 0, 1, 2, the channel, a template's fork socket */
#define SPAWNED_MAX 1024 /* live programs of the engine; processes that they start are not counted */
#define EXEC_LOOK_MS 100 /* a guest may stop the child before its exec; then we continue it */
#define EXEC_LOOKS_MAX 100
#define DIRECTORY_FAILED 4096 /* added to the errno of chdir(2) */
#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41) /* Linux 4.13 */
#endif

static pid_t spawned[SPAWNED_MAX];
static rlim_t cpu_limit_seconds, open_files_limit;

struct program {
        char *strings;
        size_t size;
        char **vector; /* cwd, arguments, NULL, environment, NULL */
        char **argv, **environment;
        uint32_t flags;
        int fds[SPAWN_FDS_MAX]; /* from 0 on; borrowed */
        size_t fd_count;
        int program_fd; /* borrowed; -EBADF: argv[0] is looked up */
        int master_fd, terminal_fd;
};

static void program_done(struct program *p)
{
        free(p->strings);
        free(p->vector);
        fd_close(&p->master_fd);
        fd_close(&p->terminal_fd);
}

void programs_set_up(rlim_t cpu_seconds, rlim_t open_files)
{
        cpu_limit_seconds = cpu_seconds;
        open_files_limit = open_files;
}

/* -- exits ---------------------------------------------------------------------------------------------------- */

static void send_exited(pid_t pid, int wait_status, const struct rusage *usage)
{
        struct init_answer answer = {
                .op = INIT_EXITED,
                .pid = pid,
                .wait_status = wait_status,
                .user_us = (uint64_t)usage->ru_utime.tv_sec * 1000000u + (uint64_t)usage->ru_utime.tv_usec,
                .system_us = (uint64_t)usage->ru_stime.tv_sec * 1000000u + (uint64_t)usage->ru_stime.tv_usec,
                .max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024u,
        };

        init_send(&answer, -EBADF);
}

static void reaped(pid_t pid, int wait_status, const struct rusage *usage)
{
        for (size_t i = 0; i < SPAWNED_MAX; i++)
                if (spawned[i] == pid) {
                        spawned[i] = 0;
                        send_exited(pid, wait_status, usage);
                        return;
                }
}

void programs_reap(int options)
{
        struct rusage usage;
        int wait_status;
        pid_t pid;

        while ((pid = wait4(-1, &wait_status, options, &usage)) > 0 || (pid < 0 && errno == EINTR))
                if (pid > 0)
                        reaped(pid, wait_status, &usage);
}

/* -- reading the request -------------------------------------------------------------------------------------- */

static int split_strings(struct program *p, uint32_t argc, uint32_t envc)
{
        char *at = p->strings, *end = p->strings + p->size;
        size_t n = 0;

        for (uint64_t i = 0; i < 1 + (uint64_t)argc + envc; i++) {
                char *zero = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

                if (!zero)
                        return -EPROTO;
                if (i == 1 + (uint64_t)argc)
                        p->vector[n++] = NULL;
                p->vector[n++] = at;
                at = zero + 1;
        }
        if (envc == 0)
                p->vector[n++] = NULL;
        p->vector[n] = NULL;
        p->argv = p->vector + 1;
        p->environment = p->vector + 1 + argc + 1;
        return at == end ? 0 : -EPROTO;
}

static int read_strings(const struct init_request *request, int fd, struct program *p)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size <= 0 || st.st_size > INIT_STRINGS_MAX || request->argc == 0 || request->argc > st.st_size ||
            request->envc > st.st_size)
                return -EPROTO;
        p->size = (size_t)st.st_size;
        p->strings = malloc(p->size);
        p->vector = calloc((size_t)request->argc + request->envc + 3, sizeof(char *));
        if (!p->strings || !p->vector)
                return -ENOMEM;
        if (pread(fd, p->strings, p->size, 0) != (ssize_t)p->size)
                return -EIO;
        return split_strings(p, request->argc, request->envc);
}

/* Processes beside it could otherwise change it through /proc/PID/exe. */
static int check_sealed(int fd, struct cloche_err *e)
{
        int seals = fcntl(fd, F_GET_SEALS);

        if (seals < 0 || !(seals & F_SEAL_WRITE) || !(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_GROW))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the program to start must be a memory file sealed against writing, shrinking and "
                               "growing");
        return 0;
}

/* The strings come first, the program last; between them come the descriptors 0, 1, 2 and so on. */
static int sort_descriptors(struct program *p, const int *fds, size_t fd_count, struct cloche_err *e)
{
        size_t is_program = p->flags & INIT_SPAWN_PROGRAM ? 1 : 0, is_terminal = p->flags & INIT_SPAWN_TERMINAL ? 1 : 0;
        size_t least = is_terminal ? 0 : 3, most = is_terminal ? 0 : SPAWN_FDS_MAX;

        if (p->flags & ~(uint32_t)(INIT_SPAWN_REAPS | INIT_SPAWN_TERMINAL | INIT_SPAWN_PROGRAM))
                return err_set(e, CLOCHE_E_PROTOCOL, "the flags of a program are 0x%x, of which some are unknown",
                               p->flags);
        if (fd_count < 1 + least + is_program || fd_count > 1 + most + is_program)
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "a program of this kind comes with %zu to %zu descriptors, not %zu",
                               1 + least + is_program, 1 + most + is_program, fd_count);
        p->fd_count = fd_count - 1 - is_program;
        for (size_t i = 0; i < p->fd_count; i++)
                p->fds[i] = fds[1 + i];
        p->program_fd = is_program ? fds[fd_count - 1] : -EBADF;
        return is_program ? check_sealed(p->program_fd, e) : 0;
}

static int open_terminal(const struct init_request *request, struct program *p, struct cloche_err *e)
{
        struct winsize size = {.ws_col = (unsigned short)request->cols, .ws_row = (unsigned short)request->rows};
        int locked = 0;

        if (request->cols < 1 || request->cols > UINT16_MAX || request->rows < 1 || request->rows > UINT16_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a terminal has 1 to %d columns and rows, not %u and %u",
                               UINT16_MAX, request->cols, request->rows);
        p->master_fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (p->master_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "open a terminal in the box%s",
                              errno == ENOENT ? " (only a sandbox's has them)" : "");
        if (ioctl(p->master_fd, TIOCSPTLCK, &locked) < 0 || ioctl(p->master_fd, TIOCSWINSZ, &size) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "set up a terminal in the box");
        p->terminal_fd = ioctl(p->master_fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (p->terminal_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "open the other end of a terminal");
        for (p->fd_count = 0; p->fd_count < 3; p->fd_count++)
                p->fds[p->fd_count] = p->terminal_fd;
        return 0;
}

/* -- the child ------------------------------------------------------------------------------------------------ */

/* Place the requested descriptors from 0 on; then the error pipe and the program, which exec
 * closes. */
static int arrange_descriptors(struct program *p, int *error_fd)
{
        int high[SPAWN_FDS_MAX + 2], *const last[] = {error_fd, &p->program_fd};
        size_t last_count = p->program_fd >= 0 ? 2 : 1;

        for (size_t i = 0; i < p->fd_count + last_count; i++) {
                high[i] = fcntl(i < p->fd_count ? p->fds[i] : *last[i - p->fd_count], F_DUPFD_CLOEXEC, 32);
                if (high[i] < 0)
                        return -errno;
        }
        for (size_t i = 0; i < p->fd_count; i++)
                if (dup2(high[i], (int)i) < 0)
                        return -errno;
        for (size_t i = 0; i < last_count; i++) {
                *last[i] = dup3(high[p->fd_count + i], (int)(p->fd_count + i), O_CLOEXEC);
                if (*last[i] < 0)
                        return -errno;
        }
        return close_range((unsigned)(p->fd_count + last_count), ~0u, 0) < 0 ? -errno : 0;
}

/* All descriptors that a user has in flight count together. A user that has more of them than
 * RLIMIT_NOFILE can send none (unix(7), ETOOMANYREFS). Boxes of an ordinary user all have one user,
 * the keeper's: so programs get a lower limit than PID 1 and the keeper. */
static int limit_open_files(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                return -errno;
        files.rlim_max -= files.rlim_max / 4;
        if (files.rlim_max > open_files_limit)
                files.rlim_max = open_files_limit;
        files.rlim_cur = files.rlim_max;
        return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

static int set_limits(void)
{
        struct rlimit cpu = {cpu_limit_seconds, cpu_limit_seconds};
        _cleanup_fd_ int score_fd = -EBADF;

        /* A process that is not dumpable may not write its own files in /proc. No descriptor of PID
         * 1 is open any more. */
        if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
                return -errno;
        /* When the box's memory runs out, PID 1 must die last (helper.c). */
        score_fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (score_fd < 0 || fd_write_full(score_fd, "500", 3) < 0)
                return -errno;
        if ((cpu_limit_seconds && setrlimit(RLIMIT_CPU, &cpu) < 0) || limit_open_files() < 0)
                return -errno;
        /* PID 1 of a sandbox has a higher priority, its programs do not. */
        return setpriority(PRIO_PROCESS, 0, 0) < 0 && errno != EACCES ? -errno : 0;
}

static int prepare_child(const struct program *p)
{
        sigset_t none;
        int r;

        root_keep_open();
        r = set_limits();
        if (r < 0)
                return r;
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setsid();
        if (p->flags & INIT_SPAWN_TERMINAL && ioctl(0, TIOCSCTTY, 0) < 0)
                return -errno;
        if (p->flags & INIT_SPAWN_REAPS && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return -errno;
        (void)files_make_parents(p->vector[0], NULL); /* chdir reports the error */
        if (mkdir(p->vector[0], 0755) < 0 && errno != EEXIST && errno != EROFS)
                return -errno;
        return chdir(p->vector[0]) < 0 ? -errno - DIRECTORY_FAILED : 0;
}

/* True for a program that execvp(3) found: then its loader, or that of its script, is missing. */
static int is_there(const char *name)
{
        const char *path = getenv("PATH");
        char file[4096];

        if (strchr(name, '/'))
                return access(name, F_OK) == 0;
        while (path && *path) {
                size_t size = strcspn(path, ":");

                if (size + strlen(name) + 2 <= sizeof(file)) {
                        snprintf(file, sizeof(file), "%.*s/%s", (int)size, path, name);
                        if (access(file, F_OK) == 0)
                                return 1;
                }
                path += size + (path[size] == ':');
        }
        return 0;
}

static _Noreturn void run_child(struct program *p, int error_fd)
{
        int r = arrange_descriptors(p, &error_fd);

        if (r == 0)
                r = prepare_child(p);
        if (r == 0) {
                environ = p->environment;
                if (p->program_fd >= 0)
                        syscall(SYS_execveat, p->program_fd, "", p->argv, p->environment, AT_EMPTY_PATH);
                else
                        execvp(p->argv[0], p->argv);
                r = errno == ENOENT && is_there(p->argv[0]) ? -ELIBACC : -errno;
        }
        if (write(error_fd, &r, sizeof(r)) < 0)
                _exit(126);
        _exit(127);
}

/* -- starting ------------------------------------------------------------------------------------------------- */

static pid_t *free_row(void)
{
        for (size_t i = 0; i < SPAWNED_MAX; i++)
                if (!spawned[i])
                        return &spawned[i];
        return NULL;
}

/* Wait for exec, which closes the pipe, or for the child's errno. */
static int wait_for_exec(pid_t pid, int read_fd)
{
        struct pollfd polled = {.fd = read_fd, .events = POLLIN};
        int code;

        for (int look = 0; poll(&polled, 1, EXEC_LOOK_MS) == 0; look++) {
                if (look == EXEC_LOOKS_MAX)
                        return -ETIMEDOUT;
                kill(pid, SIGCONT);
        }
        return fd_read_full(read_fd, &code, sizeof(code)) == 0 ? code : 0;
}

static int start(struct program *p, pid_t *ret_pid, struct cloche_err *e)
{
        _cleanup_fd_ int read_fd = -EBADF, write_fd = -EBADF;
        pid_t *row = free_row(), pid;
        int pair[2], code;

        if (!row)
                return err_set(e, CLOCHE_E_RESOURCE, "%d programs run in the box already", SPAWNED_MAX);
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe in the box");
        read_fd = pair[0];
        write_fd = pair[1];
        pid = fork();
        if (pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork in the box");
        if (pid == 0)
                run_child(p, write_fd);
        fd_close(&write_fd);
        code = wait_for_exec(pid, read_fd);
        if (code != 0) {
                kill(pid, SIGKILL); /* reaped by the loop: it may hang in a call of a mount */
                /* Without an errno, which would say that the program is missing. */
                return code <= -DIRECTORY_FAILED ? err_set(e, CLOCHE_E_SPAWN, "start %s in %.200s: %s", p->argv[0],
                                                           p->vector[0], strerror(-code - DIRECTORY_FAILED))
                                                 : err_os(e, CLOCHE_E_SPAWN, -code, "start %s", p->argv[0]);
        }
        *row = *ret_pid = pid;
        return 0;
}

int programs_spawn(const struct init_request *request, const int *fds, size_t fd_count, pid_t *ret_pid, int *ret_fd,
                   struct cloche_err *e)
{
        __attribute__((cleanup(program_done))) struct program p = {.flags = request->flags,
                                                                   .program_fd = -EBADF,
                                                                   .master_fd = -EBADF,
                                                                   .terminal_fd = -EBADF};
        int r = sort_descriptors(&p, fds, fd_count, e);

        if (r < 0)
                return r;
        r = read_strings(request, fds[0], &p);
        if (r < 0)
                return err_os(e, CLOCHE_E_PROTOCOL, -r, "read the program's strings");
        if (p.flags & INIT_SPAWN_TERMINAL)
                r = open_terminal(request, &p, e);
        if (r == 0)
                r = start(&p, ret_pid, e);
        if (r == 0)
                *ret_fd = TAKE_FD(p.master_fd);
        return r;
}
