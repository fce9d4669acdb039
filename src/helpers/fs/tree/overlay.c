/* Operations on the merged tree.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "overlay.h"

#include "access.h"
#include "base/fd.h"
#include "helpers/fs/rules/reserved.h"
#include "points.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* -- lookup --------------------------------------------------------------------------------------------------- */

/* Stat the host's entry if the guest may see it. */
static int stat_lower(struct fs_mount *mount, struct node *parent, const char *name, const struct stat *known,
                      struct stat *ret)
{
        const char *path, *why;
        int r = 0;

        if (!parent->has_lower)
                return -ENOENT;
        if (known)
                *ret = *known;
        else
                r = directory_stat(&mount->directories, parent, name, ret);
        if (r == 0 && !known && !directory_spells(&mount->directories, parent, name, ret))
                r = -ENOENT;
        if (r == 0 && !loading_needs_stat(mount->loading))
                return 0;
        path = node_child_lower_path(parent, name, mount->lower_path);
        if (!path)
                return -ENAMETOOLONG;
        if (r == -EXDEV)
                denial_log_warn(&mount->denial_log, path, "another file system is mounted there");
        /* The host has put something else in the way: the path does not resolve. */
        if (r == -ELOOP || r == -ENOTDIR || r == -EXDEV)
                r = -ENOENT;
        if (r == 0 && !loading_admits(mount->loading, path, ret, &why)) {
                r = -ENOENT;
                if (why)
                        denial_log_warn(&mount->denial_log, path, why);
        }
        return r;
}

bool overlay_hides(struct fs_mount *mount, const struct node *parent, const char *text)
{
        struct name *name = tree_find(&mount->tree, parent, text);
        const char *path;
        struct stat st;

        if (name)
                return name->left_out;
        if (!parent->has_lower || !loading_needs_stat(mount->loading))
                return false;
        path = node_child_lower_path(parent, text, mount->lower_path);
        return path && lower_stat(&mount->lower, path, &st) == 0;
}

void overlay_cover(struct fs_mount *mount, struct name *name)
{
        const char *path = node_child_lower_path(name->parent, name->bytes, mount->lower_path);
        struct stat st;

        name->left_out = true;
        if (name->covered || !path || lower_stat(&mount->lower, path, &st) < 0)
                return;
        name->covered = malloc(sizeof(*name->covered));
        if (name->covered)
                lower_identify(&st, name->covered);
}

static int enter(struct fs_mount *mount, struct node *parent, const char *text, const struct stat *st,
                 struct node **ret)
{
        struct node *node = tree_new_lower_node(&mount->tree, parent, text, st);
        struct name *name = node ? tree_make_name(&mount->tree, parent, text) : NULL;

        if (!name) {
                if (node)
                        tree_settle(&mount->tree, node);
                return -ENOMEM;
        }
        tree_put(&mount->tree, name, node);
        lower_identify(st, &node->shown);
        *ret = node;
        return 0;
}

/* Drop an unchanged node of the host together with its entry. */
static void drop_stale(struct fs_mount *mount, struct name *name)
{
        struct node *node = name->node;

        tree_drop(name);
        tree_settle_name(&mount->tree, name);
        overlay_settle(mount, node);
}

int overlay_lookup(struct fs_mount *mount, struct node *parent, const char *text, const struct stat *known,
                   struct node **ret)
{
        struct name *name = tree_find(&mount->tree, parent, text);
        struct stat st;
        int r;

        if (reserved_is(text, strlen(text)))
                return -ENOENT;
        if (name && (!name->node || node_is_changed(name->node) || name->node->entry_count)) {
                *ret = name->node;
                if (!name->node || node_is_changed(name->node))
                        return name->node ? 0 : -ENOENT;
        }
        r = stat_lower(mount, parent, text, known, &st);
        /* The replacement of a file that the kernel reads directly gets its own node: one node
         * cannot have two files read at once. */
        if (name && name->node &&
            (r < 0 || (st.st_mode & S_IFMT) != name->node->kind || node_is_replaced(name->node, &st))) {
                /* A directory with changes of the guest stays, even if the host's is gone. */
                if (name->node->entry_count)
                        return 0;
                drop_stale(mount, name);
                name = NULL;
        }
        if (r < 0)
                return r;
        if (!name)
                return enter(mount, parent, text, &st, ret);
        name->node->st = st;
        *ret = name->node;
        return 0;
}

