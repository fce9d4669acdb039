/* Archives of a step's files. The context is anyone's: each entry is opened in the directory that
 * holds it, without links. Runs in: the CLI, as its user. */
#include "pack.h"

#include "cli/output/signals.h"

#include "base/err.h"
#include "base/fd.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARCHIVE_BYTES (32u << 20) /* an archive and its files are in the sandbox together */
#define PERMISSIONS 0777

/* -- the archive ------------------------------------------------------------------------------------------------ */

static la_ssize_t send_piece(struct archive *archive, void *data, const void *bytes, size_t size)
{
        struct pack *p = data;
        int r = copy_write_piece(&p->build->copy, BUILD_ARCHIVE, bytes, size, p->bytes, 0600, &p->e);

        (void)archive;
        p->bytes += size;
        return r < 0 || copy_is_cancelled() ? -1 : (la_ssize_t)size;
}

static int failed(struct pack *p)
{
        if (copy_is_cancelled())
                return SIGNALS_CANCELLED;
        return p->e.code ? build_fail(p->build, &p->e)
                         : build_bad(p->build, "cannot pack the files: %s", archive_error_string(p->archive));
}

static int open_archive(struct pack *p)
{
        if (p->archive)
                return 0;
        p->archive = archive_write_new();
        p->bytes = 0;
        if (!p->archive)
                return build_no_memory(p->build);
        return archive_write_set_format_pax_restricted(p->archive) < ARCHIVE_WARN ||
                               archive_write_add_filter_none(p->archive) < ARCHIVE_WARN ||
                               archive_write_set_bytes_per_block(p->archive, COPY_PIECE_BYTES) < ARCHIVE_WARN ||
                               archive_write_set_bytes_in_last_block(p->archive, 1) < ARCHIVE_WARN ||
                               archive_write_open(p->archive, p, NULL, send_piece, NULL) < ARCHIVE_WARN
                       ? failed(p)
                       : 0;
}

int pack_extract(struct pack *p, const char *to)
{
        json_t *params = json_pack("{s:s, s:s, s:s, s:s}", "sandbox", BUILD_BOX, "path", BUILD_ARCHIVE, "to", to,
                                   "links", "any");

        if (p->uid >= 0)
                json_object_set_new(params, "uid", json_integer(p->uid));
        if (p->gid >= 0)
                json_object_set_new(params, "gid", json_integer(p->gid));
        if (p->mode >= 0)
                json_object_set_new(params, "mode", json_integer(p->mode));
        return build_call(p->build, "archive.extract", params, NULL);
}

int pack_finish(struct pack *p)
{
        int code = 0;

        if (!p->archive)
                return 0;
        if (archive_write_close(p->archive) < ARCHIVE_WARN)
                code = failed(p);
        pack_done(p);
        return code ? code : pack_extract(p, p->to);
}

void pack_done(struct pack *p)
{
        if (p->archive)
                archive_write_free(p->archive);
        p->archive = NULL;
}

int pack_begin(struct pack *p, const char *to)
{
        int code = strcmp(p->to, to) == 0 ? 0 : pack_finish(p);

        if (code == 0)
                snprintf(p->to, sizeof(p->to), "%s", to);
        return code;
}

/* -- members ---------------------------------------------------------------------------------------------------- */

static int write_header(struct pack *p, struct archive_entry *entry, const char *member, json_int_t time)
{
        int code = open_archive(p);

        archive_entry_set_pathname(entry, member);
        archive_entry_set_mtime(entry, time, 0);
        if (code == 0 && archive_write_header(p->archive, entry) < ARCHIVE_WARN)
                code = failed(p);
        archive_entry_free(entry);
        return code;
}

/* Return an entry, or NULL. */
static struct archive_entry *make_entry(unsigned kind, unsigned mode)
{
        struct archive_entry *entry = archive_entry_new();

        if (entry) {
                archive_entry_set_filetype(entry, kind);
                archive_entry_set_perm(entry, (mode_t)mode);
        }
        return entry;
}

int pack_file(struct pack *p, const char *member, uint64_t size, unsigned mode, json_int_t time)
{
        struct archive_entry *entry = make_entry(AE_IFREG, mode);

        if (!entry)
                return build_no_memory(p->build);
        archive_entry_set_size(entry, (la_int64_t)size);
        return write_header(p, entry, member, time);
}

int pack_bytes(struct pack *p, const void *data, size_t size)
{
        return archive_write_data(p->archive, data, size) < 0 ? failed(p) : copy_is_cancelled() ? SIGNALS_CANCELLED : 0;
}

