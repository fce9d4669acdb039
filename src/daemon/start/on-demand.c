/* The user's own daemon, in the background. Runs in: the supervisor of a daemon on demand, before
 * and after it forks, with the rights of its starter. */
#include "on-demand.h"
#include "daemon/core/log.h"

#include "base/err.h"
#include "base/fd.h"
#include "user/daemon-find.h"
#include "user/runtime-dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define READY_FD 3
#define LOCK_FD 4
#define FIRST_FREE_FD 5
#define LOG_BYTES_MAX (1 << 20)

struct place {
        char directory[RUNTIME_DIR_BYTES];
        int directory_fd, lock_fd;
};

/* -- the directory -------------------------------------------------------------------------------------------- */

/* Open the first directory that can be made. */
static int open_directory(struct place *place, struct cloche_err *e)
{
        int usable,
                r = err_set(e, CLOCHE_E_NOT_FOUND, "there is no directory for this user's daemon: set XDG_RUNTIME_DIR");

        for (unsigned n = 0; r == -CLOCHE_E_NOT_FOUND && (usable = runtime_dir_place(n, place->directory)) >= 0; n++)
                if (usable)
                        r = runtime_dir_open(place->directory, 1, e);
        place->directory_fd = r;
        return r < 0 ? r : 0;
}

static int open_lock(const struct place *place, struct cloche_err *e)
{
        int fd = openat(place->directory_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        return fd >= 0 ? fd : err_os(e, CLOCHE_E_RESOURCE, errno, "open %s/lock", place->directory);
}

/* Hold the lock until this process ends: another starter waits here, and then finds our daemon. */
static int take_lock(struct place *place, struct cloche_err *e)
{
        place->lock_fd = open_lock(place, e);
        if (place->lock_fd < 0)
                return place->lock_fd;
        while (flock(place->lock_fd, LOCK_EX) < 0)
                if (errno != EINTR)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "lock %s/lock", place->directory);
        return 0;
}

/* -- the daemon ----------------------------------------------------------------------------------------------- */