int overlay_refresh(struct fs_mount *mount, struct node *node)
{
        struct stat st;
        int r;

        /* A directory with entries of the guest stays, even if the host's is gone. */
        if (node->own || !node->has_lower || node->entry_count)
                return 0;
        r = node->lower_parent ? directory_stat(&mount->directories, node->lower_parent, node->lower_name, &st)
                               : lower_stat(&mount->lower, "", &st);
        if (r < 0)
                return r == -ENAMETOOLONG ? r : -ESTALE;
        if ((st.st_mode & S_IFMT) != node->kind || node_is_replaced(node, &st))
                return -ESTALE;
        node->st = st;
        return 0;
}

static void stat_of_guest(const struct node *node, struct stat *st)
{
        st->st_mode = node->kind | node->attributes.permissions;
        st->st_size = (off_t)node->attributes.size;
        st->st_atim = node->attributes.atime;
        st->st_mtim = node->attributes.mtime;
        st->st_ctim = node->attributes.ctime;
        st->st_nlink = node->name_count;
}

void overlay_stat(struct fs_mount *mount, struct node *node, struct stat *ret)
{
        *ret = (struct stat){
                .st_ino = node->ino,
                .st_uid = mount->settings.uid,
                .st_gid = mount->settings.gid,
                .st_mode = node->kind | (node->st.st_mode & (node->kind == S_IFDIR ? 01777 : 0777)),
                .st_nlink = node->name_count > 1 ? node->name_count : node->st.st_nlink,
                .st_size = node->st.st_size,
                .st_atim = node->st.st_atim,
                .st_mtim = node->st.st_mtim,
                .st_ctim = node->st.st_ctim,
                .st_blksize = 1 << 17,
        };
        if (node->own)
                stat_of_guest(node, ret);
        if (node->kind == S_IFDIR)
                ret->st_nlink = 1; /* not counted; find(1) and others understand 1 */
        ret->st_blocks = (ret->st_size + 511) / 512;
        if (!access_veils(mount, node))
                return;
        ret->st_mode = node->kind | (node->kind == S_IFDIR ? 0700 : 0600);
        ret->st_size = ret->st_blocks = 0;
        ret->st_atim = ret->st_mtim = ret->st_ctim = (struct timespec){0};
}

int overlay_first_part(const char *path, char ret[NODE_NAME_MAX + 1])
{
        size_t size = strcspn(path, "/");

        if (size > NODE_NAME_MAX)
                return -ENAMETOOLONG;
        if (size == 0 || (path[0] == '.' && (size == 1 || (size == 2 && path[1] == '.'))))
                return -EINVAL;
        memcpy(ret, path, size);
        ret[size] = '\0';
        return (int)size;
}

int overlay_walk(struct fs_mount *mount, const char *path, struct node **ret)
{
        struct node *node = mount->tree.root, *next = NULL;
        char part[NODE_NAME_MAX + 1];

        while (*path) {
                int size = overlay_first_part(path, part), r = size;

                if (r > 0)
                        r = node->kind == S_IFDIR ? overlay_lookup(mount, node, part, NULL, &next) : -ENOTDIR;
                if (r < 0) {
                        overlay_settle(mount, node);
                        return r;
                }
                node = next;
                path += size + (path[size] == '/');
        }
        *ret = node;
        return 0;
}

/* -- changing ------------------------------------------------------------------------------------------------- */

int overlay_has_room(const struct fs_mount *mount)
{
        return tree_has_room(&mount->tree) ? 0 : -ENOSPC;
}

int overlay_own(struct fs_mount *mount, struct node *node)
{
        int r;

        if (node->own)
                return 0;
        r = overlay_refresh(mount, node);
        if (r < 0)
                return r;
        if (tree_own(&mount->tree, node) < 0)
                return -ENOSPC;
        if (!node->has_lower) {
                clock_gettime(CLOCK_REALTIME, &node->attributes.ctime);
                node->attributes.atime = node->attributes.mtime = node->attributes.ctime;
                return 0;
        }
        if (node_is_at_home(node)) /* a moved node has it recorded since the move */
                lower_identify(&node->st, &node->copied);
        node->attributes = (struct attributes){
                .permissions = node->st.st_mode & (node->kind == S_IFDIR ? 01777 : 0777),
                .size = (uint64_t)node->st.st_size,
                .atime = node->st.st_atim,
                .mtime = node->st.st_mtim,
                .ctime = node->st.st_ctim,
        };
        return 0;
}

void overlay_touch(struct node *node, bool contents)
{
        clock_gettime(CLOCK_REALTIME, &node->attributes.ctime);
        if (contents)
                node->attributes.mtime = node->attributes.ctime;
}

