#include "lower.h"

#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

static int open_piece(int dir_fd, const char *path, int flags)
{
        struct open_how how = {
                .flags = (uint64_t)(unsigned)flags | O_CLOEXEC | O_NOFOLLOW | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY),
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
        };
        int fd;

        do {
                fd = (int)syscall(SYS_openat2, dir_fd, *path ? path : ".", &how, sizeof(how));
        } while (fd < 0 && errno == EINTR);
        return fd < 0 ? -errno : fd;
}

/* The longest front of path that one call takes and that ends before a slash. */
static size_t front_size(const char *path, size_t size)
{
        size_t at = size < PATH_MAX ? size : PATH_MAX - 1;

        if (at == size)
                return size;
        while (at > 0 && path[at] != '/')
                at--;
        return at;
}

int lower_open(const struct lower *lower, const char *path, int flags)
{
        _cleanup_fd_ int dir_fd = -EBADF;
        size_t size = strlen(path), front;
        char piece[PATH_MAX];

        while ((front = front_size(path, size)) < size) {
                int fd;

                memcpy(piece, path, front);
                piece[front] = '\0';
                fd = open_piece(dir_fd >= 0 ? dir_fd : lower->root_fd, piece, O_PATH | O_DIRECTORY);
                if (fd < 0)
                        return fd;
                fd_close(&dir_fd);
                dir_fd = fd;
                path += front + 1;
                size -= front + 1;
        }
        return open_piece(dir_fd >= 0 ? dir_fd : lower->root_fd, path, flags);
}

int lower_stat(const struct lower *lower, const char *path, struct stat *ret)
{
        _cleanup_fd_ int fd = lower_open(lower, path, O_PATH);

        if (fd < 0)
                return fd;
        return fstat(fd, ret) < 0 ? -errno : 0;
}

int lower_open_file(const struct lower *lower, const char *path, struct stat *ret)
{
        _cleanup_fd_ int fd = -EBADF;
        int r = lower_stat(lower, path, ret);

        /* Looked at first: opening a device or a pipe may do something, even when nothing is read. */
        if (r < 0)
                return r;
        if (!S_ISREG(ret->st_mode))
                return -ESTALE;
        fd = lower_open(lower, path, O_RDONLY);
        if (fd < 0)
                return fd;
        if (fstat(fd, ret) < 0)
                return -errno;
        return S_ISREG(ret->st_mode) ? TAKE_FD(fd) : -ESTALE;
}

int lower_read_link(const struct lower *lower, const char *path, char *ret, int size)
{
        _cleanup_fd_ int fd = lower_open(lower, path, O_PATH);
        ssize_t n;

        if (fd < 0)
                return fd;
        n = readlinkat(fd, "", ret, (size_t)size);
        return n < 0 ? errno == ENOENT || errno == EINVAL ? -ESTALE : -errno : (int)n;
}

static int64_t time_ns(struct timespec t)
{
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void lower_identify(const struct stat *st, struct lower_identity *ret)
{
        *ret = (struct lower_identity){
                .dev = st->st_dev,
                .ino = st->st_ino,
                .size = (uint64_t)st->st_size,
                .mtime_ns = time_ns(st->st_mtim),
                .ctime_ns = time_ns(st->st_ctim),
        };
}

int lower_same(const struct lower_identity *a, const struct lower_identity *b)
{
        return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns;
}
