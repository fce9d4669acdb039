/* Create the entries that the caller places over a mount.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "seed.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/fs/rules/reserved.h"
#include "helpers/fs/tree/overlay.h"
#include "helpers/fs/tree/points.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct placing {
        mode_t kind, permissions;
        char *path, *target;
        int fd; /* borrowed */
};

static void placing_done(struct placing *placing)
{
        free(placing->path);
        free(placing->target);
}

/* -- parameters ----------------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        mode_t kind, permissions;
} kinds[] = {{"file", S_IFREG, 0644}, {"directory", S_IFDIR, 0755}, {"symlink", S_IFLNK, 0777}};

static int read_kind(const json_t *params, struct placing *ret, struct cloche_err *e)
{
        const char *kind = json_string_value(json_object_get(params, "kind"));
        const json_t *mode = json_object_get(params, "mode");
        size_t i = 0;

        while (i < sizeof(kinds) / sizeof(kinds[0]) && (!kind || strcmp(kinds[i].name, kind) != 0))
                i++;
        if (i == sizeof(kinds) / sizeof(kinds[0]))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "kind: expected file, directory or symlink");
        if (mode && !json_is_null(mode) &&
            (!json_is_integer(mode) || json_integer_value(mode) < 0 || json_integer_value(mode) > 0777))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mode: expected a number from 0 to 0777");
        ret->kind = kinds[i].kind;
        ret->permissions =
                json_is_integer(mode) && ret->kind != S_IFLNK ? (mode_t)json_integer_value(mode) : kinds[i].permissions;
        return 0;
}

static int check_path(const char *path, struct cloche_err *e)
{
        char part[NODE_NAME_MAX + 1];
        const char *at = path;

        while (*at) {
                int size = overlay_first_part(at, part);

                if (size < 0)
                        break;
                at += size + (at[size] == '/' && at[size + 1]);
        }
        if (*at || !*path)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "path: '%.200s' is none below the mount", path);
        return 0;
}

static int read_placing(const json_t *params, int fd, struct placing *ret, struct cloche_err *e)
{
        struct stat st;
        int r = read_kind(params, ret, e);

        ret->fd = fd;
        ret->path = path_from_json(json_object_get(params, "path"));
        if (r == 0)
                r = ret->path ? check_path(ret->path, e)
                              : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "path: expected a string, or bytes");
        if (r < 0)
                return r;
        if (ret->kind == S_IFREG && (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "%.200s: expected its contents, the descriptor of a file, with the request", ret->path);
        if (ret->kind != S_IFLNK)
                return 0;
        ret->target = path_from_json(json_object_get(params, "target"));
        if (!ret->target || !*ret->target || strlen(ret->target) >= PATH_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "target: expected a path of at most %d bytes",
                               PATH_MAX - 1);
        return 0;
}

/* -- placing -------------------------------------------------------------------------------------------------- */

/* from_fd: -EBADF: it is empty. */
static int fill(struct fs_mount *mount, struct node *node, int from_fd)
{
        _cleanup_fd_ int to_fd = -EBADF;
        struct stat st;
        int r = overlay_copy_up(mount, node, 0);

        if (r < 0 || from_fd < 0)
                return r;
        to_fd = upper_open(&mount->upper, node->content, O_RDWR);
        if (to_fd < 0)
                return to_fd;
        if (fstat(from_fd, &st) < 0)
                return -errno;
        node->attributes.size = (uint64_t)st.st_size;
        return upper_copy(&mount->upper, to_fd, from_fd, (uint64_t)st.st_size);
}

static int make(struct fs_mount *mount, const struct placing *what, struct node **ret)
{
        struct node *node = tree_new_node(&mount->tree, what->kind);
        int r = node ? overlay_own(mount, node) : -ENOSPC;

        if (r == 0) {
                node->attributes.permissions = what->permissions;
                node->target = what->target ? strdup(what->target) : NULL;
                node->attributes.size = what->target ? strlen(what->target) : 0;
        }
        if (r == 0 && what->kind == S_IFLNK && !node->target)
                r = -ENOMEM;
        if (r == 0 && what->kind == S_IFREG)
                r = fill(mount, node, what->fd);
        if (r < 0 && node)
                overlay_settle(mount, node);
        if (r < 0)
                return r;
        node->written = node->set = false;
        *ret = node;
        return 0;
}

/* Clear the place: the host's entry is hidden, an earlier seed is dropped. */
static void clear(struct fs_mount *mount, struct name *name)
{
        struct node *node = name->node;

        if (!node)
                return;
        if (node->seeded_at == name)
                node->seeded_at = NULL;
        name->is_seed = true; /* otherwise the name would go with its node */
        tree_drop(name);
        overlay_settle(mount, node);
}

