/* Runs in: cloche-files, within a box, with its user's rights. Archives come from anyone. */
#include "unpack.h"

#include "base/err.h"
#include "base/fd.h"
#include "box/files/operations.h"
#include "box/files/tree/atomic-file.h"
#include "box/files/tree/tree.h"
#include "jail/ids.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

static int read_options(const struct files_request *q, struct unpack_options *ret, struct cloche_err *e)
{
        const char *links = request_text(q, "links");
        const uint64_t uid = request_count(q, "uid", UINT64_MAX), gid = request_count(q, "gid", UINT64_MAX);
        int r;

        *ret = (struct unpack_options){.keeps_links = links && strcmp(links, "any") == 0,
                                       .uid = uid == UINT64_MAX ? -1 : (int64_t)uid,
                                       .gid = gid == UINT64_MAX ? -1 : (int64_t)gid,
                                       .has_mode = json_object_get(q->params, "mode") != NULL};
        r = request_mode(q, "mode", 0, &ret->mode, e);
        if (r == 0 && links && !ret->keeps_links && strcmp(links, "inside") != 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"links\" is \"%.40s\", expected inside or any", links);
        if (r == 0 && (ret->uid >= 0 || ret->gid >= 0) && geteuid() != 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                            "uid and gid need a sandbox with root, as others have one user");
        if (r == 0 && (ret->uid >= IDS_IN_RANGE || ret->gid >= IDS_IN_RANGE))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "uid and gid: expected 0 to %u", IDS_IN_RANGE - 1);
        return r;
}

static int check(int archive_fd, const char *path, const char *to, const struct unpack_options *options,
                 struct cloche_err *e)
{
        _cleanup_fd_ int top_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (top_fd < 0 && errno != ENOENT)
                return files_os(e, errno, "open the directory %s", to);
        return unpack_check(archive_fd, path, top_fd, options, e);
}

/* A new directory is removed again if the unpacking fails. */
static int write_below(int archive_fd, const char *path, const char *to, const struct unpack_options *options,
                       uint64_t *files, uint64_t *bytes, struct cloche_err *e)
{
        _cleanup_fd_ int top_fd = -EBADF;
        uint64_t removed = 0;
        int is_new, r;

        r = place_make_directories(to, 1, 0755, &is_new, e);
        if (r < 0)
                return r;
        top_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (top_fd < 0 || (is_new && (options->uid >= 0 || options->gid >= 0) &&
                           fchown(top_fd, (uid_t)options->uid, (gid_t)options->gid) < 0))
                r = files_os(e, errno, "open the directory %s", to);
        else
                r = unpack_write(archive_fd, path, top_fd, options, files, bytes, e);
        if (r < 0 && is_new) {
                int ignored = tree_remove(to, &removed, NULL); /* the error to return is that of unpacking */

                (void)ignored;
        }
        return r;
}

int archive_extract(struct files_request *q, struct cloche_err *e)
{
        _cleanup_text_ char *path = NULL, *to = NULL;
        struct unpack_options options;
        uint64_t files = 0, bytes = 0;
        _cleanup_fd_ int fd = -EBADF;
        int r;

        r = request_path(q, "path", &path, e);
        if (r == 0)
                r = request_path(q, "to", &to, e);
        if (r == 0)
                r = read_options(q, &options, e);
        if (r == 0)
                r = open_archive(path, &fd, e);
        if (r == 0)
                r = check(fd, path, to, &options, e);
        if (r == 0)
                r = write_below(fd, path, to, &options, &files, &bytes, e);
        return r < 0 ? r
                     : request_answer(q,
                                      json_pack("{s:s, s:s, s:I, s:I}", "path", path, "to", to, "files",
                                                (json_int_t)files, "bytes", (json_int_t)bytes),
                                      e);
}
