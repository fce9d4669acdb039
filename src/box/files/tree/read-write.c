/* Runs in: cloche-files, within a box, with its user's rights. */
#include "box/files/operations.h"

#include "atomic-file.h"
#include "base/err.h"
#include "base/fd.h"
#include "contents.h"
#include "path.h"

#include <fcntl.h>
#include <string.h>

#define READ_BYTES_MAX (32u << 20)

/* -- write ---------------------------------------------------------------------------------------------------- */

struct bytes {
        const char *data;
        size_t size;
};

static struct bytes content_of(const struct files_request *q)
{
        const json_t *content = json_object_get(q->params, "content");

        if (json_is_string(content))
                return (struct bytes){json_string_value(content), json_string_length(content)};
        return (struct bytes){(const char *)q->attachments + json_integer_value(json_object_get(content, "at")),
                              (size_t)json_integer_value(json_object_get(content, "n"))};
}

static int replace_whole(const char *path, const struct bytes *b, mode_t mode, struct cloche_err *e)
{
        _cleanup_place_ struct place place = PLACE_INIT;
        int r;

        /* The rename would succeed on a read-only file, but its owner made it read-only on
         * purpose. */
        if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0 && (errno == EACCES || errno == EROFS))
                return files_os(e, errno, "write %s", path);
        r = files_place_open(&place, path, mode, e);
        if (r < 0)
                return r;
        r = fd_pwrite_full(place.fd, b->data, b->size, 0);
        return r < 0 ? files_os(e, -r, "write %s", path) : place_commit(&place, path, e);
}

/* Open a regular file; never block on a pipe or device. */
static int open_plain(const char *path, int flags, mode_t mode, struct stat *ret_status, int *ret_fd,
                      struct cloche_err *e)
{
        _cleanup_fd_ int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);

        if (fd < 0)
                return files_os(e, errno, "open %s", path);
        if (fstat(fd, ret_status) < 0)
                return files_os(e, errno, "look at %s", path);
        if (S_ISDIR(ret_status->st_mode))
                return files_os(e, EISDIR, "open %s", path);
        if (!S_ISREG(ret_status->st_mode))
                return err_set(e, CLOCHE_E_FILE_KIND, "%s is no plain file, but a pipe, socket or device", path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* Remove a partial append, unless another writer has appended after it. */
static void shorten(int fd, const struct stat *before, size_t size)
{
        struct stat now;

        if (fstat(fd, &now) == 0 && now.st_size > before->st_size && (uint64_t)(now.st_size - before->st_size) < size &&
            ftruncate(fd, before->st_size) < 0)
                return;
}

static int write_into(const struct files_request *q, const char *path, const struct bytes *b, mode_t mode,
                      struct cloche_err *e)
{
        int is_append = request_is_true(q, "append", 0), r;
        uint64_t offset = request_count(q, "offset", 0);
        _cleanup_fd_ int fd = -EBADF;
        struct stat status;

        if (offset > (uint64_t)INT64_MAX - b->size)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"offset\" is %llu, which no file reaches",
                               (unsigned long long)offset);
        r = open_plain(path, O_WRONLY | (request_is_true(q, "create", 1) ? O_CREAT : 0) | (is_append ? O_APPEND : 0),
                       mode ? mode : 0644, &status, &fd, e);
        if (r < 0)
                return r;
        if (mode && fchmod(fd, mode) < 0)
                return files_os(e, errno, "set the mode of %s", path);
        r = is_append ? fd_write_full(fd, b->data, b->size) : fd_pwrite_full(fd, b->data, b->size, (off_t)offset);
        if (r < 0 && is_append)
                shorten(fd, &status, b->size);
        return r < 0 ? files_os(e, -r, "write %s", path) : 0;
}

