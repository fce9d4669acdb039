/* A tree that begins with another one. Runs in: cloche-image, as its user, confined to
 * the store and the source. */
#include "linker.h"
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

/* They are set when the tree is complete. */
static int keep_facts(const struct begin *b, int from_fd, const char *path, struct cloche_err *e)
{
        struct stat status;

        if (fstat(from_fd, &status) < 0)
                return image_tree_failed(errno, path, e);
        return image_tree_remember(b->tree, path,
                                   &(struct image_tree_directory){.mode = status.st_mode & 07777,
                                                                  .uid = status.st_uid,
                                                                  .gid = status.st_gid,
                                                                  .time = status.st_mtim},
                                   e);
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
        int r;

        if (from_fd < 0 || mkdirat(b->tree->dir_fd, name, NEW_MODE) < 0)
                return image_tree_failed(errno, entry->path, e);
        fd = openat(b->tree->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? image_tree_failed(errno, entry->path, e) : copy_attributes(b, from_fd, fd, entry->path, e);
        return r == 0 ? keep_facts(b, from_fd, entry->path, e) : r;
}

static int note_file(const struct begin *b, const struct walk_entry *entry, struct cloche_err *e)
{
        struct listing_base *base = b->base;

        if (ARRAY_GROW(base->inodes, base->count, base->room) < 0)
                return work_no_memory(e);
        base->inodes[base->count++] = entry->status->st_ino;
        return linker_add(b->tree->work->linker, entry->path, e);
}

static int go_on(void *data, struct cloche_err *e)
{
        const struct begin *b = data;

        return work_go_on(b->tree->work, b->tree->phase, b->tree->bytes, 0, e);
}

static int on_entry(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        struct begin *b = data;
        struct image_tree *tree = b->tree;
        const char *name;
        int r;

        if (event != WALK_FOUND)
                return WALK_ON;
        tree->entries++;
        if (S_ISDIR(entry->status->st_mode)) {
                name = go_to(tree, entry->path, e);
                r = name ? make_directory(b, entry, name, e) : -(int)e->code;
        } else {
                r = note_file(b, entry, e);
        }
        return r == 0 && tree->entries % 256 == 0 ? go_on(b, e) : r;
}

int image_tree_begin_with(struct image_tree *tree, int base_fd, struct listing_base *base, struct cloche_err *e)
{
        struct begin *b = malloc(sizeof(*b));
        const struct walk_options walk = {.visit = on_entry, .data = b, .is_brief = 1};
        int r;

        if (!b)
                return work_no_memory(e);
        b->tree = tree;
        b->base = base;
        r = copy_attributes(b, base_fd, tree->top_fd, "", e);
        if (r == 0)
                r = keep_facts(b, base_fd, "", e);
        if (r == 0)
                r = walk_tree(base_fd, &walk, e);
        if (r == 0)
                r = linker_run(tree->work->linker, base_fd, tree->top_fd, go_on, b, e);
        linker_clear(tree->work->linker);
        image_tree_leave(tree);
        free(b);
        tree->has_lower = true;
        return r;
}
