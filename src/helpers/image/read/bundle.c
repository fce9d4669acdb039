/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "bundle.h"

#include "base/array.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/files/archive/member.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define LINKS_MAX 8 /* links that lead to one part */

bool bundle_is_part(const char *path)
{
        static const char *const names[] = {"oci-layout", "index.json", "manifest.json", "repositories",
                                            "blobs",      "blobs/",     "blobs/sha256",  "blobs/sha256/"};
        size_t size = strcspn(path, "/.");

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(path, names[i]) == 0)
                        return true;
        if (strncmp(path, "blobs/sha256/", 13) == 0)
                return hash_is_text(path + 13, strlen(path + 13));
        return hash_is_text(path, size) && (!path[size] || strcmp(path + size, ".json") == 0 ||
                                            strcmp(path + size, ".tar") == 0 || path[size] == '/');
}

void bundle_done(struct bundle *bundle)
{
        while (bundle->count > 0) {
                free(bundle->parts[--bundle->count].name);
                free(bundle->parts[bundle->count].link);
        }
        free(bundle->parts);
        bundle->parts = NULL;
}

/* -- lists ---------------------------------------------------------------------------------------------------- */

static int add_part(struct bundle *bundle, const char *name, const char *link, int64_t at, uint64_t size,
                    struct cloche_err *e)
{
        struct bundle_part *part;

        if (bundle->count == BUNDLE_PARTS_MAX)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the image's archive has more than %d files", BUNDLE_PARTS_MAX);
        if (ARRAY_GROW(bundle->parts, bundle->count, bundle->room) < 0)
                return work_no_memory(e);
        part = &bundle->parts[bundle->count++];
        *part = (struct bundle_part){.name = strdup(name), .link = link ? strdup(link) : NULL, .at = at, .size = size};
        return part->name && (!link || part->link) ? 0 : work_no_memory(e);
}

/* Old docker archives have each layer once, and links to it: "ID/layer.tar" is
 * "../OTHER/layer.tar". */
static int read_link(const char *path, const char *target, char *ret, struct cloche_err *e)
{
        const char *slash = strrchr(path, '/');
        size_t up = strncmp(target, "../", 3) == 0 ? 3 : 0;

        if (up && !slash)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the member %.120s is a link that leads out", path);
        return member_path(target + up, ret, e) < 0 ? err_wrap(e, "the link %.60s", path) : 0;
}

/* 1: it has contents to keep; 0: none. */
static int read_part(struct archive_entry *entry, char *path, char *link, const char **ret_link, struct cloche_err *e)
{
        const char *given = archive_entry_pathname(entry), *target = archive_entry_hardlink(entry);
        mode_t type = archive_entry_filetype(entry);
        int r;

        *ret_link = NULL;
        if (!given)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "a member has no name that could be read");
        r = member_path(given, path, e);
        if (r < 0 || type == AE_IFDIR)
                return r;
        if (target)
                r = member_path(target, link, e);
        else if (type == AE_IFLNK && archive_entry_symlink(entry))
                r = read_link(path, archive_entry_symlink(entry), link, e);
        else if (type != AE_IFREG)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the member %.120s is neither file nor link", path);
        *ret_link = target || type == AE_IFLNK ? link : NULL;
        return r < 0 ? r : 1;
}

static int list_members(struct bundle *ret, struct archive *archive, const char *name, struct cloche_err *e)
{
        char path[MEMBER_PATH_MAX + 1], link[MEMBER_PATH_MAX + 1];
        struct archive_entry *entry;
        const char *to;
        int r;

        while ((r = image_stream_next(archive, name, &entry, e)) > 0) {
                if (archive_filter_code(archive, 0) != ARCHIVE_FILTER_NONE)
                        return 0;
                r = read_part(entry, path, link, &to, e);
                if (r > 0 && ret->count == 0 && !bundle_is_part(path))
                        return 0;
                /* The reader's position after a header is that of the contents. The
                 * digests would show an error. */
                if (r > 0)
                        r = add_part(ret, path, to, archive_filter_bytes(archive, 0),
                                     (uint64_t)archive_entry_size(entry), e);
                if (r < 0)
                        return r;
        }
        return r < 0 ? r : ret->count > 0;
}

int bundle_list(struct bundle *ret, int fd, const char *name, struct cloche_err *e)
{
        struct archive *archive = archive_read_new();
        struct cloche_err cause = {0};
        int r = 0;

        *ret = (struct bundle){.dir_fd = -EBADF, .fd = fd};
        if (!archive)
                return work_no_memory(e);
        archive_read_support_format_tar(archive);
        archive_read_support_filter_gzip(archive);
        archive_read_support_filter_zstd(archive);
        archive_read_support_filter_xz(archive);
        archive_read_support_filter_bzip2(archive);
        if (archive_read_open_fd(archive, fd, STREAM_PART_BYTES) == ARCHIVE_OK)
                r = list_members(ret, archive, name, &cause);
        archive_read_free(archive);
        /* Before the first part it may be anything: reading it as a root file system reports the
         * error. */
        if (r < 0 && ret->count == 0)
                return 0;
        if (r < 0)
                *e = cause;
        return r;
}

