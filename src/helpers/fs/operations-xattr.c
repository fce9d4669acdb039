/* Extended attributes: only the guest's user.*, held in memory. The host's are neither shown nor
 * changed. Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "operations-internal.h"

#include "helpers/fs/tree/overlay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define VALUE_MAX 65536

static int check_name(const char *name)
{
        return strncmp(name, "user.", 5) != 0 ? -EOPNOTSUPP : strlen(name) > NODE_NAME_MAX ? -ERANGE : 0;
}

/* The address of the pointer to it, or of the one at the end of the list. */
static struct xattr **find(struct node *node, const char *name)
{
        struct xattr **at = &node->xattrs;

        while (*at && strcmp((*at)->bytes, name) != 0)
                at = &(*at)->next;
        return at;
}

static void drop(struct tree *tree, struct xattr **at)
{
        struct xattr *x = *at;

        *at = x->next;
        tree->xattr_bytes -= x->name_size + x->size;
        free(x);
}

static int set(struct fs_mount *mount, struct node *node, const char *name, const char *value, size_t size, int flags)
{
        struct tree *tree = &mount->tree;
        size_t name_size = strlen(name) + 1;
        struct xattr **at = find(node, name), *x;
        int r;

        if (*at ? flags & XATTR_CREATE : flags & XATTR_REPLACE)
                return *at ? -EEXIST : -ENODATA;
        if (size > VALUE_MAX)
                return -E2BIG;
        if (tree->xattr_bytes + name_size + size > tree->limits.xattr_bytes)
                return -ENOSPC;
        r = overlay_own(mount, node);
        x = r == 0 ? malloc(sizeof(*x) + name_size + size) : NULL;
        if (!x)
                return r < 0 ? r : -ENOMEM;
        *x = (struct xattr){.name_size = name_size, .size = size};
        memcpy(x->bytes, name, name_size);
        memcpy(x->bytes + name_size, value, size);
        tree->xattr_bytes += name_size + size;
        if (*at)
                drop(tree, at);
        x->next = node->xattrs;
        node->xattrs = x;
        overlay_touch(node, false);
        return 0;
}

static int may_set(struct fs_mount *mount, struct node *node, const char *name)
{
        enum access_verdict verdict;
        int r = check_name(name);

        if (r < 0 || node->making)
                return r < 0 ? r : 1;
        verdict = access_check_node(mount, node, RULES_MODIFY);
        node->is_virtual |= verdict == ACCESS_VIRTUAL;
        return go_on(verdict);
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
        struct fs_mount *mount = mount_of(req);
        struct node *node = node_of(req, ino);
        int r = may_set(mount, node, name);

        if (r > 0)
                r = set(mount, node, name, value, size, flags);
        fuse_reply_err(req, -r);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
        struct fs_mount *mount = mount_of(req);
        struct node *node = node_of(req, ino);
        int r = may_set(mount, node, name);

        if (r > 0) {
                struct xattr **at = find(node, name);

                r = *at ? 0 : -ENODATA;
                if (*at)
                        drop(&mount->tree, at);
        }
        fuse_reply_err(req, -r);
}

static void reply_bytes(fuse_req_t req, const char *bytes, size_t size, size_t room)
{
        if (room == 0)
                fuse_reply_xattr(req, size);
        else if (size > room)
                fuse_reply_err(req, ERANGE);
        else
                fuse_reply_buf(req, bytes, size);
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
        struct fs_mount *mount = mount_of(req);
        struct node *node = node_of(req, ino);
        struct xattr *x = *find(node, name);
        int r = check_name(name);

        if (r == 0 && !x)
                r = -ENODATA;
        if (r == 0 && !access_allows(mount, node, RULES_READ))
                r = go_on(access_check_node(mount, node, RULES_READ));
        if (r < 0)
                fuse_reply_err(req, -r);
        else
                reply_bytes(req, x->bytes + x->name_size, x->size, size);
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
        struct node *node = node_of(req, ino);
        size_t total = 0, at = 0;
        char *names;

        for (const struct xattr *x = node->xattrs; x; x = x->next)
                total += x->name_size;
        names = malloc(total + 1);
        if (!names) {
                fuse_reply_err(req, ENOMEM);
                return;
        }
        for (const struct xattr *x = node->xattrs; x; x = x->next) {
                memcpy(names + at, x->bytes, x->name_size);
                at += x->name_size;
        }
        reply_bytes(req, names, total, size);
        free(names);
}
