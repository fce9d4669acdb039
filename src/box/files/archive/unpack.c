/* Runs in: cloche-files, within a box, with its user's rights. Archives come from anyone. */
#include "unpack.h"

#include "base/err.h"
#include "base/fd.h"
#include "box/files/operations.h"
#include "box/files/tree/atomic-file.h"
#include "box/files/tree/tree.h"

#include <fcntl.h>

static int open_archive(const char *path, int *ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat status;

        if (fd < 0 || fstat(fd, &status) < 0)
                return files_os(e, errno, "open %s", path);
        if (!S_ISREG(status.st_mode))
                return err_set(e, CLOCHE_E_FILE_KIND, "%s is no plain file", path);
        *ret = TAKE_FD(fd);
        return 0;
}

static int check(int archive_fd, const char *path, const char *to, struct cloche_err *e)
{
        _cleanup_fd_ int top_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (top_fd < 0 && errno != ENOENT)
                return files_os(e, errno, "open the directory %s", to);
        return unpack_check(archive_fd, path, top_fd, e);
}

/* A new directory is removed again if the unpacking fails. */
static int write_below(int archive_fd, const char *path, const char *to, uint64_t *files, uint64_t *bytes,
                       struct cloche_err *e)
{
        _cleanup_fd_ int top_fd = -EBADF;
        uint64_t removed = 0;
        int is_new, r;

        r = place_make_directories(to, 1, 0755, &is_new, e);
        if (r < 0)
                return r;
        top_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = top_fd < 0 ? files_os(e, errno, "open the directory %s", to)
                       : unpack_write(archive_fd, path, top_fd, files, bytes, e);
        if (r < 0 && is_new) {
                int ignored = tree_remove(to, &removed, NULL); /* the error to return is that of unpacking */

                (void)ignored;
        }
        return r;
}

int archive_extract(struct files_request *q, struct cloche_err *e)
{
        _cleanup_text_ char *path = NULL, *to = NULL;
        uint64_t files = 0, bytes = 0;
        _cleanup_fd_ int fd = -EBADF;
        int r;

        r = request_path(q, "path", &path, e);
        if (r == 0)
                r = request_path(q, "to", &to, e);
        if (r == 0)
                r = open_archive(path, &fd, e);
        if (r == 0)
                r = check(fd, path, to, e);
        if (r == 0)
                r = write_below(fd, path, to, &files, &bytes, e);
        return r < 0 ? r
                     : request_answer(q,
                                      json_pack("{s:s, s:s, s:I, s:I}", "path", path, "to", to, "files",
                                                (json_int_t)files, "bytes", (json_int_t)bytes),
                                      e);
}