static int copy_contents(struct fs_mount *mount, struct node *node, int to_fd, uint64_t keep)
{
        struct lower_identity now;
        struct stat st;
        _cleanup_fd_ int from_fd = directory_open_file(&mount->directories, node->lower_parent, node->lower_name, &st);

        if (from_fd < 0)
                return from_fd;
        lower_identify(&st, &now);
        node->copied = now;
        node->stale = !lower_same(&now, &node->shown);
        if (keep > now.size)
                keep = now.size;
        node->attributes.size = keep;
        return upper_copy(&mount->upper, to_fd, from_fd, keep);
}

int overlay_copy_up(struct fs_mount *mount, struct node *node, uint64_t keep)
{
        _cleanup_fd_ int to_fd = -EBADF;
        uint64_t number;
        int r;

        if (node->content) {
                node->written = true; /* contents of a seed were not written until now */
                return 0;
        }
        r = overlay_own(mount, node);
        if (r < 0)
                return r;
        to_fd = upper_create(&mount->upper, &number);
        if (to_fd < 0)
                return to_fd;
        r = node->has_lower && keep ? copy_contents(mount, node, to_fd, keep) : 0;
        if (r < 0) {
                upper_remove(&mount->upper, number);
                return r;
        }
        if (!keep)
                node->attributes.size = 0;
        /* After a change, the host's hard links are separate files and need different inode
         * numbers. */
        if (node->has_lower && node->st.st_nlink > 1)
                node->ino = tree_new_ino(&mount->tree);
        node->content = number;
        node->written = true;
        return 0;
}

int overlay_open_contents(struct fs_mount *mount, struct node *node, int flags)
{
        if (node->content)
                return upper_open(&mount->upper, node->content, flags);
        return node->has_lower
                       ? directory_open_file(&mount->directories, node->lower_parent, node->lower_name, &node->st)
                       : -ESTALE;
}

int overlay_truncate(struct fs_mount *mount, struct node *node, uint64_t size)
{
        _cleanup_fd_ int fd = -EBADF;
        uint64_t before;
        int r = overlay_copy_up(mount, node, size);

        if (r < 0)
                return r;
        if (node->attributes.size != size) {
                fd = upper_open(&mount->upper, node->content, O_RDWR);
                if (fd < 0)
                        return fd;
                before = upper_measure(fd);
                if (ftruncate(fd, (off_t)size) < 0)
                        return -errno;
                upper_count(&mount->upper, fd, before);
        }
        node->attributes.size = size;
        overlay_touch(node, true);
        return 0;
}

void overlay_settle(struct fs_mount *mount, struct node *node)
{
        if (node->content && !node->name_count && !node->handles && !node->lookups) {
                upper_remove(&mount->upper, node->content);
                node->content = 0;
        }
        tree_settle(&mount->tree, node);
}

/* -- symbolic links ------------------------------------------------------------------------------------------- */

/* Translate a host link to an absolute path inside the mount to the guest's path. */
static const char *translated(const struct fs_mount *mount, const char *target, char *ret, size_t size)
{
        const char *source = mount->settings.source;
        size_t n = source ? strlen(source) : 0;

        if (!n || !mount->settings.target || strncmp(target, source, n) != 0 || (target[n] && target[n] != '/'))
                return target;
        return snprintf(ret, size, "%s%s", mount->settings.target, target + n) < (int)size ? ret : target;
}

static bool is_dots(const char *part, size_t size)
{
        return size == 2 && part[0] == '.' && part[1] == '.';
}

/* True if target stays inside, seen from a directory at this depth. A ".." after a name counts as
 * leaving: the name may be a link itself. */
static bool stays_inside(const struct fs_mount *mount, const char *target, size_t depth)
{
        bool named = false;

        if (*target == '/') {
                size_t n = mount->settings.target ? strlen(mount->settings.target) : 0;

                if (!n || strncmp(target, mount->settings.target, n) != 0 || (target[n] && target[n] != '/'))
                        return false;
                target += n;
                depth = 0;
        }
        while (*target) {
                size_t size = strcspn(target, "/");

                if (is_dots(target, size) && (named || depth-- == 0))
                        return false;
                if (size && !is_dots(target, size) && !(size == 1 && *target == '.'))
                        named = true;
                target += size + (target[size] == '/');
        }
        return true;
}

static size_t depth_of(const struct node *node)
{
        size_t depth = 0;

        for (node = node_parent(node); node && node->names; node = node_parent(node))
                depth++;
        return depth;
}

