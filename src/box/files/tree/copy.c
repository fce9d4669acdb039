/* Runs in: cloche-files, within a box, with its user's rights. */
#include "tree.h"

#include "atomic-file.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/files/request.h"
#include "path.h"
#include "walk.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#define PART_BYTES (256u << 10)

/* -- one entry ------------------------------------------------------------------------------------------------ */

/* Return how much to read at *at, which moves past a hole; 0: end of file. Without support for
 * holes the file is read to its end. */
static size_t next_part(int fd, off_t *at)
{
        off_t data = lseek(fd, *at, SEEK_DATA), hole;

        if (data < 0)
                return errno == ENXIO ? 0 : PART_BYTES;
        *at = data;
        hole = lseek(fd, data, SEEK_HOLE);
        return hole > data && hole - data < (off_t)PART_BYTES ? (size_t)(hole - data) : PART_BYTES;
}

/* Copy all bytes of from_fd from its beginning. Holes stay holes if the file has a size. 0 or
 * -errno. */
static int copy_data(int from_fd, int to_fd)
{
        char *part = malloc(PART_BYTES);
        struct stat status;
        off_t at = 0;
        size_t wanted;
        int r = part ? 0 : -ENOMEM;

        while (r == 0 && (wanted = next_part(from_fd, &at)) > 0) {
                ssize_t n = pread(from_fd, part, wanted, at);

                if (n == 0)
                        break;
                if (n < 0 && errno == EINTR)
                        continue;
                r = n < 0 ? -errno : fd_pwrite_full(to_fd, part, (size_t)n, at);
                at += n > 0 ? n : 0;
        }
        if (r == 0 && (fstat(from_fd, &status) < 0 || (status.st_size > at && ftruncate(to_fd, status.st_size) < 0)))
                r = -errno;
        free(part);
        return r;
}

static int copy_file(int from_dir_fd, const char *name, int to_dir_fd, const char *to_name, const char *path,
                     const struct stat *status, struct cloche_err *e)
{
        _cleanup_fd_ int from_fd = openat(from_dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct timespec times[2] = {status->st_atim, status->st_mtim};
        _cleanup_place_ struct place place = PLACE_INIT;
        int r;

        if (from_fd < 0)
                return files_os(e, errno, "read %s", path);
        r = place_open_at(&place, to_dir_fd, to_name, path, (status->st_mode & 07777) | S_IFREG, e);
        if (r < 0)
                return r;
        r = copy_data(from_fd, place.fd);
        if (r < 0)
                return files_os(e, -r, "copy %s", path);
        if (fchmod(place.fd, status->st_mode & 07777) < 0 || futimens(place.fd, times) < 0)
                return files_os(e, errno, "keep mode and times of %s", path);
        return place_commit(&place, path, e);
}

/* Replaces a file or link, never a directory. */
static int put_special(int from_dir_fd, const char *name, int to_dir_fd, const char *to_name, const struct stat *status)
{
        char target[PATH_MAX] = "";
        ssize_t size = S_ISLNK(status->st_mode) ? readlinkat(from_dir_fd, name, target, sizeof(target) - 1) : 0;

        if (size < 0)
                return -errno;
        for (int attempt = 0; attempt < 2; attempt++) {
                int r = S_ISLNK(status->st_mode) ? symlinkat(target, to_dir_fd, to_name)
                                                 : mknodat(to_dir_fd, to_name, status->st_mode, 0);

                if (r == 0)
                        return 0;
                if (errno != EEXIST || unlinkat(to_dir_fd, to_name, 0) < 0)
                        return -errno;
        }
        return -EEXIST;
}

static int copy_special(int from_dir_fd, const char *name, int to_dir_fd, const char *to_name, const char *path,
                        const struct stat *status, struct cloche_err *e)
{
        struct timespec times[2] = {status->st_atim, status->st_mtim};
        int r;

        if (!S_ISLNK(status->st_mode) && !S_ISFIFO(status->st_mode) && !S_ISSOCK(status->st_mode))
                return err_set(e, CLOCHE_E_FILE_KIND, "%s is a device, which is not copied", path);
        r = put_special(from_dir_fd, name, to_dir_fd, to_name, status);
        if (r < 0)
                return files_os(e, -r, "copy %s", path);
        utimensat(to_dir_fd, to_name, times, AT_SYMLINK_NOFOLLOW); /* some file systems do not keep times of links */
        return 0;
}

static int copy_one(int from_dir_fd, const char *name, int to_dir_fd, const char *to_name, const char *path,
                    const struct stat *status, struct cloche_err *e)
{
        return S_ISREG(status->st_mode) ? copy_file(from_dir_fd, name, to_dir_fd, to_name, path, status, e)
                                        : copy_special(from_dir_fd, name, to_dir_fd, to_name, path, status, e);
}

/* -- directories ---------------------------------------------------------------------------------------------- */

static int make_directory(int dir_fd, const char *name, const char *path, struct cloche_err *e)
{
        struct stat status;

        if (mkdirat(dir_fd, name, 0700) == 0)
                return 0;
        if (errno != EEXIST)
                return files_os(e, errno, "make the directory %s", path);
        if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode))
                return files_os(e, ENOTDIR, "copy a directory to %s", path);
        return 0;
}