static int pack_link(struct pack *p, int dir_fd, const char *name, const char *path, const char *member, time_t time)
{
        struct archive_entry *entry = make_entry(AE_IFLNK, PERMISSIONS);
        char target[PATH_MAX];
        ssize_t size = readlinkat(dir_fd, name, target, sizeof(target) - 1);

        if (!entry || size < 0) {
                archive_entry_free(entry);
                return build_bad(p->build, "cannot read the link '%.200s': %s", path, strerror(errno));
        }
        target[size] = '\0';
        archive_entry_set_symlink(entry, target);
        return write_header(p, entry, member, time);
}

/* A file that became shorter meanwhile is an error, one that grew is cut. */
static int pack_contents(struct pack *p, int fd, const struct stat *status, const char *path, const char *member)
{
        int code = pack_file(p, member, (uint64_t)status->st_size, status->st_mode & PERMISSIONS, status->st_mtime);
        char *piece = malloc(COPY_PIECE_BYTES);

        if (!piece)
                code = build_no_memory(p->build);
        for (off_t left = status->st_size; code == 0 && left > 0;) {
                ssize_t n = read(fd, piece, left < COPY_PIECE_BYTES ? (size_t)left : COPY_PIECE_BYTES);

                if (n < 0 && errno == EINTR)
                        continue;
                code = n > 0 ? pack_bytes(p, piece, (size_t)n)
                             : build_bad(p->build, "cannot read '%.200s': %s", path,
                                         n == 0 ? "it became shorter" : strerror(errno));
                left -= n;
        }
        free(piece);
        return code || p->bytes < ARCHIVE_BYTES ? code : pack_finish(p);
}

/* Takes fd. Paths are on the heap, so that the tree's depth does not exhaust the stack. */
static int pack_below(struct pack *p, int fd, const char *path, const char *member)
{
        DIR *dir = fdopendir(fd);
        struct dirent *entry;
        int code = 0;

        if (!dir) {
                close(fd);
                return build_bad(p->build, "cannot read '%.200s': %s", path, strerror(errno));
        }
        while (code == 0 && (errno = 0, entry = readdir(dir))) {
                char *below = NULL, *name = NULL;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (asprintf(&below, "%s%s%s", path, *path ? "/" : "", entry->d_name) < 0 ||
                    asprintf(&name, "%s%s%s", member, *member ? "/" : "", entry->d_name) < 0)
                        code = build_no_memory(p->build);
                if (code == 0)
                        code = pack_entry(p, dirfd(dir), entry->d_name, below, name);
                free(below);
                free(name);
        }
        if (code == 0 && errno) /* else files would be missing from the image */
                code = build_bad(p->build, "cannot read '%.200s': %s", path, strerror(errno));
        closedir(dir);
        return code;
}

static int pack_directory(struct pack *p, int fd, const struct stat *status, const char *path, const char *member)
{
        int copy_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), code = 0;
        struct archive_entry *entry = *member ? make_entry(AE_IFDIR, status->st_mode & PERMISSIONS) : NULL;

        if (copy_fd < 0 || (*member && !entry))
                code = build_no_memory(p->build);
        else if (*member)
                code = write_header(p, entry, member, status->st_mtime);
        if (code == 0)
                return pack_below(p, copy_fd, path, member);
        fd_close(&copy_fd);
        return code;
}

int pack_entry(struct pack *p, int dir_fd, const char *name, const char *path, const char *member)
{
        _cleanup_fd_ int fd = -EBADF;
        struct stat status;

        if (copy_is_cancelled())
                return SIGNALS_CANCELLED;
        if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return build_bad(p->build, "cannot read '%.200s': %s", path, strerror(errno));
        if (build_context_ignores(&p->build->context, path, S_ISDIR(status.st_mode)))
                return 0;
        if (S_ISLNK(status.st_mode))
                return pack_link(p, dir_fd, name, path, member, status.st_mtime);
        if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) /* O_NONBLOCK: it may be a pipe by now */
                fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &status) < 0)
                return build_bad(p->build, "cannot read '%.200s': %s", path, strerror(errno));
        if (S_ISDIR(status.st_mode))
                return pack_directory(p, fd, &status, path, member);
        return S_ISREG(status.st_mode) ? pack_contents(p, fd, &status, path, member)
                                       : build_bad(p->build, "'%.200s' is no file, directory or link", path);
}