int overlay_read_link(struct fs_mount *mount, struct node *node, char *ret, size_t size)
{
        char raw[PATH_MAX];
        const char *target = node->target;
        int n;

        if (mount->settings.links == LINKS_NONE)
                return -ELOOP;
        if (!target) {
                n = directory_read_link(&mount->directories, node->lower_parent, node->lower_name, raw,
                                        sizeof(raw) - 1);
                if (n < 0)
                        return n;
                raw[n] = '\0';
                target = translated(mount, raw, ret, size);
        }
        if (mount->settings.links == LINKS_RESTRICTED && !stays_inside(mount, target, depth_of(node)))
                return -EACCES;
        if (strlen(target) >= size)
                return -ENAMETOOLONG;
        if (target != ret)
                strcpy(ret, target);
        return 0;
}

/* -- eager loading -------------------------------------------------------------------------------------------- */

struct eager {
        struct fs_mount *mount;
        uint64_t total;
        size_t depth;
        char path[NODE_PATH_MAX];
        size_t size;
};

#define DEPTH_MAX 5000

static int leave_out(struct eager *eager, const char *text, const char *why)
{
        struct fs_mount *mount = eager->mount;
        char above[NODE_PATH_MAX];
        struct node *parent;
        struct name *name;
        size_t size = eager->size ? eager->size - 1 : 0;
        int r;

        memcpy(above, eager->path, size);
        above[size] = '\0';
        r = overlay_walk(mount, above, &parent);
        if (r < 0)
                return r;
        name = mount->tree.name_count < mount->tree.limits.nodes ? tree_make_name(&mount->tree, parent, text) : NULL;
        if (!name)
                return -ENOMEM;
        name->left_out = true;
        denial_log_warn(&mount->denial_log, eager->path, why);
        return 0;
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
        return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_directory(struct eager *eager);

static int load_entry(struct eager *eager, const char *text)
{
        size_t before = eager->size, size = strlen(text);
        const char *why;
        struct stat st;
        int r = 0;

        if (before + size + 2 > NODE_PATH_MAX || reserved_is(text, size))
                return 0; /* the guest cannot reach it either */
        memcpy(eager->path + before, text, size + 1);
        if (points_has_path(eager->mount, eager->path))
                return 0;
        if (lower_stat(&eager->mount->lower, eager->path, &st) < 0)
                st.st_mode = 0; /* removed just now */
        if (!loading_admits(eager->mount->loading, eager->path, &st, &why)) {
                if (why)
                        denial_log_warn(&eager->mount->denial_log, eager->path, why);
        } else if (S_ISREG(st.st_mode)) {
                if ((uint64_t)st.st_size > eager->mount->settings.max_total_bytes - eager->total)
                        r = leave_out(eager, text, "over maxTotalSize with those before it");
                else
                        eager->total += (uint64_t)st.st_size;
        } else if (S_ISDIR(st.st_mode) && eager->depth >= DEPTH_MAX) {
                r = leave_out(eager, text, "too deep to be loaded");
        } else if (S_ISDIR(st.st_mode)) {
                eager->path[before + size] = '/';
                eager->path[before + size + 1] = '\0';
                eager->size = before + size + 1;
                eager->depth++;
                r = load_directory(eager);
                eager->depth--;
        }
        eager->size = before;
        eager->path[before] = '\0';
        return r;
}

static int load_directory(struct eager *eager)
{
        struct dirent **entries = NULL;
        _cleanup_fd_ int fd = -EBADF;
        int count, r = 0;

        /* The directory's own path, without the trailing slash. */
        if (eager->size)
                eager->path[eager->size - 1] = '\0';
        fd = lower_open(&eager->mount->lower, eager->path, O_RDONLY | O_DIRECTORY);
        if (eager->size)
                eager->path[eager->size - 1] = '/';
        count = fd < 0 ? 0 : scandirat(fd, ".", &entries, NULL, compare_entries);
        fd_close(&fd); /* a tree may be deeper than the limit of descriptors */
        for (int i = 0; i < count; i++) {
                const char *text = entries[i]->d_name;

                if (r == 0 && strcmp(text, ".") != 0 && strcmp(text, "..") != 0)
                        r = load_entry(eager, text);
                free(entries[i]);
        }
        free(entries);
        return r;
}

int overlay_load_eagerly(struct fs_mount *mount)
{
        struct eager *eager;
        int r;

        if (mount->settings.loading != LOADING_EAGER || !mount->settings.max_total_bytes)
                return 0;
        eager = calloc(1, sizeof(*eager));
        if (!eager)
                return -ENOMEM;
        eager->mount = mount;
        r = load_directory(eager);
        free(eager);
        return r;
}