/* Runs last, because the mode may forbid new entries. */
static int finish_directory(int fd, const struct stat *status, const char *path, struct cloche_err *e)
{
        struct timespec times[2] = {status->st_atim, status->st_mtim};

        if (fchmod(fd, status->st_mode & 07777) < 0 || futimens(fd, times) < 0)
                return files_os(e, errno, "keep mode and times of %s", path);
        return 0;
}

static int to_directory(int *fd, const char *name, const char *path, struct cloche_err *e)
{
        int next_fd = openat(*fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (next_fd < 0)
                return files_os(e, errno, "open the copy of %s", path);
        fd_close(fd);
        *fd = next_fd;
        return 0;
}

static int leave_directory(int *fd, const struct walk_entry *entry, struct cloche_err *e)
{
        int left_fd = openat(*fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

        if (left_fd < 0)
                return files_os(e, errno, "open the copy of %s", entry->path);
        r = to_directory(fd, "..", entry->path, e);
        if (r == 0)
                r = finish_directory(left_fd, entry->status, entry->path, e);
        close(left_fd);
        return r;
}

static int copy_found(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        int *to_fd = data;

        if (event == WALK_ENTER)
                return to_directory(to_fd, entry->name, entry->path, e);
        if (event == WALK_LEAVE)
                return leave_directory(to_fd, entry, e);
        if (S_ISDIR(entry->status->st_mode))
                return make_directory(*to_fd, entry->name, entry->path, e);
        return copy_one(entry->dir_fd, entry->name, *to_fd, entry->name, entry->path, entry->status, e);
}

static int copy_directory(const char *from, const char *to, const struct stat *status, struct cloche_err *e)
{
        _cleanup_fd_ int from_fd = open(from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), to_fd = -EBADF,
                         at_fd = -EBADF;
        struct walk_options walk = {.visit = copy_found, .data = &at_fd};
        int r;

        if (from_fd < 0)
                return files_os(e, errno, "read %s", from);
        r = make_directory(AT_FDCWD, to, to, e);
        if (r < 0)
                return r;
        to_fd = open(to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        at_fd = to_fd < 0 ? -EBADF : fcntl(to_fd, F_DUPFD_CLOEXEC, 3);
        if (at_fd < 0)
                return files_os(e, errno, "open %s", to);
        r = walk_tree(from_fd, &walk, e);
        return r < 0 ? r : finish_directory(to_fd, status, to, e);
}

int tree_check_outside(const struct stat *status, const char *from, const char *to, struct cloche_err *e)
{
        _cleanup_text_ char *at = strdup(to);

        while (at && S_ISDIR(status->st_mode)) {
                struct stat above;
                char *parent;

                if (stat(at, &above) == 0 && above.st_dev == status->st_dev && above.st_ino == status->st_ino)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "%s is in %s, or is it: a directory cannot go into itself", to, from);
                if (strcmp(at, "/") == 0)
                        break;
                parent = path_parent(at);
                free(at);
                at = parent;
        }
        return at ? 0 : request_no_memory(e);
}

static int copy_alone(const char *from, const char *to, const struct stat *status, struct cloche_err *e)
{
        _cleanup_text_ char *parent = path_parent(to);
        _cleanup_fd_ int dir_fd = parent ? open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC) : -EBADF;

        if (!parent)
                return request_no_memory(e);
        if (dir_fd < 0)
                return files_os(e, errno, "write %s", to);
        return copy_one(AT_FDCWD, from, dir_fd, path_name(to), to, status, e);
}

int tree_copy(const char *from, const char *to, int overwrites, struct cloche_err *e)
{
        struct stat status, there;
        int was_there = lstat(to, &there) == 0, r;
        uint64_t count = 0;

        if (was_there && !overwrites)
                return files_os(e, EEXIST, "write %s", to);
        if (lstat(from, &status) < 0)
                return files_os(e, errno, "look at %s", from);
        if (was_there && there.st_dev == status.st_dev && there.st_ino == status.st_ino)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s and %s are the same file", from, to);
        r = tree_check_outside(&status, from, to, e);
        if (r < 0)
                return r;
        r = S_ISDIR(status.st_mode) ? copy_directory(from, to, &status, e) : copy_alone(from, to, &status, e);
        if (r < 0 && !was_there && tree_remove(to, &count, NULL) < 0)
                return r;
        return r;
}
