/* Read the host's directory beneath its root only.
 * Runs in: cloche-fs and cloche-sync, confined to the directory; reads paths of the guest. */
#include "lower.h"

#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

int lower_open_in(int dir_fd, const char *path, int flags)
{
        struct open_how how = {
                .flags = (uint64_t)(unsigned)flags | O_CLOEXEC | O_NOFOLLOW |
                         (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY),
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
        };
        int fd;

        do {
                fd = (int)syscall(SYS_openat2, dir_fd, *path ? path : ".", &how, sizeof(how));
        } while (fd < 0 && errno == EINTR);
        return fd < 0 ? -errno : fd;
}

/* The longest prefix of path that fits in one call and ends before a slash. */
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
                fd = lower_open_in(dir_fd >= 0 ? dir_fd : lower->root_fd, piece, O_PATH | O_DIRECTORY);
                if (fd < 0)
                        return fd;
                fd_close(&dir_fd);
                dir_fd = fd;
                path += front + 1;
                size -= front + 1;
        }
        return lower_open_in(dir_fd >= 0 ? dir_fd : lower->root_fd, path, flags);
}

int lower_stat(const struct lower *lower, const char *path, struct stat *ret)
{
        _cleanup_fd_ int fd = lower_open(lower, path, O_PATH);

        if (fd < 0)
                return fd;
        return fstat(fd, ret) < 0 ? -errno : 0;
}

static struct timespec timespec_of(struct statx_timestamp t)
{
        return (struct timespec){t.tv_sec, t.tv_nsec};
}

int lower_stat_in(int dir_fd, const char *name, struct stat *ret)
{
        struct statx st;

        if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &st) < 0)
                return -errno;
        if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
                return -EXDEV;
        *ret = (struct stat){
                .st_dev = makedev(st.stx_dev_major, st.stx_dev_minor),
                .st_ino = st.stx_ino,
                .st_mode = st.stx_mode,
                .st_nlink = st.stx_nlink,
                .st_uid = st.stx_uid,
                .st_gid = st.stx_gid,
                .st_size = (off_t)st.stx_size,
                .st_blksize = (blksize_t)st.stx_blksize,
                .st_blocks = (blkcnt_t)st.stx_blocks,
                .st_atim = timespec_of(st.stx_atime),
                .st_mtim = timespec_of(st.stx_mtime),
                .st_ctim = timespec_of(st.stx_ctime),
        };
        return 0;
}

/* An opened file must be a regular one: it may have been exchanged meanwhile. */
static int check_file(int opened_fd, struct stat *ret)
{
        _cleanup_fd_ int fd = opened_fd;

        if (fd < 0)
                return fd;
        if (fstat(fd, ret) < 0)
                return -errno;
        return S_ISREG(ret->st_mode) ? TAKE_FD(fd) : -ESTALE;
}

/* Check the type first: opening a device or pipe may have side effects. */
int lower_open_file_in(int dir_fd, const char *name, struct stat *ret)
{
        int r = lower_stat_in(dir_fd, name, ret);

        if (r < 0)
                return r;
        return S_ISREG(ret->st_mode) ? check_file(lower_open_in(dir_fd, name, O_RDONLY), ret) : -ESTALE;
}

int lower_read_link_in(int dir_fd, const char *name, char *ret, int size)
{
        ssize_t n = readlinkat(dir_fd, name, ret, (size_t)size);

        return n < 0 ? errno == ENOENT || errno == EINVAL ? -ESTALE : -errno : (int)n;
}

int lower_open_file(const struct lower *lower, const char *path, struct stat *ret)
{
        int r = lower_stat(lower, path, ret);

        if (r < 0)
                return r;
        return S_ISREG(ret->st_mode) ? check_file(lower_open(lower, path, O_RDONLY), ret) : -ESTALE;
}

struct entry { /* linux_dirent64 */
        uint64_t ino;
        int64_t offset;
        unsigned short size;
        unsigned char kind;
        char name[];
};

int lower_each(int fd, lower_visit visit, void *argument)
{
        _Alignas(struct entry) char buffer[65536];
        long n;

        while ((n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0)
                for (long at = 0; at < n;) {
                        const struct entry *entry = (const struct entry *)(buffer + at);
                        bool own = strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0;
                        int r = own ? 0 : visit(argument, entry->name, entry->kind);

                        if (r)
                                return r;
                        at += entry->size;
                }
        return n < 0 ? -errno : 0;
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
