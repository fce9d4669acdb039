/* A tree as one layer. Runs in: cloche-image, as its user, confined to the store and the output. */
#include "export.h"

#include "base/err.h"
#include "base/fd.h"
#include "box/files/tree/walk.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define PART_BYTES (256u << 10)
#define NAMES_BYTES (64u << 10)

struct layer {
        struct archive *archive;
        struct archive_entry_linkresolver *links;
        bool keeps_ids;
        struct work *work;
        uint64_t done, expected;
        char part[PART_BYTES];
        char names[NAMES_BYTES], value[XATTR_SIZE_MAX];
};

static int failed(struct layer *layer, const char *path, struct cloche_err *e)
{
        int number = archive_errno(layer->archive);
        const char *text = archive_error_string(layer->archive);

        return number > 0 ? err_os(e, CLOCHE_E_RESOURCE, number, "write %.120s", path)
                          : err_set(e, CLOCHE_E_STATE, "write %.120s: %s", path, text ? text : "it fits in no archive");
}

static int read_failed(const char *path, struct cloche_err *e)
{
        return err_os(e, CLOCHE_E_STATE, errno, "read %.120s of the tree", path);
}

static int describe(struct layer *layer, struct archive_entry *entry, const struct walk_entry *found, int fd,
                    struct cloche_err *e)
{
        struct stat status = *found->status;
        ssize_t size;

        /* Facts that differ from machine to machine. */
        status.st_atim = status.st_ctim = (struct timespec){0};
        if (!layer->keeps_ids)
                status.st_uid = status.st_gid = 0;
        archive_entry_copy_stat(entry, &status);
        archive_entry_unset_atime(entry);
        archive_entry_unset_ctime(entry);
        archive_entry_copy_pathname(entry, found->path);
        if (!S_ISREG(status.st_mode))
                archive_entry_set_size(entry, 0);
        if (S_ISLNK(status.st_mode)) {
                size = readlinkat(found->dir_fd, found->name, layer->part, PATH_MAX);
                if (size < 0)
                        return read_failed(found->path, e);
                layer->part[size] = '\0';
                archive_entry_copy_symlink(entry, layer->part);
        }
        if (fd < 0)
                return 0;
        size = flistxattr(fd, layer->names, sizeof(layer->names));
        for (const char *at = layer->names; size > 0 && at < layer->names + size; at += strlen(at) + 1) {
                ssize_t bytes =
                        strncmp(at, "user.", 5) == 0 ? fgetxattr(fd, at, layer->value, sizeof(layer->value)) : -1;

                if (bytes >= 0)
                        archive_entry_xattr_add_entry(entry, at, layer->value, (size_t)bytes);
        }
        return 0;
}

static int write_contents(struct layer *layer, int fd, const char *path, uint64_t size, struct cloche_err *e)
{
        for (uint64_t done = 0; done < size;) {
                ssize_t n = pread(fd, layer->part, PART_BYTES, (off_t)done);
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? read_failed(path, e)
                                     : err_set(e, CLOCHE_E_STATE, "%.120s of the tree was cut meanwhile", path);
                if (archive_write_data(layer->archive, layer->part, (size_t)n) < 0)
                        return failed(layer, path, e);
                done += (uint64_t)n;
                layer->done += (uint64_t)n;
                r = work_go_on(layer->work, "packing", layer->done, layer->expected, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int write_entry(struct layer *layer, const struct walk_entry *found, int fd, struct cloche_err *e)
{
        struct archive_entry *entry = archive_entry_new(), *written = entry, *later = NULL;
        int r = entry ? describe(layer, entry, found, fd, e) : work_no_memory(e);

        if (r == 0) {
                archive_entry_linkify(layer->links, &written, &later);
                r = archive_write_header(layer->archive, written);
                r = r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : failed(layer, found->path, e);
        }
        if (r == 0 && !archive_entry_hardlink(written) && S_ISREG(found->status->st_mode))
                r = write_contents(layer, fd, found->path, (uint64_t)found->status->st_size, e);
        archive_entry_free(entry);
        return r;
}

static int on_entry(void *data, enum walk_event event, const struct walk_entry *found, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        mode_t mode = found->status->st_mode;

        if (event != WALK_FOUND || !(S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode)))
                return WALK_ON;
        if (!S_ISLNK(mode)) {
                fd = openat(found->dir_fd, found->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
                if (fd < 0)
                        return read_failed(found->path, e);
        }
        return write_entry(data, found, fd, e);
}

static int write_all(struct layer *layer, int tree_fd, int out_fd, struct cloche_err *e)
{
        const struct walk_options walk = {.visit = on_entry, .data = layer};
        struct stat status;
        int r;

        archive_entry_linkresolver_set_strategy(layer->links, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE);
        if (archive_write_set_format_pax_restricted(layer->archive) != ARCHIVE_OK ||
            archive_write_set_options(layer->archive, "hdrcharset=BINARY") != ARCHIVE_OK ||
            archive_write_add_filter_none(layer->archive) != ARCHIVE_OK ||
            archive_write_set_bytes_in_last_block(layer->archive, 1) != ARCHIVE_OK ||
            archive_write_open_fd(layer->archive, out_fd) != ARCHIVE_OK)
                return failed(layer, "the layer", e);
        if (fstat(tree_fd, &status) < 0)
                return read_failed("the top", e);
        r = write_entry(layer, &(struct walk_entry){"./", ".", tree_fd, &status}, tree_fd, e);
        if (r == 0)
                r = walk_tree(tree_fd, &walk, e);
        return r < 0 || archive_write_close(layer->archive) == ARCHIVE_OK ? r : failed(layer, "the layer", e);
}

int export_layer(int tree_fd, bool keeps_ids, int out_fd, struct work *work, uint64_t expected, struct cloche_err *e)
{
        struct layer *layer = malloc(sizeof(*layer));
        int r;

        if (!layer)
                return work_no_memory(e);
        layer->keeps_ids = keeps_ids;
        layer->work = work;
        layer->done = 0;
        layer->expected = expected;
        layer->archive = archive_write_new();
        layer->links = archive_entry_linkresolver_new();
        r = layer->archive && layer->links ? write_all(layer, tree_fd, out_fd, e) : work_no_memory(e);
        archive_entry_linkresolver_free(layer->links);
        archive_write_free(layer->archive);
        free(layer);
        return r;
}