int file_write(struct files_request *q, struct cloche_err *e)
{
        int is_append = request_is_true(q, "append", 0), has_offset = json_object_get(q->params, "offset") != NULL;
        _cleanup_text_ char *path = NULL, *target = NULL;
        struct bytes content = content_of(q);
        mode_t mode = 0;
        int r;

        if (!is_append && !has_offset && !request_is_true(q, "create", 1))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "\"create\" is false, expected \"append\" or \"offset\" with it: what is written whole "
                               "is made");
        if (is_append && has_offset)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "\"append\" and \"offset\" were both given, expected at most one");
        r = request_path(q, "path", &path, e);
        if (r == 0)
                r = request_mode(q, "mode", 0, &mode, e);
        if (r < 0)
                return r;
        target = strdup(path);
        if (!target)
                return request_no_memory(e);
        r = place_follow(&target, e);
        if (r == 0 && request_is_true(q, "create", 1))
                r = place_make_directories(target, 0, 0755, NULL, e);
        if (r == 0)
                r = is_append || has_offset ? write_into(q, target, &content, mode, e)
                                            : replace_whole(target, &content, mode, e);
        if (r < 0)
                return r;
        return request_answer(q, json_pack("{s:s, s:I}", "path", path, "bytes", (json_int_t)content.size), e);
}

/* -- read ----------------------------------------------------------------------------------------------------- */

/* Read up to limit bytes; files of /proc have size 0 but contents. */
static int read_into(int fd, const char *path, uint64_t offset, uint64_t limit, struct buf *out, struct cloche_err *e)
{
        while (out->size < limit) {
                size_t part = limit - out->size < 1u << 18 ? (size_t)(limit - out->size) : 1u << 18;
                char *at = buf_reserve(out, part);
                ssize_t n;

                if (!at && out->size + part <= out->max)
                        return request_no_memory(e);
                if (!at)
                        return err_set(e, CLOCHE_E_TOO_LARGE,
                                       "%s has more than %u bytes: read it with \"offset\" and \"limit\"", path,
                                       READ_BYTES_MAX);
                n = pread(fd, at, part, (off_t)(offset + out->size));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return files_os(e, errno, "read %s", path);
                if (n == 0)
                        break;
                out->size += (size_t)n;
        }
        return 0;
}

static int check_read(const char *path, uint64_t size, uint64_t offset, uint64_t limit, struct cloche_err *e)
{
        uint64_t wanted = offset < size ? size - offset : 0;

        if (offset > INT64_MAX / 2)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"offset\" is %llu, which no file reaches",
                               (unsigned long long)offset);
        if ((limit < wanted ? limit : wanted) > READ_BYTES_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE,
                               "%s: %llu bytes are wanted, at most %u are read at once: use \"offset\" and \"limit\"",
                               path, (unsigned long long)(limit < wanted ? limit : wanted), READ_BYTES_MAX);
        return 0;
}

int file_read(struct files_request *q, struct cloche_err *e)
{
        uint64_t offset = request_count(q, "offset", 0), limit = request_count(q, "limit", UINT64_MAX);
        _cleanup_buf_ struct buf data = BUF_INIT(READ_BYTES_MAX + (1u << 18));
        _cleanup_text_ char *path = NULL;
        _cleanup_fd_ int fd = -EBADF;
        struct stat status;
        json_t *content;
        uint64_t total;
        int r;

        r = request_path(q, "path", &path, e);
        if (r == 0)
                r = open_plain(path, O_RDONLY, 0, &status, &fd, e);
        if (r == 0)
                r = check_read(path, (uint64_t)status.st_size, offset, limit, e);
        if (r == 0)
                r = read_into(fd, path, offset, limit, &data, e);
        if (r < 0)
                return r;
        total = (uint64_t)status.st_size > offset + data.size || data.size == 0 ? (uint64_t)status.st_size
                                                                                : offset + data.size;
        content = request_text_or_bytes(q, data.data ? data.data : "", data.size);
        return request_answer(q,
                              json_pack("{s:s, s:o, s:I, s:I, s:I, s:s}", "path", path, "content", content, "offset",
                                        (json_int_t)offset, "bytes", (json_int_t)data.size, "total", (json_int_t)total,
                                        "mimeType", contents_type(path, data.data, data.size, json_is_string(content))),
                              e);
}
