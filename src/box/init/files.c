/* Runs in: box-init. Files for the engine: none is opened through a symbolic link, because guests
 * make those. */
#include "init.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <ftw.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

static int open_path(const char *path, uint64_t flags, uint64_t mode)
{
        struct open_how how = {
                .flags = flags | O_CLOEXEC |
                         (flags & O_PATH ? 0 : O_NOCTTY | O_NONBLOCK), /* openat2(2) refuses these with O_PATH */
                .mode = mode,
                .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };

        return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

int files_make_parents(char *path, struct cloche_err *e)
{
        for (char *slash = *path ? strchr(path + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
                int r;

                *slash = '\0';
                r = mkdir(path, 0755) < 0 && errno != EEXIST && errno != EROFS ? -errno : 0;
                if (r < 0)
                        r = err_os(e, CLOCHE_E_INVALID_ARGUMENT, -r, "make the directory %s", path);
                *slash = '/';
                if (r < 0)
                        return r;
        }
        return 0;
}

static int copy_piece(int to_fd, int from_fd, off_t at, off_t end)
{
        if (lseek(to_fd, at, SEEK_SET) < 0)
                return -errno;
        while (at < end) {
                ssize_t n = sendfile(to_fd, from_fd, &at, (size_t)(end - at));

                if (n <= 0)
                        return n < 0 ? -errno : 0;
        }
        return 0;
}

/* Keep holes, if the file system reports them. */
static int copy_contents(int to_fd, int from_fd)
{
        struct stat st;
        off_t end = 0;
        int r = fstat(from_fd, &st) < 0 || ftruncate(to_fd, st.st_size) < 0 ? -errno : 0;

        while (r == 0 && end < st.st_size) {
                off_t start = lseek(from_fd, end, SEEK_DATA);

                if (start < 0 && errno == ENXIO)
                        break;
                start = start < 0 ? end : start;
                end = lseek(from_fd, start, SEEK_HOLE);
                end = end < 0 ? st.st_size : end;
                r = copy_piece(to_fd, from_fd, start, end);
        }
        return r;
}

static int put_directory(const struct init_request *request, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;

        if (mkdir(request->path, 0755) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "make the directory %s", request->path);
        fd = open_path(request->path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0 || fchmod(fd, request->mode & 0777) < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "set the mode of %s", request->path);
        return 0;
}

static int put_link(const struct init_request *request, int target_fd, struct cloche_err *e)
{
        char target[INIT_PATH_MAX];
        ssize_t n = pread(target_fd, target, sizeof(target) - 1, 0);

        if (n <= 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the symbolic link %s has no target", request->path);
        target[n] = '\0';
        if (symlink(target, request->path) < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "make the symbolic link %s", request->path);
        return 0;
}

int files_put(struct init_request *request, const int *fds, size_t fd_count, struct cloche_err *e)
{
        _cleanup_fd_ int to_fd = -EBADF;
        int r;

        if (fd_count != 1)
                return err_set(e, CLOCHE_E_PROTOCOL, "a file comes with one descriptor, not %zu", fd_count);
        r = files_make_parents(request->path, e);
        if (r < 0)
                return r;
        if (S_ISDIR(request->mode))
                return put_directory(request, e);
        if (S_ISLNK(request->mode))
                return put_link(request, fds[0], e);
        to_fd = open_path(request->path, O_WRONLY | O_CREAT | O_TRUNC, request->mode & 0777);
        if (to_fd < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "place the file %s", request->path);
        r = copy_contents(to_fd, fds[0]);
        if (r < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, -r, "place the file %s", request->path);
        /* The mode must not depend on the umask. */
        if (fchmod(to_fd, request->mode & 0777) < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "set the mode of %s", request->path);
        return 0;
}

int files_get(const struct init_request *request, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open_path(request->path, O_RDONLY, 0);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open %s", request->path);
        if (!S_ISREG(st.st_mode))
                return err_set(e, CLOCHE_E_UNREADABLE_FILE, "open %s: not a regular file", request->path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int files_read_link(const struct init_request *request, int *ret_fd, struct cloche_err *e)
{
        char target[INIT_PATH_MAX];
        _cleanup_fd_ int fd = open_path(request->path, O_PATH | O_NOFOLLOW, 0);
        ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target));

        if (n < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "read the link %s", request->path);
        *ret_fd = fd_from_bytes("target", target, (size_t)n);
        return *ret_fd < 0 ? err_os(e, CLOCHE_E_RESOURCE, -*ret_fd, "read the link %s", request->path) : 0;
}

/* nftw(3) passes no argument to its callback; one listing runs at a time. */
static FILE *listing;
static size_t listing_size;

static uint64_t time_ns(struct timespec t)
{
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int list_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
        struct init_entry entry = {
                .size = (uint64_t)st->st_size,
                .mtime_ns = time_ns(st->st_mtim),
                .ctime_ns = time_ns(st->st_ctim),
                .inode = st->st_ino,
                .mode = st->st_mode,
        };
        size_t size;

        (void)type;
        if (where->level == 0)
                return 0;
        path += 2; /* "./" */
        size = strlen(path);
        if (size >= INIT_PATH_MAX)
                return 0; /* no open call accepts a longer path */
        listing_size += sizeof(entry) + size;
        if (listing_size > INIT_LIST_MAX)
                return EFBIG;
        entry.path_size = (uint32_t)size;
        return fwrite(&entry, sizeof(entry), 1, listing) == 1 && fwrite(path, 1, size, listing) == size ? 0 : EIO;
}

int init_files_list(const struct init_request *request, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int fd = memfd_create("list", MFD_CLOEXEC);
        int copy_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), r;

        listing = copy_fd < 0 ? NULL : fdopen(copy_fd, "w");
        if (!listing)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "list %s", request->path);
        listing_size = 0;
        /* FTW_CHDIR: trees may be deeper than PATH_MAX. No other process runs in the box now, so
         * none can move. */
        r = chdir(request->path) < 0 ? -1 : nftw(".", list_entry, 32, FTW_PHYS | FTW_MOUNT | FTW_CHDIR);
        if (r < 0)
                r = errno;
        if (fclose(listing) != 0 && r == 0)
                r = errno;
        if (chdir("/") < 0 && r == 0)
                r = errno;
        if (r != 0)
                return err_os(e, CLOCHE_E_RESOURCE, r, "list %s", request->path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}
