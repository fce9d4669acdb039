/* Operations on names, and helpers shared by operations*.c.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "operations-internal.h"

#include "helpers/fs/rules/reserved.h"
#include "helpers/fs/tree/overlay.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>

/* -- shared --------------------------------------------------------------------------------------------------- */

struct fs_mount *mount_of(fuse_req_t req)
{
        return fuse_req_userdata(req);
}

struct node *node_of(fuse_req_t req, fuse_ino_t ino)
{
        const struct fs_mount *mount = mount_of(req);
        struct node *node = ino != FUSE_ROOT_ID ? (struct node *)(uintptr_t)ino
                            : mount->file       ? mount->file
                                                : mount->tree.root;

        assert(node->magic == NODE_MAGIC);
        return node;
}

fuse_ino_t ino_of(const struct fs_mount *mount, const struct node *node)
{
        return node == (mount->file ? mount->file : mount->tree.root) ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)node;
}

int go_on(enum access_verdict verdict)
{
        return verdict == ACCESS_NO ? -EACCES : verdict != ACCESS_DROP;
}

/* A pretended rename is undone when the kernel looks the names up again, so they must not be
 * cached. */
static double entry_cache_s(const struct fs_mount *mount, const struct node *node)
{
        if (mount->settings.on_denied == DENIED_IGNORE)
                return 0;
        return node_is_changed(node) ? CACHE_OWN_S : mount->settings.cache_s;
}

double attr_cache_s(const struct fs_mount *mount, const struct node *node)
{
        return node->own ? CACHE_OWN_S : mount->settings.cache_s;
}

void fill_entry(struct fs_mount *mount, struct node *node, struct fuse_entry_param *ret)
{
        *ret = (struct fuse_entry_param){
                .ino = ino_of(mount, node),
                .attr_timeout = attr_cache_s(mount, node),
                .entry_timeout = entry_cache_s(mount, node),
        };
        overlay_stat(mount, node, &ret->attr);
        node->lookups++;
}

void forget(struct fs_mount *mount, struct node *node, uint64_t count)
{
        assert(node->lookups >= count);
        node->lookups -= count;
        if (!node->lookups)
                overlay_settle(mount, node);
}

/* Takes the reference back if the kernel did not receive the reply. */
static void reply_entry(fuse_req_t req, struct fs_mount *mount, struct node *node, bool cached)
{
        struct fuse_entry_param entry;

        fill_entry(mount, node, &entry);
        if (!cached)
                entry.entry_timeout = entry.attr_timeout = 0;
        if (fuse_reply_entry(req, &entry) < 0)
                forget(mount, node, 1);
}

static void reply_nothing(fuse_req_t req, const struct fs_mount *mount, const struct node *parent)
{
        struct fuse_entry_param entry = {.entry_timeout = parent->has_lower ? mount->settings.cache_s : CACHE_OWN_S};

        if (mount->settings.on_denied == DENIED_IGNORE || entry.entry_timeout == 0)
                fuse_reply_err(req, ENOENT);
        else
                fuse_reply_entry(req, &entry);
}

int may_make(struct fs_mount *mount, struct node *parent, const char *name, bool *ret_virtual)
{
        struct node *there;
        enum access_verdict verdict;
        int r;

        if (strlen(name) > NODE_NAME_MAX || !node_child_path(parent, name, mount->path))
                return -ENAMETOOLONG;
        if (parent != mount->tree.root && !parent->name_count)
                return -ENOENT;
        if (reserved_is(name, strlen(name)))
                return -EACCES;
        r = overlay_lookup(mount, parent, name, NULL, &there);
        if (r == 0) {
                overlay_settle(mount, there);
                return -EEXIST;
        }
        if (r != -ENOENT)
                return r;
        /* The new entry would replace a host entry that the guest cannot see. */
        verdict = access_check_name(mount, parent, name,
                                    overlay_hides(mount, parent, name) ? RULES_MODIFY : RULES_CREATE);
        *ret_virtual = verdict == ACCESS_VIRTUAL;
        return go_on(verdict);
}

struct node *make_node(struct fs_mount *mount, mode_t mode)
{
        struct node *node = tree_new_node(&mount->tree, mode);

        if (!node)
                return NULL;
        if (overlay_own(mount, node) < 0) {
                tree_settle(&mount->tree, node);
                return NULL;
        }
        node->attributes.permissions = mode & (node->kind == S_IFDIR ? 01777 : 0777);
        return node;
}

