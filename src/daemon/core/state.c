/* The directory of saved sandboxes. Runs in: cloched-engine, at its start with the rights of its
 * starter; state_check and state_close with those of the daemon's user. */
#include "state.h"
#include "daemon/start/own-user.h"
#include "log.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"
#include "user/xdg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define OF_ROOT "/var/lib/cloche"
#define OF_ROOT_ON_DEMAND "/var/lib/cloche-root" /* the system's daemon may start at any time */
#define LOCK_NS UINT64_C(3000000000)
#define STORE_DEPTH 3      /* PRINCIPAL/NAME/files (sandbox/core/store.c) */
#define BUILDS ".builds"   /* not a valid name of a principal */
#define FOLDER "sandboxes" /* the token is beside it, and must not belong to the daemon's user */

/* -- the default directory ------------------------------------------------------------------------------------ */

/* Return the default path; empty if there is none. */
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

/* Let the daemon's user pass through the parent directory, without reading it. */
static void let_through(char *path)
{
        char *slash = strrchr(path, '/');
        struct stat st;

        *slash = '\0';
        if (stat(path, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & S_IXOTH))
                (void)chmod(path, (st.st_mode & 07777) | S_IXOTH);
        *slash = '/';
}

/* -- taking the directory ------------------------------------------------------------------------------------- */

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

static int give_below(int dir_fd, uid_t uid, dev_t device, unsigned depth);

/* Change the owner of files of daemons' users only. Each file is checked, changed and listed
 * through one descriptor, because the previous daemon may have left symlinks. */
static int give_entry(int dir_fd, const char *name, uid_t uid, dev_t device, unsigned depth)
{
        _cleanup_fd_ int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (st.st_dev != device || !own_user_is_any(st.st_uid))
                return 0;
        if (fchownat(fd, "", uid, uid, AT_EMPTY_PATH) < 0)
                return -errno;
        return S_ISDIR(st.st_mode) && depth > 0 ? give_below(fd, uid, device, depth - 1) : 0;
}

static int give_below(int dir_fd, uid_t uid, dev_t device, unsigned depth)
{
        int list_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = list_fd < 0 ? NULL : fdopendir(list_fd);

        if (!dir) {
                r = -errno;
                fd_close(&list_fd);
                return r;
        }
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = give_entry(dir_fd, entry->d_name, uid, device, depth);
        closedir(dir);
        return r;
}

/* The directory's mode is 0 until everything in it has its new owner. */
static int give(int fd, uid_t uid, dev_t device)
{
        int r;

        if (fchmod(fd, 0) < 0 || fchown(fd, uid, uid) < 0)
                return -errno;
        r = give_below(fd, uid, device, STORE_DEPTH);
        return r < 0 ? r : fchmod(fd, 0700) < 0 ? -errno : 0;
}

/* The engine of a daemon that was just killed releases the lock shortly. */
static int has_time(uint64_t since_ns)
{
        const struct timespec pause = {.tv_nsec = 10000000};

        nanosleep(&pause, NULL);
        return clock_now_ns() - since_ns < LOCK_NS;
}

static int lock(int fd)
{
        uint64_t since_ns = clock_now_ns();

        while (flock(fd, LOCK_EX | LOCK_NB) < 0)
                if (errno != EWOULDBLOCK || !has_time(since_ns))
                        return -errno;
        return 0;
}

/* 0: the owner is now this daemon's user. -EBUSY: the owner is the user of another daemon, or no
 * longer of any. */
static int take_owner(struct daemon *d, const struct stat *st, struct cloche_err *e)
{
        uint64_t since_ns = clock_now_ns();
        int r;

        if (!own_user_is_any(st->st_uid) || st->st_uid == OWN_USER_OF_ALL || (st->st_mode & S_IRWXU) != S_IRWXU)
                return -EBUSY;
        while ((r = own_user_take(d, st->st_uid, e)) == -EBUSY && has_time(since_ns))
                ;
        return r;
}

