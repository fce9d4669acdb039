/* Whiteouts: remove entries of lower layers. Runs in: cloche-image, as its user, confined to the
 * store and the source. */
#include "tree.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_fresh(const struct image_tree *tree, const char *path)
{
        return path_set_has(&tree->fresh, path, strlen(path));
}

static char *join(const char *path, const char *name)
{
        char *joined = NULL;

        return asprintf(&joined, "%s%s%s", path, *path ? "/" : "", name) < 0 ? NULL : joined;
}

static int hide_at(struct image_tree *tree, int dir_fd, const char *name, const char *path, struct cloche_err *e);

/* Hide the contents of an open directory. Takes fd. */
static int hide_contents(struct image_tree *tree, int fd, const char *path, struct cloche_err *e)
{
        DIR *dir = fdopendir(fd);
        int r = 0;

        if (!dir) {
                close(fd);
                return image_tree_failed(errno, path, e);
        }
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                char *below;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                below = join(path, entry->d_name);
                r = below ? hide_at(tree, fd, entry->d_name, below, e) : work_no_memory(e);
                free(below);
        }
        closedir(dir);
        return r;
}

/* Entries of this layer stay, and so do the directories that lead to them. */
static int hide_at(struct image_tree *tree, int dir_fd, const char *name, const char *path, struct cloche_err *e)
{
        int fd;

        if (!is_fresh(tree, path))
                return store_remove_tree(dir_fd, name, e);
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOTDIR || errno == ELOOP ? 0 : image_tree_failed(errno, path, e);
        return hide_contents(tree, fd, path, e);
}

int image_tree_remove_at(struct image_tree *tree, const char *name, const char *path, bool only_lower,
                         struct cloche_err *e)
{
        int dir_fd = fcntl(tree->dir_fd, F_DUPFD_CLOEXEC, 3), r;

        if (dir_fd < 0)
                return image_tree_failed(errno, path, e);
        image_tree_leave(tree);
        r = only_lower ? hide_at(tree, dir_fd, name, path, e) : store_remove_tree(dir_fd, name, e);
        close(dir_fd);
        return r;
}

int image_tree_hide_below(struct image_tree *tree, const char *path, struct cloche_err *e)
{
        int fd = image_tree_open_below(tree->top_fd, path, O_RDONLY);

        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
                return 0;
        image_tree_leave(tree);
        return fd < 0 ? image_tree_failed(-fd, path, e) : hide_contents(tree, fd, path, e);
}

int image_tree_hide(struct image_tree *tree, const struct layer_member *m, struct cloche_err *e)
{
        const char *name;
        struct stat status;
        int r;

        if (!tree->has_lower)
                return 0;
        if (m->kind == LAYER_OPAQUE)
                return image_tree_hide_below(tree, m->path, e);
        r = image_tree_find(tree, m, &name, e);
        if (r <= 0 || fstatat(tree->dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return r < 0 ? r : 0;
        return image_tree_remove_at(tree, name, m->path, true, e);
}