/* Clear the variables that systemd set for the starter's unit. */
static void unset_service_variables(void)
{
        static const char *const names[] = {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET",
                                            "STATE_DIRECTORY"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                unsetenv(names[i]);
}

/* Move a descriptor above the ones with fixed numbers. */
static int move_up(int fd)
{
        return fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
}

/* Close every inherited descriptor: another process may wait for end of file on one of them. */
static int detach(const struct place *place, int ready_fd, struct cloche_err *e)
{
        int directory_fd = move_up(place->directory_fd), null_fd = move_up(open("/dev/null", O_RDWR)),
            log_fd = move_up(openat(directory_fd, "log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600)),
            lock_fd = move_up(open_lock(place, e));

        if (lock_fd < 0)
                return e->code ? err_wrap(e, "start the daemon")
                               : err_os(e, CLOCHE_E_RESOURCE, errno, "duplicate the descriptor of %s/lock",
                                        place->directory);
        if (directory_fd < 0 || null_fd < 0 || log_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "open %s/log", place->directory);
        ready_fd = move_up(ready_fd);
        if (ready_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "duplicate the descriptor of the starter's pipe");
        if (setsid() < 0 || chdir("/") < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 || dup2(log_fd, 2) < 0 ||
            dup3(ready_fd, READY_FD, O_CLOEXEC) < 0 || dup3(lock_fd, LOCK_FD, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "leave the terminal");
        close_range(FIRST_FREE_FD, ~0u, 0);
        return 0;
}

static int become_daemon(struct daemon_options *o, const struct place *place, int ready_fd)
{
        struct cloche_err e = {0};
        int r;

        o->on_demand.ready_fd = ready_fd;
        close(place->lock_fd); /* the starter's copy; the starter itself holds the lock */
        unset_service_variables();
        if (asprintf(&o->on_demand.socket_path, "%s/socket", place->directory) < 0)
                abort(); /* out of memory */
        o->socket_path = o->on_demand.socket_path;
        r = detach(place, ready_fd, &e);
        if (r < 0) {
                on_demand_fail(o, &e);
                _exit(1);
        }
        o->on_demand.ready_fd = READY_FD;
        o->on_demand.lock_fd = LOCK_FD;
        return 0;
}

/* -- the starter ---------------------------------------------------------------------------------------------- */

static int print_socket(const char *path)
{
        printf("%s\n", path);
        return fflush(stdout) == 0 ? 0 : 1;
}

static int fail(const struct cloche_err *e)
{
        fprintf(stderr, "cloched: %s\n", e->msg);
        return cloche_code_fault(e->code) == CLOCHE_FAULT_CALLER ? 2 : 1;
}

/* The daemon sends an error without a code when it is ready. */
static int wait_for(int ready_fd, const struct place *place)
{
        struct cloche_err e = {0};

        if (fd_read_full(ready_fd, &e, sizeof(e)) != 0) {
                fprintf(stderr, "cloched: the daemon ended before it was ready (its log is %s/log)\n",
                        place->directory);
                return 1;
        }
        e.msg[sizeof(e.msg) - 1] = '\0';
        return e.code ? fail(&e) : 0;
}

static int start(struct daemon_options *o, struct place *place, int *ret_code)
{
        char path[DAEMON_SOCKET_BYTES];
        int pair[2];
        pid_t pid = pipe2(pair, O_CLOEXEC) < 0 ? -1 : fork();

        if (pid == 0) {
                close(pair[0]);
                return become_daemon(o, place, pair[1]);
        }
        if (pid < 0) {
                fprintf(stderr, "cloched: cannot start a process: %s\n", strerror(errno));
                return *ret_code = 1, 1;
        }
        close(pair[1]);
        *ret_code = wait_for(pair[0], place);
        snprintf(path, sizeof(path), "%s/socket", place->directory);
        if (*ret_code == 0)
                *ret_code = print_socket(path);
        return 1;
}

int on_demand_enter(struct daemon_options *o, int *ret_code)
{
        struct place place = {.directory_fd = -EBADF, .lock_fd = -EBADF};
        char path[DAEMON_SOCKET_BYTES];
        struct cloche_err e = {0};
        int r = daemon_find(path, &e);

        if (r == 0)
                r = open_directory(&place, &e);
        if (r == 0)
                r = take_lock(&place, &e);
        if (r == 0)
                r = daemon_find(path, &e); /* it may have been started while we waited */
        if (r == 0)
                return start(o, &place, ret_code);
        if (r > 0 && !o->is_plain)
                fprintf(stderr, "cloched: a daemon runs already, and keeps its own options (cloche daemon stop ends a "
                                "user's own, which can then be started with these)\n");
        *ret_code = r < 0 ? fail(&e) : print_socket(path);
        return 1;
}

/* -- life of the daemon --------------------------------------------------------------------------------------- */

void on_demand_fail(const struct daemon_options *o, const struct cloche_err *e)
{
        if (o->on_demand.ready_fd >= 0)
                (void)fd_write_full(o->on_demand.ready_fd, e, sizeof(*e));
}

void on_demand_ready(struct daemon_options *o)
{
        static const struct cloche_err none;

        on_demand_fail(o, &none);
        fd_close(&o->on_demand.ready_fd);
}

int on_demand_lock(const struct daemon_options *o)
{
        return o->on_demand.lock_fd < 0 || flock(o->on_demand.lock_fd, LOCK_EX | LOCK_NB) == 0;
}

void on_demand_tidy_log(const struct daemon_options *o)
{
        struct stat st;

        if (o->is_on_demand && fstat(STDERR_FILENO, &st) == 0 && st.st_size > LOG_BYTES_MAX &&
            ftruncate(STDERR_FILENO, 0) < 0)
                log_event(LEVEL_WARNING, "log-is-long", "{s:s}", "why", strerror(errno));
}