/* Give root's directory to the daemon's user only if it is empty: the path may be mistyped. */
static int give_to_daemon(struct daemon *d, int fd, const char *path, struct cloche_err *e)
{
        struct stat st;
        int r;

        if (!privilege_is_root())
                return 0;
        if (fstat(fd, &st) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "stat %.200s", path);
        if (!own_user_is_any(st.st_uid) && (st.st_uid != 0 || !is_empty(fd)))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "--state-dir %.200s must be a new or empty directory of root, or one that was given "
                               "before (name another one, or '' to save nothing)",
                               path);
        r = take_owner(d, &st, e);
        if (r != -EBUSY)
                return r;
        r = own_user_draw(d, e);
        if (r < 0)
                return r;
        r = give(fd, d->uid, st.st_dev);
        return r < 0 ? err_os(e, CLOCHE_E_UNREADABLE_FILE, -r, "give %.200s to the daemon's user", path) : 0;
}

/* Keep the builds beside the saved sandboxes: both belong to this daemon alone. Ordinary users have
 * builds in their cache directory. */
static int place_builds(struct daemon *d, struct cloche_err *e)
{
        if (!d->uid)
                return 0;
        if (asprintf(&d->builds_dir, "%s/" BUILDS, d->state_dir) < 0) {
                d->builds_dir = NULL;
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "open %.200s", d->state_dir);
        }
        d->options.engine.cache_dir = d->builds_dir;
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
        r = give_to_daemon(d, fd, path, e);
        if (r < 0)
                return r;
        d->state_dir = realpath(path, NULL);
        d->state_lock_fd = TAKE_FD(fd);
        return d->state_dir ? place_builds(d, e) : err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "resolve %.200s", path);
}

static int open_named(struct daemon *d, struct cloche_err *e)
{
        int r = take(d, d->options.state_dir, e);

        return r == 1 ? err_set(e, CLOCHE_E_STATE,
                                "another daemon saves its sandboxes in %.200s (end that one, or name another directory "
                                "by --state-dir, or '' to save nothing)",
                                d->options.state_dir)
                      : r;
}

int state_open(struct daemon *d, struct cloche_err *e)
{
        char path[4096];
        int r;

        if (d->options.state_dir)
                return *d->options.state_dir ? open_named(d, e) : 0;
        if (d->options.connect_fd >= 0)
                return 0; /* the sandboxes of a private daemon belong to its client, and end with it */
        default_path(d->options.is_on_demand, path, sizeof(path));
        if (*path) {
                (void)xdg_make_parents(path); /* opening the directory reports the error */
                let_through(path);
        }
        r = *path ? take(d, path, e) : 1;
        if (r == 1 && *path && d->options.is_on_demand)
                return err_set(e, CLOCHE_E_STATE,
                               "another daemon of this user saves its sandboxes in %.100s: end it, or name it by "
                               "--socket or CLOCHE_SOCKET",
                               path);
        if (r == 1 &&
            d->options.has_state) /* taken between two engines: continuing without it would lose all saved sandboxes */
                return err_set(e, CLOCHE_E_STATE,
                               "another daemon has taken the directory %.100s, where this one saves its sandboxes: end "
                               "one of them",
                               path);
        if (r == 1)
                log_event(LEVEL_WARNING, "sandboxes-not-saved", "{s:s, s:s}", "path", path, "why",
                          *path ? "another daemon saves its sandboxes there" : "there is no home directory");
        return r < 0 ? r : 0;
}

int state_check(struct daemon *d, struct cloche_err *e)
{
        d->options.has_state = d->state_dir != NULL;
        if (!d->state_dir || access(d->state_dir, R_OK | W_OK | X_OK) == 0)
                return 0;
        return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "user %u of the daemon uses --state-dir %.200s",
                      (unsigned)geteuid(), d->state_dir);
}

/* unlinkat(2): the filter has no other call for it. */
static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
        (void)st;
        if (at->level > 0 && unlinkat(AT_FDCWD, path, type == FTW_DP ? AT_REMOVEDIR : 0) < 0)
                log_event(LEVEL_WARNING, "state-left", "{s:s, s:s}", "path", path, "why", strerror(errno));
        return 0;
}

/* Names in it are the daemon's; the directory itself is for its maker to remove. */
static void empty(const char *path)
{
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void state_close(struct daemon *d)
{
        if (d->options.is_state_temporary && d->state_dir)
                empty(d->state_dir);
        free(d->state_dir);
        d->state_dir = NULL;
        free(d->builds_dir);
        d->builds_dir = NULL;
        fd_close(&d->state_lock_fd);
}
