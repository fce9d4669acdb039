/* Numbered files with the guest's contents.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "upper.h"

#include "base/fd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define COPY_SIZE (16u << 20)

void upper_name(uint64_t number, char ret[UPPER_NAME_SIZE])
{
        snprintf(ret, UPPER_NAME_SIZE, "%" PRIx64, number);
}

int upper_create(struct upper *upper, uint64_t *ret_number)
{
        char name[UPPER_NAME_SIZE];
        int fd;

        upper_name(upper->last + 1, name);
        /* Readable for the syncing process, which may be another user; the directory is reached by
         * descriptor only. */
        fd = openat(upper->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;
        *ret_number = ++upper->last;
        return fd;
}

int upper_open(const struct upper *upper, uint64_t number, int flags)
{
        char name[UPPER_NAME_SIZE];
        int fd;

        upper_name(number, name);
        fd = openat(upper->dir_fd, name, flags | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* Its bytes count as free at once, though a descriptor may keep them for a while. */
void upper_remove(struct upper *upper, uint64_t number)
{
        struct stat st;
        char name[UPPER_NAME_SIZE];
        uint64_t taken;

        upper_name(number, name);
        if (fstatat(upper->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return;
        taken = (uint64_t)st.st_blocks * 512;
        upper->bytes_used -= taken < upper->bytes_used ? taken : upper->bytes_used;
        unlinkat(upper->dir_fd, name, 0);
}

uint64_t upper_measure(int fd)
{
        struct stat st;

        return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}

void upper_count(struct upper *upper, int fd, uint64_t before)
{
        uint64_t sum = upper->bytes_used + upper_measure(fd);

        upper->bytes_used = sum > before ? sum - before : 0;
}

int upper_has_room(const struct upper *upper, uint64_t size)
{
        return !upper->bytes_max || (size <= upper->bytes_max && upper->bytes_used <= upper->bytes_max - size)
                       ? 0
                       : -ENOSPC;
}

/* Copy one stretch of data; copy_file_range(2) refuses some pairs of file systems, sendfile(2)
 * none. */
static int copy_stretch(int to_fd, int from_fd, off_t at, off_t end)
{
        while (at < end) {
                size_t want = end - at < (off_t)COPY_SIZE ? (size_t)(end - at) : COPY_SIZE;
                off_t in = at, out = at;
                ssize_t n = copy_file_range(from_fd, &in, to_fd, &out, want, 0);

                if (n < 0 &&
                    (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM)) {
                        in = at;
                        n = lseek(to_fd, at, SEEK_SET) < 0 ? -1 : sendfile(to_fd, from_fd, &in, want);
                }
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return 0; /* the host has truncated it meanwhile */
                at += n;
        }
        return 0;
}

static int copy_data(struct upper *upper, int to_fd, int from_fd, off_t size)
{
        for (off_t at = 0; at < size;) {
                off_t data = lseek(from_fd, at, SEEK_DATA), hole;
                int r;

                if (data < 0 && errno == ENXIO)
                        return 0; /* a hole up to the end */
                if (data < 0)
                        data = at;
                hole = lseek(from_fd, data, SEEK_HOLE);
                if (hole < 0 || hole > size)
                        hole = size;
                if (data >= size)
                        return 0;
                r = upper_has_room(upper, (uint64_t)(hole - data));
                if (r == 0)
                        r = copy_stretch(to_fd, from_fd, data, hole);
                if (r < 0)
                        return r;
                at = hole;
        }
        return 0;
}

int upper_copy(struct upper *upper, int to_fd, int from_fd, uint64_t size)
{
        int r = 0;

        if (upper_has_room(upper, size) < 0 || ioctl(to_fd, FICLONE, from_fd) < 0) {
                r = copy_data(upper, to_fd, from_fd, (off_t)size);
                if (r == 0 && ftruncate(to_fd, (off_t)size) < 0)
                        r = -errno;
        }
        upper_count(upper, to_fd, 0);
        return r;
}
