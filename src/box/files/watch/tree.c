/* Runs in: a job of cloche-files, within a box, with its user's rights. */
#include "tree.h"

#include "base/err.h"
#include "base/fd.h"
#include "box/files/tree/path.h"
#include "box/files/tree/walk.h"

#include <fcntl.h>
#include <search.h>
#include <string.h>
#include <sys/inotify.h>

#define WATCHED                                                                                                        \
        (IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | \
         IN_ONLYDIR | IN_EXCL_UNLINK)

/* -- nodes ---------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
        int left = ((const struct watch_node *)a)->wd, right = ((const struct watch_node *)b)->wd;

        return (left > right) - (left < right);
}

struct watch_node *watch_tree_find(const struct watch_tree *t, int wd)
{
        const struct watch_node key = {.wd = wd};
        struct watch_node **found = tfind(&key, &t->by_wd, compare);

        return found ? *found : NULL;
}

struct watch_node *watch_node_child(const struct watch_node *node, const char *name)
{
        struct watch_node *child;

        LIST_FOREACH (child, &node->children, siblings)
                if (strcmp(child->name, name) == 0)
                        return child;
        return NULL;
}

char *watch_node_path(const struct watch_node *node, const char *name)
{
        char *path = strdup(name);

        for (; path && node->parent; node = node->parent) {
                char *longer;

                longer = *path ? path_join(node->name, path) : strdup(node->name);
                free(path);
                path = longer;
        }
        return path;
}

void watch_tree_drop(struct watch_tree *t, struct watch_node *node, int is_watched)
{
        struct watch_node *child;

        while ((child = LIST_FIRST(&node->children)))
                watch_tree_drop(t, child, is_watched);
        if (is_watched)
                inotify_rm_watch(t->inotify_fd, node->wd);
        tdelete(node, &t->by_wd, compare);
        if (node->parent)
                LIST_REMOVE(node, siblings);
        else
                t->root = NULL;
        t->count--;
        free(node->name);
        free(node);
}

int watch_tree_move(struct watch_node *node, struct watch_node *parent, const char *name)
{
        char *copy = strdup(name);

        if (!copy)
                return -ENOMEM;
        free(node->name);
        node->name = copy;
        LIST_REMOVE(node, siblings);
        node->parent = parent;
        LIST_INSERT_HEAD(&parent->children, node, siblings);
        return 0;
}

static struct watch_node *add_node(struct watch_tree *t, struct watch_node *parent, const char *name, int wd)
{
        struct watch_node *node = calloc(1, sizeof(*node));

        if (!node || !(node->name = strdup(name))) {
                free(node);
                return NULL;
        }
        node->wd = wd;
        if (!tsearch(node, &t->by_wd, compare)) {
                free(node->name);
                free(node);
                return NULL;
        }
        node->parent = parent;
        if (parent)
                LIST_INSERT_HEAD(&parent->children, node, siblings);
        else
                t->root = node;
        t->count++;
        return node;
}

/* -- watches -------------------------------------------------------------------------------------------------- */

/* Watch through a descriptor, so that path length and links do not matter. fchdir() is safe: this
 * process does not otherwise use its working directory. */
static int watch(struct watch_tree *t, int fd, struct watch_node *parent, const char *name, struct watch_node **ret,
                 struct cloche_err *e)
{
        struct watch_node *node;
        int wd, r;

        if (fchdir(fd) < 0)
                return errno == EACCES ? 0 : files_os(e, errno, "go to the directory %s", name);
        wd = inotify_add_watch(t->inotify_fd, ".", WATCHED);
        r = errno;
        if (chdir("/") < 0) /* a process in a directory keeps it from being released */
                return files_os(e, errno, "go to /");
        errno = r;
        if (wd < 0 && errno == ENOSPC)
                return err_set(e, CLOCHE_E_RESOURCE,
                               "the kernel's limit of watches (fs.inotify.max_user_watches) is used up after %zu "
                               "directories: exclude some, or raise it on the host",
                               t->count);
        if (wd < 0)
                return parent && (errno == EACCES || errno == ENOENT)
                               ? 0
                               : files_os(e, errno, "watch the directory %s", name);
        node = watch_tree_find(t, wd);
        if (node && node->parent != parent)
                return err_set(e, CLOCHE_E_FILE_KIND, "the directory %s is met in two places, which cannot be watched",
                               name);
        *ret = node ? node : add_node(t, parent, name, wd);
        return *ret ? 1 : request_no_memory(e);
}

/* -- scan ----------------------------------------------------------------------------------------------------- */

struct scan {
        struct watch_tree *t;
        struct watch_node *at, *found;
        watch_told told;
        void *data;
};

static int meet_directory(struct scan *s, const struct walk_entry *entry, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(entry->dir_fd, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int r;

        if (fd < 0)
                return WALK_PASS_OVER;
        r = watch(s->t, fd, s->at, entry->name, &s->found, e);
        return r > 0 ? WALK_ON : r < 0 ? r : WALK_PASS_OVER;
}

static int meet(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        _cleanup_text_ char *path = NULL;
        struct scan *s = data;
        int is_directory = S_ISDIR(entry->status->st_mode), r;

        if (event == WALK_ENTER) {
                s->at = s->found;
                return WALK_ON;
        }
        if (event == WALK_LEAVE) {
                s->at = s->at->parent;
                return WALK_ON;
        }
        path = watch_node_path(s->at, entry->name);
        if (!path)
                return request_no_memory(e);
        if (path_filter_excludes(s->t->filter, path) || path_is_temporary(entry->name))
                return WALK_PASS_OVER;
        r = s->told ? s->told(s->data, path, is_directory, e) : 0;
        if (r < 0)
                return r;
        return is_directory && !s->t->is_flat ? meet_directory(s, entry, e) : WALK_ON;
}

int watch_tree_scan(struct watch_tree *t, const char *root, struct watch_node *node, const char *name, watch_told told,
                    void *data, struct cloche_err *e)
{
        struct scan scan = {.t = t, .at = node, .told = told, .data = data};
        struct walk_options walk = {.visit = meet, .data = &scan, .skips_denied = 1, .is_flat = t->is_flat};
        _cleanup_text_ char *relative = watch_node_path(node, name ? name : ""),
                            *path = relative ? path_join(root, relative) : NULL;
        _cleanup_fd_ int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (name ? O_NOFOLLOW : 0)) : -EBADF;
        int r = 1;

        if (!path)
                return request_no_memory(e);
        if (fd < 0) /* it has vanished or is unreadable */
                return 0;
        if (name) {
                r = watch(t, fd, node, name, &scan.at, e);
                if (r <= 0)
                        return r;
        }
        return walk_tree(fd, &walk, e);
}

int watch_tree_open(struct watch_tree *t, const char *path, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r;

        if (fd < 0)
                return files_os(e, errno, "watch %s", path);
        t->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (t->inotify_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno,
                              "watch files (fs.inotify.max_user_instances may be used up)");
        r = watch(t, fd, NULL, "", &t->root, e);
        if (r == 0)
                return files_os(e, EACCES, "watch %s", path);
        return r < 0 || t->is_flat ? (r < 0 ? r : 0) : watch_tree_scan(t, path, t->root, NULL, NULL, NULL, e);
}

void watch_tree_done(struct watch_tree *t)
{
        if (t->root)
                watch_tree_drop(t, t->root, 0);
        fd_close(&t->inotify_fd);
}
