#include "state.h"
#include "log.h"
#include "privilege.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"
#include "user/xdg.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define OF_ROOT "/var/lib/cloche"
#define OF_ROOT_ON_DEMAND "/var/lib/cloche-root" /* the system's daemon may start at any time */
#define LOCK_NS UINT64_C(3000000000)
#define FOLDER "sandboxes" /* the token stands beside it, and is not to be the daemon's user's */

/* -- which ---------------------------------------------------------------------------------------------------- */

/* Empty: there is no place for it. */
static void default_path(int is_on_demand, char *ret, size_t size)
{
        const char *systemd = getenv("STATE_DIRECTORY");

        ret[0] = '\0';
        if (systemd && *systemd == '/')
                snprintf(ret, size, "%.*s/" FOLDER, (int)strcspn(systemd, ":"), systemd);
        else if (privilege_is_root())
                snprintf(ret, size, "%s/" FOLDER, is_on_demand ? OF_ROOT_ON_DEMAND : OF_ROOT);
        else if (xdg_find("XDG_STATE_HOME", ".local/state", "cloche/" FOLDER, ret, size) < 0)
                ret[0] = '\0';
}

/* The daemon's user passes through the directory above, and reads nothing in it. */
static void let_through(char *path)
{
        char *slash = strrchr(path, '/');
        struct stat st;

        *slash = '\0';
        if (stat(path, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & S_IXOTH))
                (void)chmod(path, (st.st_mode & 07777) | S_IXOTH);
        *slash = '/';
}

/* -- taking it ------------------------------------------------------------------------------------------------ */

static int is_empty(int fd)
{
        int copy_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), count = 0;
        DIR *dir = copy_fd < 0 ? NULL : fdopendir(copy_fd);

        if (!dir && copy_fd >= 0)
                close(copy_fd);
        while (dir && count <= 2 && readdir(dir))
                count++;
        if (dir)
                closedir(dir);
        return dir && count <= 2;
}

/* Root's directory becomes the daemon's user's when nothing else is in it: a path that was mistyped must not. */
static int give_to_daemon(int fd, const char *path, struct cloche_err *e)
{
        struct stat st;

        if (!privilege_is_root())
                return 0;
        if (fstat(fd, &st) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "look at %.200s", path);
        if (st.st_uid == DAEMON_UID)
                return 0;
        if (st.st_uid != 0 || !is_empty(fd))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "--state-dir %.200s must be a new or empty directory of root, or one that was given before", path);
        return fchown(fd, DAEMON_UID, DAEMON_UID) < 0 || fchmod(fd, 0700) < 0
                       ? err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "give %.200s to the daemon's user", path)
                       : 0;
}

/* The engine of a daemon that was killed just now lets go of it in a moment. */
static int lock(int fd)
{
        const struct timespec pause = {.tv_nsec = 10000000};
        uint64_t since_ns = clock_now_ns();

        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK || clock_now_ns() - since_ns > LOCK_NS)
                        return -errno;
                nanosleep(&pause, NULL);
        }
        return 0;
}

/* 1: another daemon has it. */
static int take(struct daemon *d, const char *path, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        int r;

        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "make the directory %.200s", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the directory %.200s", path);
        r = lock(fd);
        if (r < 0)
                return r == -EWOULDBLOCK ? 1 : err_os(e, CLOCHE_E_UNREADABLE_FILE, -r, "lock %.200s", path);
        r = give_to_daemon(fd, path, e);
        if (r < 0)
                return r;
        d->state_dir = realpath(path, NULL);
        d->state_lock_fd = TAKE_FD(fd);
        return d->state_dir ? 0 : err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "resolve %.200s", path);
}

static int open_named(struct daemon *d, struct cloche_err *e)
{
        int r = take(d, d->options.state_dir, e);

        return r == 1 ? err_set(e, CLOCHE_E_STATE, "another daemon saves its sandboxes in %.200s", d->options.state_dir) : r;
}

int state_open(struct daemon *d, struct cloche_err *e)
{
        char path[4096];
        int r;

        if (d->options.state_dir)
                return *d->options.state_dir ? open_named(d, e) : 0;
        if (d->options.connect_fd >= 0)
                return 0; /* what a private daemon makes is its client's, and ends with him */
        default_path(d->options.is_on_demand, path, sizeof(path));
        if (*path) {
                (void)xdg_make_parents(path); /* opening the directory reports the error */
                let_through(path);
        }
        r = *path ? take(d, path, e) : 1;
        if (r == 1 && *path && d->options.is_on_demand)
                return err_set(e, CLOCHE_E_STATE, "another daemon of this user saves its sandboxes in %.100s: end it, or name it by --socket or CLOCHE_SOCKET", path);
        if (r == 1)
                log_event(LEVEL_WARNING, "sandboxes-not-saved", "{s:s, s:s}", "path", path, "why",
                          *path ? "another daemon saves its sandboxes there" : "there is no home directory");
        return r < 0 ? r : 0;
}

int state_check(const struct daemon *d, struct cloche_err *e)
{
        if (!d->state_dir || access(d->state_dir, R_OK | W_OK | X_OK) == 0)
                return 0;
        return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "user %u of the daemon uses --state-dir %.200s", (unsigned)geteuid(), d->state_dir);
}

void state_close(struct daemon *d)
{
        free(d->state_dir);
        d->state_dir = NULL;
        fd_close(&d->state_lock_fd);
}
