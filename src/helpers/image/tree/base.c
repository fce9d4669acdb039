/* A tree that begins with another one. Runs in: cloche-image, as its user, confined to
 * the store and the source. */
#include "tree.h"

#include "base/array.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/files/tree/walk.h"
#include "helpers/image/tree/listing.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define NEW_MODE 0700           /* of directories, until their contents are there */
#define NAMES_BYTES (64u << 10) /* of all extended attributes of a file: listxattr(2) */

struct begin {
        struct image_tree *tree;
        struct listing_base *base;
        char names[NAMES_BYTES], value[XATTR_SIZE_MAX];
};

/* Attributes of files come with them. */
static int copy_attributes(struct begin *b, int from_fd, int to_fd, const char *path, struct cloche_err *e)
{
        ssize_t size = flistxattr(from_fd, b->names, sizeof(b->names));

        if (size < 0)
                return errno == EOPNOTSUPP ? 0 : image_tree_failed(errno, path, e);
        for (const char *at = b->names; at < b->names + size; at += strlen(at) + 1) {
                ssize_t bytes = strncmp(at, "user.", 5) == 0 ? fgetxattr(from_fd, at, b->value, sizeof(b->value)) : -1;

                if (strncmp(at, "user.", 5) != 0)
                        continue;
                if (bytes < 0 || fsetxattr(to_fd, at, b->value, (size_t)bytes, 0) < 0)
                        return image_tree_failed(errno, path, e);
        }
        return 0;
}

static int set_facts(const struct image_tree *tree, int fd, const struct stat *status, const char *path,
                     struct cloche_err *e)
{
        const struct timespec times[2] = {status->st_mtim, status->st_mtim};
        const bool is_ours = status->st_uid == geteuid() && status->st_gid == getegid();

        if ((tree->keeps_ids && !is_ours && fchown(fd, status->st_uid, status->st_gid) < 0) ||
            ((status->st_mode & 07777) != NEW_MODE && fchmod(fd, status->st_mode & 07777) < 0) ||
            futimens(fd, times) < 0)
                return image_tree_failed(errno, path, e);
        return 0;
}

/* Set tree->dir_fd to the directory that contains path. Return the entry's name, or NULL. */
static const char *go_to(struct image_tree *tree, const char *path, struct cloche_err *e)
{
        const char *slash = strrchr(path, '/');
        size_t size = slash ? (size_t)(slash - path) : 0;

        if (size > MEMBER_PATH_MAX) {
                (void)image_tree_failed(ENAMETOOLONG, path, e);
                return NULL;
        }
        if (tree->dir_fd < 0 || strncmp(tree->dir_path, path, size) != 0 || tree->dir_path[size]) {
                image_tree_leave(tree);
                memcpy(tree->dir_path, path, size);
                tree->dir_path[size] = '\0';
                tree->dir_fd = image_tree_open_below(tree->top_fd, tree->dir_path, O_PATH);
        }
        if (tree->dir_fd < 0) {
                (void)image_tree_failed(-tree->dir_fd, path, e);
                return NULL;
        }
        return slash ? slash + 1 : path;
}

static int make_directory(struct begin *b, const struct walk_entry *entry, const char *name, struct cloche_err *e)
{
        _cleanup_fd_ int from_fd = openat(entry->dir_fd, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                         fd = -EBADF;

        if (from_fd < 0 || mkdirat(b->tree->dir_fd, name, NEW_MODE) < 0)
                return image_tree_failed(errno, entry->path, e);
        fd = openat(b->tree->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? image_tree_failed(errno, entry->path, e) : copy_attributes(b, from_fd, fd, entry->path, e);
}

/* The directory is complete now. */
static int leave_directory(struct begin *b, const struct walk_entry *entry, const char *name, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(b->tree->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? image_tree_failed(errno, entry->path, e)
                      : set_facts(b->tree, fd, entry->status, entry->path, e);
}

static int link_file(const struct begin *b, const struct walk_entry *entry, const char *name, struct cloche_err *e)
{
        struct listing_base *base = b->base;

        if (ARRAY_GROW(base->inodes, base->count, base->room) < 0)
                return work_no_memory(e);
        base->inodes[base->count++] = entry->status->st_ino;
        if (linkat(entry->dir_fd, entry->name, b->tree->dir_fd, name, 0) == 0)
                return 0;
        return errno == EMLINK ? err_set(e, CLOCHE_E_RESOURCE,
                                         "%.120s is in as many trees of the image store as its file system permits: "
                                         "remove images (cloche image prune)",
                                         entry->path)
                               : image_tree_failed(errno, entry->path, e);
}

static int on_entry(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        struct begin *b = data;
        struct image_tree *tree = b->tree;
        const char *name = event == WALK_ENTER ? "" : go_to(tree, entry->path, e);
        int r;

        if (!name)
                return -(int)e->code;
        if (event != WALK_FOUND)
                return event == WALK_LEAVE ? leave_directory(b, entry, name, e) : WALK_ON;
        tree->entries++;
        r = S_ISDIR(entry->status->st_mode) ? make_directory(b, entry, name, e) : link_file(b, entry, name, e);
        return r == 0 && tree->entries % 256 == 0 ? work_go_on(tree->work, tree->phase, tree->bytes, 0, e) : r;
}

int image_tree_begin_with(struct image_tree *tree, int base_fd, struct listing_base *base, struct cloche_err *e)
{
        struct begin *b = malloc(sizeof(*b));
        const struct walk_options walk = {.visit = on_entry, .data = b, .is_brief = 1};
        struct stat status;
        int r;

        if (!b)
                return work_no_memory(e);
        b->tree = tree;
        b->base = base;
        r = fstat(base_fd, &status) < 0 ? image_tree_failed(errno, "", e)
                                        : copy_attributes(b, base_fd, tree->top_fd, "", e);
        if (r == 0)
                r = walk_tree(base_fd, &walk, e);
        if (r == 0)
                r = set_facts(tree, tree->top_fd, &status, "", e);
        image_tree_leave(tree);
        free(b);
        tree->has_lower = true;
        return r;
}
