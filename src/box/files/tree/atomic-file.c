/* Runs in: cloche-files, within a box, with its user's rights. */
#include "atomic-file.h"

#include "base/err.h"
#include "base/fd.h"
#include "box/files/request.h"
#include "path.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define LINKS_MAX 40 /* the kernel's limit */

/* Make a unique name. */
static void name_temporary(char name[32])
{
        uint64_t number;

        if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
                abort(); /* cannot happen: requests this small always succeed */
        snprintf(name, 32, PATH_TEMPORARY_PREFIX "%016llx", (unsigned long long)number);
}

static char *resolve(const char *path, const char *target)
{
        _cleanup_text_ char *parent = path_parent(path);

        if (*target == '/')
                return strdup(target);
        return parent ? path_join(parent, target) : NULL;
}

int place_follow(char **path, struct cloche_err *e)
{
        for (int i = 0; i < LINKS_MAX; i++) {
                char target[PATH_MAX], *next;
                ssize_t size = readlink(*path, target, sizeof(target) - 1);

                if (size < 0)
                        return errno == EINVAL || errno == ENOENT || errno == ENOTDIR
                                       ? 0
                                       : files_os(e, errno, "look at %s", *path);
                target[size] = '\0';
                next = resolve(*path, target);
                if (!next)
                        return request_no_memory(e);
                free(*path);
                *path = next;
        }
        return files_os(e, ELOOP, "follow the links of %s", *path);
}

/* Make one part of the path; 1: created, 0: it is a directory. */
static int make_directory(const char *path, mode_t mode)
{
        struct stat status;
        int reason;

        if (mkdir(path, mode) == 0)
                return 1;
        reason = errno;
        if ((reason != EEXIST && reason != EROFS && reason != EACCES) || stat(path, &status) < 0)
                return -reason;
        return S_ISDIR(status.st_mode) ? 0 : reason == EEXIST ? -ENOTDIR : -reason;
}

int place_make_directories(const char *path, int whole, mode_t mode, int *ret_made, struct cloche_err *e)
{
        _cleanup_text_ char *part = whole ? strdup(path) : path_parent(path);
        struct stat status;
        int made = 0;

        if (!part)
                return request_no_memory(e);
        if (stat(part, &status) == 0 && S_ISDIR(status.st_mode)) {
                if (ret_made)
                        *ret_made = 0;
                return 0;
        }
        for (char *at = part + 1;; at++) {
                char end;

                at = strchrnul(at, '/');
                end = *at;
                *at = '\0';
                made = make_directory(part, end ? 0755 : mode);
                if (made < 0)
                        return files_os(e, -made, "make the directory %s", part);
                if (made && !end && chmod(part, mode) < 0)
                        return files_os(e, errno, "set the mode of %s", part);
                if (!end)
                        break;
                *at = end;
        }
        if (ret_made)
                *ret_made = made;
        return 0;
}

/* Determine the new file's mode and owner; refuse a directory or special file. */
static int look(int dir_fd, const char *name, const char *path, mode_t *mode, struct stat *ret_old, int *ret_exists,
                struct cloche_err *e)
{
        struct stat status;

        *ret_exists = fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
        *ret_old = status;
        if (!*ret_exists && errno != ENOENT)
                return files_os(e, errno, "look at %s", path);
        if (*ret_exists && S_ISDIR(status.st_mode))
                return files_os(e, EISDIR, "write %s", path);
        if (*ret_exists && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
                return err_set(e, CLOCHE_E_FILE_KIND, "%s is no plain file, but a pipe, socket or device", path);
        if (!*mode)
                *mode = *ret_exists && S_ISREG(status.st_mode) ? status.st_mode & 07777 : 0644;
        return 0;
}

/* Root of a box writes to files of others there, which stay theirs. */
static int give(int fd, const struct stat *old)
{
        int is_others = S_ISREG(old->st_mode) && (old->st_uid != 0 || old->st_gid != 0);

        return is_others && geteuid() == 0 ? fchown(fd, old->st_uid, old->st_gid) : 0;
}

static int open_in_place(struct place *p, const char *path, struct cloche_err *e)
{
        p->fd = openat(p->dir_fd, p->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (p->fd < 0)
                return files_os(e, errno, "write %s", path);
        if (ftruncate(p->fd, 0) < 0)
                return files_os(e, errno, "cut %s", path);
        p->is_in_place = 1;
        return 0;
}

int place_open_at(struct place *p, int dir_fd, const char *name, const char *path, mode_t mode, struct cloche_err *e)
{
        struct stat old;
        int exists, r;

        r = look(dir_fd, name, path, &mode, &old, &exists, e);
        if (r < 0)
                return r;
        if (exists && p->refuses)
                return files_os(e, EEXIST, "write %s", path);
        p->dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
        p->name = strdup(name);
        if (p->dir_fd < 0 || !p->name)
                return p->name ? files_os(e, errno, "write %s", path) : request_no_memory(e);
        name_temporary(p->temporary);
        p->fd = openat(p->dir_fd, p->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (p->fd < 0) {
                r = errno;
                p->temporary[0] = '\0';
                return exists && (r == EACCES || r == EPERM) ? open_in_place(p, path, e)
                                                             : files_os(e, r, "write %s", path);
        }
        return (exists && give(p->fd, &old) < 0) || fchmod(p->fd, mode) < 0
                       ? files_os(e, errno, "set owner and mode of %s", path)
                       : 0;
}

int files_place_open(struct place *p, const char *path, mode_t mode, struct cloche_err *e)
{
        _cleanup_text_ char *parent = path_parent(path);
        _cleanup_fd_ int dir_fd = parent ? open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC) : -EBADF;

        if (!parent)
                return request_no_memory(e);
        if (dir_fd < 0)
                return files_os(e, errno, "write %s", path);
        if (!*path_name(path))
                return files_os(e, EISDIR, "write %s", path);
        return place_open_at(p, dir_fd, path_name(path), path, mode, e);
}

/* A new name is linked, not renamed, so that watchers see a creation. */
int place_commit(struct place *p, const char *path, struct cloche_err *e)
{
        if (p->is_in_place)
                return 0;
        if (linkat(p->dir_fd, p->temporary, p->dir_fd, p->name, 0) == 0)
                return 0; /* place_done() removes the temporary name */
        if (errno == EEXIST && p->refuses)
                return files_os(e, EEXIST, "write %s", path);
        if (renameat2(p->dir_fd, p->temporary, p->dir_fd, p->name, p->refuses ? RENAME_NOREPLACE : 0) < 0)
                return files_os(e, errno, "put %s in its place", path);
        p->temporary[0] = '\0';
        return 0;
}

void place_done(struct place *p)
{
        if (p->temporary[0])
                unlinkat(p->dir_fd, p->temporary, 0);
        fd_close(&p->fd);
        fd_close(&p->dir_fd);
        free(p->name);
        *p = PLACE_INIT;
}