static int copy_contents(struct image_stream *stream, int spool_fd, int64_t *at, const char *name, struct work *work,
                         struct cloche_err *e)
{
        int64_t begin = *at;
        const void *data;
        la_int64_t piece;
        size_t size;
        int r;

        while ((r = archive_read_data_block(stream->tar, &data, &size, &piece)) == ARCHIVE_OK) {
                if (begin + piece != *at) /* a sparse file: no image's archive has one */
                        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.60s has a member with holes", name);
                r = fd_write_full(spool_fd, data, size);
                if (r < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, -r, "copy %.60s to the image store", name);
                *at += (int64_t)size;
                r = work_go_on(work, "reading", (uint64_t)*at, 0, e);
                if (r < 0)
                        return r;
        }
        return r == ARCHIVE_EOF ? 0 : image_stream_failed(stream->tar, name, e);
}

int bundle_copy(struct bundle *ret, struct image_stream *stream, struct archive_entry *entry, int spool_fd,
                const char *name, struct work *work, struct cloche_err *e)
{
        char path[MEMBER_PATH_MAX + 1], link[MEMBER_PATH_MAX + 1];
        int64_t at = 0;
        int r = 1;

        *ret = (struct bundle){.dir_fd = -EBADF, .fd = spool_fd};
        for (; r > 0; r = image_stream_next(stream->tar, name, &entry, e)) {
                int64_t begin = at;
                const char *to;

                r = read_part(entry, path, link, &to, e);
                if (r == 0)
                        continue;
                if (r > 0 && !to)
                        r = copy_contents(stream, spool_fd, &at, name, work, e);
                if (r >= 0)
                        r = add_part(ret, path, to, begin, (uint64_t)(at - begin), e);
                if (r < 0)
                        return r;
        }
        return r;
}

/* -- parts ---------------------------------------------------------------------------------------------------- */

/* The last one of a name counts, as in any tar archive. */
static const struct bundle_part *find(const struct bundle *bundle, const char *name)
{
        for (int links = 0; links < LINKS_MAX; links++) {
                const struct bundle_part *part = NULL;

                for (size_t i = bundle->count; i-- > 0 && !part;)
                        if (strcmp(bundle->parts[i].name, name) == 0)
                                part = &bundle->parts[i];
                if (!part || !part->link)
                        return part;
                name = part->link;
        }
        return NULL;
}

static int open_in_directory(int dir_fd, const char *name, struct bundle_file *ret, struct cloche_err *e)
{
        struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
        int fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
        struct stat status;

        if (fd < 0)
                return errno == ENOENT ? 0 : err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "read %.100s", name);
        *ret = (struct bundle_file){.fd = fd, .own_fd = fd};
        if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
                fd_close(&ret->own_fd);
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.100s is no plain file", name);
        }
        ret->size = (uint64_t)status.st_size;
        return 1;
}

int bundle_open(const struct bundle *bundle, const char *name, struct bundle_file *ret, struct cloche_err *e)
{
        char path[MEMBER_PATH_MAX + 1];
        const struct bundle_part *part;
        int r = member_path(name, path, e);

        if (r < 0)
                return r;
        if (bundle->dir_fd >= 0)
                return open_in_directory(bundle->dir_fd, path, ret, e);
        part = find(bundle, path);
        if (!part)
                return 0;
        *ret = (struct bundle_file){.fd = bundle->fd, .own_fd = -EBADF, .at = part->at, .size = part->size};
        return 1;
}

int bundle_read(const struct bundle *bundle, const char *name, size_t max, struct buf *ret, struct cloche_err *e)
{
        struct bundle_file file = {.own_fd = -EBADF};
        int r = bundle_open(bundle, name, &file, e);
        size_t done = 0;
        char *at = NULL;

        if (r <= 0)
                return r;
        if (file.size > max)
                r = err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.100s has more than %zu bytes", name, max);
        if (r > 0)
                at = buf_reserve(ret, file.size + 1);
        if (r > 0 && !at)
                r = work_no_memory(e);
        while (r > 0 && done < file.size) {
                ssize_t n = pread(file.fd, at + done, file.size - done, file.at + (int64_t)done);

                if (n == 0)
                        r = err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.100s is cut", name);
                else if (n < 0 && errno != EINTR)
                        r = err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "read %.100s", name);
                else
                        done += n > 0 ? (size_t)n : 0;
        }
        fd_close(&file.own_fd);
        if (r > 0)
                at[ret->size = done] = '\0';
        return r;
}