int put_new(struct fs_mount *mount, struct node *parent, const char *text, struct node *node, bool is_virtual)
{
        bool hidden = overlay_hides(mount, parent, text);
        int r = overlay_own(mount, parent);
        struct name *name = r == 0 ? tree_make_name(&mount->tree, parent, text) : NULL;

        if (!name) {
                overlay_settle(mount, node);
                return r < 0 ? r : -ENOMEM;
        }
        if (hidden)
                overlay_cover(mount, name);
        name->made_virtual = is_virtual;
        tree_put(&mount->tree, name, node);
        overlay_touch(parent, true);
        return 0;
}

/* -- lookup --------------------------------------------------------------------------------------------------- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
        struct fs_mount *mount = mount_of(req);
        struct node *directory = node_of(req, parent), *node;
        int r = strlen(name) > NODE_NAME_MAX ? -ENAMETOOLONG : overlay_lookup(mount, directory, name, NULL, &node);

        if (r == -ENOENT)
                reply_nothing(req, mount, directory);
        else if (r < 0)
                fuse_reply_err(req, -r);
        else
                reply_entry(req, mount, node, true);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
        forget(mount_of(req), node_of(req, ino), ino == FUSE_ROOT_ID ? 0 : count);
        fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
        for (size_t i = 0; i < count; i++)
                forget(mount_of(req), node_of(req, forgets[i].ino),
                       forgets[i].ino == FUSE_ROOT_ID ? 0 : forgets[i].nlookup);
        fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
        struct fs_mount *mount = mount_of(req);
        struct node *node = node_of(req, ino);
        /* For an open file that the host removed, the last attributes are used. */
        int r = overlay_refresh(mount, node);
        struct stat st;

        if (r < 0 && !fi && !node->handles) {
                fuse_reply_err(req, -r);
                return;
        }
        overlay_stat(mount, node, &st);
        fuse_reply_attr(req, &st, attr_cache_s(mount, node));
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
        struct fs_mount *mount = mount_of(req);
        struct node *node = node_of(req, ino);
        char target[PATH_MAX];
        int r = go_on(access_check_node(mount, node, RULES_READ));

        if (r > 0)
                r = overlay_read_link(mount, node, target, sizeof(target));
        if (r < 0)
                fuse_reply_err(req, -r);
        else
                fuse_reply_readlink(req, target);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
        struct fs_mount *mount = mount_of(req);
        struct statvfs st;
        uint64_t max = mount->upper.bytes_max, left = max > mount->upper.bytes_used ? max - mount->upper.bytes_used : 0;
        size_t nodes = mount->settings.tree.changed;

        (void)ino;
        if (fstatvfs(mount->upper.dir_fd, &st) < 0) {
                fuse_reply_err(req, errno);
                return;
        }
        if (max && max / st.f_frsize < st.f_blocks) {
                st.f_blocks = max / st.f_frsize;
                if (left / st.f_frsize < st.f_bavail)
                        st.f_bfree = st.f_bavail = left / st.f_frsize;
        }
        st.f_files = nodes;
        st.f_ffree = st.f_favail = nodes > mount->tree.changed_count ? nodes - mount->tree.changed_count : 0;
        st.f_namemax = NODE_NAME_MAX;
        fuse_reply_statfs(req, &st);
}

/* -- creation ------------------------------------------------------------------------------------------------- */

/* 0: replied. Otherwise *ret_virtual is set and the caller creates the entry. */
static int start_creating(fuse_req_t req, struct node *parent, const char *name, mode_t mode, bool *ret_virtual)
{
        struct fs_mount *mount = mount_of(req);
        int r = may_make(mount, parent, name, ret_virtual);
        struct node *ghost = r == 0 ? make_node(mount, mode) : NULL;

        if (r > 0)
                r = overlay_has_room(mount) < 0 ? -ENOSPC : 1;
        if (ghost)
                reply_entry(req, mount, ghost, false);
        else if (r <= 0)
                fuse_reply_err(req, r < 0 ? -r : ENOSPC);
        return r > 0;
}