static int put(struct fs_mount *mount, struct node *parent, const char *text, const struct placing *what,
               struct node **ret)
{
        struct node *node;
        struct name *name;
        int r = node_child_path(parent, text, mount->path) ? make(mount, what, &node) : -ENAMETOOLONG;

        if (r < 0)
                return r;
        name = tree_make_name(&mount->tree, parent, text);
        if (!name) {
                overlay_settle(mount, node);
                return -ENOMEM;
        }
        clear(mount, name);
        name->is_seed = mount->has_seeds = true;
        tree_put(&mount->tree, name, node);
        node->seeded_at = name;
        node->is_virtual = true;
        *ret = node;
        return 0;
}

static int put_last(struct fs_mount *mount, struct node *parent, const char *text, const struct placing *what)
{
        struct node *there, *node;
        int r = overlay_lookup(mount, parent, text, NULL, &there);

        if (r < 0 && r != -ENOENT)
                return r;
        if (r == 0 && points_is_on_way(mount, there) && what->kind != S_IFDIR)
                return -EBUSY;
        if (r == 0 && there->kind == S_IFDIR && (what->kind == S_IFDIR || there->entry_count))
                return what->kind == S_IFDIR ? 0 : -EISDIR;
        return put(mount, parent, text, what, &node);
}

/* Find the directory of path's last part; create missing ones. */
static int make_way(struct fs_mount *mount, const char **path, struct node **ret)
{
        static const struct placing directory = {.kind = S_IFDIR, .permissions = 0755, .fd = -EBADF};
        char part[NODE_NAME_MAX + 1];
        int r = 0;

        *ret = mount->tree.root;
        while (r == 0 && strchr(*path, '/')) {
                struct node *next;
                int size = overlay_first_part(*path, part);

                r = overlay_lookup(mount, *ret, part, NULL, &next);
                if (r == -ENOENT)
                        r = put(mount, *ret, part, &directory, &next);
                if (r == 0 && next->kind != S_IFDIR)
                        r = -ENOTDIR;
                if (r == 0)
                        *ret = next;
                *path += size + 1;
        }
        return r;
}

int seed_entry(struct fs_mount *mount, const json_t *params, int fd, struct cloche_err *e)
{
        struct placing what = {.fd = -EBADF};
        struct node *parent = mount->tree.root;
        const char *last;
        int r = read_placing(params, fd, &what, e), done = -EACCES;

        last = what.path;
        if (r == 0 && !reserved_is_in(what.path)) {
                done = make_way(mount, &last, &parent);
                if (done == 0)
                        done = put_last(mount, parent, last, &what);
                overlay_settle(mount, parent);
        }
        if (r == 0 && done < 0)
                r = err_os(e, done == -ENOSPC || done == -ENOMEM ? CLOCHE_E_RESOURCE : CLOCHE_E_INVALID_ARGUMENT, -done,
                           "place %.200s", what.path);
        placing_done(&what);
        return r;
}

/* -- places of other mounts ----------------------------------------------------------------------------------- */

static int make_point(struct fs_mount *mount, const json_t *point, size_t index, struct cloche_err *e)
{
        struct placing what = {.fd = -EBADF};
        struct node *parent = mount->tree.root, *node;
        const char *last;
        int r = read_kind(point, &what, e), done;

        what.path = r == 0 ? path_from_json(json_object_get(point, "path")) : NULL;
        last = what.path;
        if (r == 0)
                r = what.path ? check_path(what.path, e)
                              : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "path: expected a string, or bytes");
        if (r == 0 && what.kind == S_IFLNK)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "kind: a mount stands at a file or directory");
        if (r == 0) {
                done = reserved_is_in(what.path) ? -EACCES : make_way(mount, &last, &parent);
                if (done == 0)
                        done = put(mount, parent, last, &what, &node);
                if (done == 0)
                        mount->points[index] = tree_find(&mount->tree, parent, last);
                else
                        r = done == -ENOTDIR
                                    ? err_set(e, CLOCHE_E_MOUNT,
                                              "no mount can stand at %.200s in it: a part of that path is not a "
                                              "directory on the host",
                                              what.path)
                                    : err_os(e, CLOCHE_E_MOUNT, -done, "make the place of a mount, %.200s", what.path);
        }
        placing_done(&what);
        return r < 0 ? err_wrap(e, "points[%zu]", index) : 0;
}

int points_make(struct fs_mount *mount, struct cloche_err *e)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < json_array_size(mount->settings.points); i++)
                r = make_point(mount, json_array_get(mount->settings.points, i), i, e);
        return r;
}