static void finish_making(fuse_req_t req, struct node *parent, const char *name, struct node *node, bool is_virtual)
{
        struct fs_mount *mount = mount_of(req);
        int r = node ? put_new(mount, parent, name, node, is_virtual) : -ENOSPC;

        if (r < 0)
                fuse_reply_err(req, -r);
        else
                reply_entry(req, mount, node, true);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
        struct node *directory = node_of(req, parent);
        bool is_virtual;

        if (start_creating(req, directory, name, S_IFDIR | (mode & 01777), &is_virtual))
                finish_making(req, directory, name, make_node(mount_of(req), S_IFDIR | (mode & 01777)), is_virtual);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
        struct node *directory = node_of(req, parent);
        bool is_virtual;

        (void)rdev;
        if (!S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode)) {
                fuse_reply_err(req, EPERM);
                return;
        }
        if (start_creating(req, directory, name, mode, &is_virtual)) {
                struct fs_mount *mount = mount_of(req);
                struct node *node = make_node(mount, mode);

                if (node && S_ISREG(mode) && overlay_copy_up(mount, node, 0) < 0) {
                        overlay_settle(mount, node);
                        node = NULL;
                }
                finish_making(req, directory, name, node, is_virtual);
        }
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
        struct node *directory = node_of(req, parent), *node;
        bool is_virtual;

        if (!start_creating(req, directory, name, S_IFLNK | 0777, &is_virtual))
                return;
        node = make_node(mount_of(req), S_IFLNK | 0777);
        if (node) {
                node->target = strdup(target);
                node->attributes.size = strlen(target);
        }
        if (node && !node->target) {
                overlay_settle(mount_of(req), node);
                node = NULL;
        }
        finish_making(req, directory, name, node, is_virtual);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *name)
{
        struct fs_mount *mount = mount_of(req);
        struct node *node = node_of(req, ino), *directory = node_of(req, new_parent);
        bool is_virtual = false;
        /* A second name must not give access to contents that the first denies. */
        int r = !node->name_count && !node->nameless ? -ENOENT
                : node->nameless                     ? 1
                                                     : go_on(access_check_node(mount, node, RULES_READ));

        if (r > 0)
                r = may_make(mount, directory, name, &is_virtual);
        if (r == 0) {
                reply_entry(req, mount, node, false);
                return;
        }
        if (r > 0)
                r = overlay_own(mount, node);
        if (r == 0) {
                node->pins++; /* put_new releases a node it could not name */
                r = put_new(mount, directory, name, node, is_virtual);
                node->pins--;
        }
        if (r < 0) {
                fuse_reply_err(req, -r);
                return;
        }
        node->nameless = false;
        overlay_touch(node, false);
        reply_entry(req, mount, node, true);
}

/* -- the table ------------------------------------------------------------------------------------------------ */

static void op_init(void *argument, struct fuse_conn_info *conn)
{
        (void)argument;
        /* Pages of a file are dropped only on our request: open compares versions with the
         * kernel's, and the guest's own writes do not count as changes. No write-back: sizes and
         * times stay ours, and a refused write fails at once. */
        conn->want &= ~(unsigned)(FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_SPLICE_READ | FUSE_CAP_WRITEBACK_CACHE |
                                  FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_POSIX_LOCKS | FUSE_CAP_IOCTL_DIR);
        conn->want |=
                conn->capable & (FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_PARALLEL_DIROPS |
                                 FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ASYNC_READ);
        conn->max_write = 1 << 20;
        conn->max_background = 64;
        conn->congestion_threshold = 48;
}

const struct fuse_lowlevel_ops operations = {
        .init = op_init,
        .lookup = op_lookup,
        .forget = op_forget,
        .forget_multi = op_forget_multi,
        .getattr = op_getattr,
        .setattr = op_setattr,
        .readlink = op_readlink,
        .mknod = op_mknod,
        .mkdir = op_mkdir,
        .unlink = op_unlink,
        .rmdir = op_rmdir,
        .symlink = op_symlink,
        .rename = op_rename,
        .link = op_link,
        .create = op_create,
        .open = op_open,
        .read = op_read,
        .write = op_write,
        .release = op_release,
        .opendir = op_opendir,
        .readdir = op_readdir,
        .readdirplus = op_readdirplus,
        .releasedir = op_releasedir,
        .statfs = op_statfs,
        .setxattr = op_setxattr,
        .getxattr = op_getxattr,
        .listxattr = op_listxattr,
        .removexattr = op_removexattr,
        .fallocate = op_fallocate,
        .lseek = op_lseek,
        .copy_file_range = op_copy_file_range,
        /* Left out, so that the kernel asks once and never again: flush, fsync, fsyncdir (nothing
         * to write back), access (the kernel checks the modes itself), locks (the kernel's own). */
};
