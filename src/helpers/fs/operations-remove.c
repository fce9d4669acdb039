/* Operations that remove or move a name.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "operations-internal.h"

#include "base/fd.h"
#include "helpers/fs/rules/reserved.h"
#include "helpers/fs/tree/overlay.h"
#include "helpers/fs/tree/points.h"
#include "listing.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUBTREE_MAX 200000 /* names checked before a directory moves */
#define DEPTH_MAX 5000

/* Find a name in the table; every existing entry has one. */
static int find(struct fs_mount *mount, struct node *parent, const char *text, struct name **ret)
{
        struct node *node;
        int r = overlay_lookup(mount, parent, text, NULL, &node);

        if (r == 0)
                *ret = tree_find(&mount->tree, parent, text);
        return r;
}

/* A directory that is empty for the guest may still hold names whose nodes are unreferenced; they
 * go with it. */
static void take_away(struct fs_mount *mount, struct name *name, bool is_virtual)
{
        struct node *node = name->node, *parent = name->parent;

        is_virtual |= name_is_in_virtual(name);
        tree_take(&mount->tree, name);
        name->removed_virtually |= is_virtual && name->removed == node;
        if (node->own)
                overlay_touch(node, false);
        node->pins++;
        tree_settle_name(&mount->tree, name);
        node->pins--;
        overlay_settle(mount, node);
        overlay_touch(parent, true);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *text, bool directory)
{
        struct fs_mount *mount = mount_of(req);
        struct name *name = NULL;
        enum access_verdict verdict = ACCESS_NO;
        int r = find(mount, node_of(req, parent), text, &name);

        if (r == 0 && (name->node->kind == S_IFDIR) != directory)
                r = directory ? -ENOTDIR : -EISDIR;
        if (r == 0 && points_is_on_way(mount, name->node))
                r = -EBUSY;
        if (r == 0 && directory)
                r = listing_check_empty(mount, name->node);
        if (r == 0) {
                verdict = access_check_node(mount, name->node, RULES_DELETE);
                r = go_on(verdict);
        }
        if (r > 0)
                r = overlay_own(mount, name->parent);
        if (r == 0 && verdict != ACCESS_DROP)
                r = overlay_has_room(mount);
        if (r == 0 && verdict != ACCESS_DROP)
                take_away(mount, name, verdict == ACCESS_VIRTUAL);
        fuse_reply_err(req, -r);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
        remove_name(req, parent, name, false);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
        remove_name(req, parent, name, true);
}

/* -- renaming ------------------------------------------------------------------------------------------------- */

/* A directory takes its contents along, so each entry must be permitted to leave and to arrive;
 * otherwise renaming a parent would bypass a rule. Above the limit: EXDEV, on which mv(1) and
 * others move the entries one by one. */
struct subtree {
        struct fs_mount *mount;
        size_t seen, depth;
        size_t from_size, to_size;
        char from[NODE_PATH_MAX], to[NODE_PATH_MAX];
        enum access_verdict verdict;
};

static void judge(struct subtree *t, const char *path, enum rules_action action)
{
        size_t rule;

        if (access_check_path(t->mount, path, action, &rule))
                return;
        denial_log_deny(&t->mount->denial_log, path, action, rules_pattern(t->mount->settings.rules, rule));
        t->verdict = access_worse(t->verdict, access_refusal(t->mount, action));
}

static int extend(char *path, size_t *size, const char *text)
{
        int n = snprintf(path + *size, NODE_PATH_MAX - *size, "/%s", text);

        if (*size + (size_t)n >= NODE_PATH_MAX)
                return -ENAMETOOLONG;
        *size += (size_t)n;
        return 0;
}

static int judge_directory(struct subtree *t, struct node *directory);

static int judge_entry(struct subtree *t, struct node *parent, const char *text, unsigned char kind)
{
        size_t from_size = t->from_size, to_size = t->to_size;
        struct node *node;
        int r = ++t->seen > SUBTREE_MAX ? -EXDEV : extend(t->from, &t->from_size, text);

        if (r == 0)
                r = extend(t->to, &t->to_size, text);
        if (r == 0) {
                const struct name *name = tree_find(&t->mount->tree, parent, text);

                if (!name || (!name->is_seed && !(name->node && name->node->seeded_at)))
                        judge(t, t->from, RULES_DELETE);
                judge(t, t->to, RULES_CREATE);
        }
        /* 0 is DT_UNKNOWN; 4 is DT_DIR. */
        if (r == 0 && t->verdict != ACCESS_NO && (kind == 4 || kind == 0) &&
            overlay_lookup(t->mount, parent, text, NULL, &node) == 0) {
                if (node->kind == S_IFDIR)
                        r = judge_directory(t, node);
                overlay_settle(t->mount, node);
        }
        t->from_size = from_size;
        t->to_size = to_size;
        t->from[from_size] = t->to[to_size] = '\0';
        return r;
}

static int judge_directory(struct subtree *t, struct node *directory)
{
        struct listing listing;
        int r = t->depth >= DEPTH_MAX ? -EXDEV : listing_read(t->mount, directory, &listing);

        if (r < 0)
                return r;
        t->depth++;
        fd_close(&listing.dir_fd);
        directory->pins++;
        for (size_t i = 0; r == 0 && i < listing.count && t->verdict != ACCESS_NO; i++)
                r = judge_entry(t, directory, listing_name(&listing, i), listing_kind(&listing, i));
        directory->pins--;
        t->depth--;
        listing_done(t->mount, &listing);
        return r;
}

static int judge_subtree(struct fs_mount *mount, const struct name *from, const struct node *parent, const char *to,
                         enum access_verdict *verdict)
{
        struct subtree *t;
        const char *path;
        int r = 0;

        if (mount->settings.all_alike)
                return 0; /* same verdict as for the directory */
        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        t->mount = mount;
        t->verdict = *verdict;
        path = name_path(from, mount->path);
        t->from_size = path ? strlen(path) : 0;
        memcpy(t->from, path ? path : "", t->from_size);
        path = node_child_path(parent, to, mount->path);
        t->to_size = path ? strlen(path) : 0;
        memcpy(t->to, path ? path : "", t->to_size);
        r = t->from_size && t->to_size ? judge_directory(t, from->node) : -ENAMETOOLONG;
        *verdict = t->verdict;
        free(t);
        return r;
}

/* Judge a move of `from` to `text` in parent, over `replaced` (or NULL). The
 * strictest of all verdicts. */
static int judge_rename(struct fs_mount *mount, const struct name *from, struct node *parent, const char *text,
                        const struct name *replaced, enum access_verdict *ret)
{
        enum access_verdict verdict = access_check_node(mount, from->node, RULES_DELETE);

        if (replaced)
                verdict = access_worse(verdict, access_check_node(mount, replaced->node, RULES_MODIFY));
        else
                verdict = access_worse(verdict, access_check_name(mount, parent, text,
                                                                  overlay_hides(mount, parent, text) ? RULES_MODIFY
                                                                                                     : RULES_CREATE));
        /* Placed entries are never synced, nor are their replacements. */
        if (from->node->seeded_at || (replaced && replaced->is_seed))
                verdict = access_worse(verdict, ACCESS_VIRTUAL);
        *ret = verdict;
        if (verdict == ACCESS_NO || from->node->kind != S_IFDIR)
                return 0;
        return judge_subtree(mount, from, parent, text, ret);
}

/* True if node is `in` or a directory above it. */
static bool is_above(const struct node *node, const struct node *in)
{
        for (; in; in = node_parent(in))
                if (in == node)
                        return true;
        return false;
}

static int check_replaced(struct fs_mount *mount, const struct node *from, const struct name *replaced, unsigned flags)
{
        if (!replaced)
                return 0;
        if (flags & RENAME_NOREPLACE)
                return -EEXIST;
        if (from->kind == S_IFDIR && replaced->node->kind != S_IFDIR)
                return -ENOTDIR;
        if (from->kind != S_IFDIR && replaced->node->kind == S_IFDIR)
                return -EISDIR;
        return replaced->node->kind == S_IFDIR ? listing_check_empty(mount, replaced->node) : 0;
}

/* Both directories and the node are the guest's already, so only memory can be missing; it is
 * allocated first. */
static int move(struct fs_mount *mount, struct name *from, struct node *parent, const char *text, bool is_virtual)
{
        bool hidden = overlay_hides(mount, parent, text);
        struct name *to = tree_make_name(&mount->tree, parent, text);
        struct node *node = from->node;

        if (!to)
                return -ENOMEM;
        node->pins++;
        is_virtual |= name_is_in_virtual(from);
        if (to->node) {
                struct node *replaced = to->node;

                tree_take(&mount->tree, to);
                to->removed_virtually |= is_virtual && to->removed == replaced;
                overlay_settle(mount, replaced);
        }
        tree_take(&mount->tree, from);
        from->removed_virtually |= is_virtual && from->removed == node;
        if (hidden)
                overlay_cover(mount, to);
        to->made_virtual = is_virtual;
        tree_put(&mount->tree, to, node);
        overlay_touch(from->parent, true);
        overlay_touch(parent, true);
        tree_settle_name(&mount->tree, from);
        node->pins--;
        if (node->kind == S_IFDIR)
                mount->tree.epoch++;
        return 0;
}

/* Ensure room for a rename's changes if the verdict permits it. Returns like go_on(). */
static int prepare_move(struct fs_mount *mount, struct node *parent, struct node *new_parent,
                        enum access_verdict verdict)
{
        int r = go_on(verdict);

        if (r <= 0)
                return r;
        r = overlay_has_room(mount);
        if (r == 0)
                r = overlay_own(mount, parent);
        if (r == 0)
                r = overlay_own(mount, new_parent);
        return r < 0 ? r : 1;
}

/* Each entry leaves its place and replaces the other. */
static int judge_exchange(struct fs_mount *mount, const struct name *one, const struct name *other,
                          enum access_verdict *ret)
{
        enum access_verdict verdict = ACCESS_YES, back = ACCESS_YES;
        int r = judge_rename(mount, one, other->parent, other->bytes, other, &verdict);

        if (r == 0 && verdict != ACCESS_NO)
                r = judge_rename(mount, other, one->parent, one->bytes, one, &back);
        *ret = access_worse(verdict, back);
        return r;
}

static void trade(struct fs_mount *mount, struct name *one, struct name *other, bool is_virtual)
{
        struct node *first = one->node, *second = other->node;

        is_virtual |= name_is_in_virtual(one) || name_is_in_virtual(other);
        first->pins++;
        second->pins++;
        tree_take(&mount->tree, one);
        one->removed_virtually |= is_virtual && one->removed == first;
        tree_take(&mount->tree, other);
        other->removed_virtually |= is_virtual && other->removed == second;
        one->made_virtual = other->made_virtual = is_virtual;
        tree_put(&mount->tree, one, second);
        tree_put(&mount->tree, other, first);
        overlay_touch(one->parent, true);
        overlay_touch(other->parent, true);
        first->pins--;
        second->pins--;
        if (first->kind == S_IFDIR || second->kind == S_IFDIR)
                mount->tree.epoch++;
}

static int exchange_names(struct fs_mount *mount, struct node *parent, const char *text, struct node *new_parent,
                          const char *new_text)
{
        struct name *one = NULL, *other = NULL;
        enum access_verdict verdict = ACCESS_NO;
        int r = find(mount, parent, text, &one);

        if (r == 0)
                r = find(mount, new_parent, new_text, &other);
        if (r == 0 && one->node == other->node)
                return 0;
        if (r == 0 && (points_is_on_way(mount, one->node) || points_is_on_way(mount, other->node)))
                r = -EBUSY;
        if (r == 0 && (is_above(one->node, new_parent) || is_above(other->node, parent)))
                r = -EINVAL;
        if (r == 0)
                r = judge_exchange(mount, one, other, &verdict);
        if (r == 0)
                r = prepare_move(mount, parent, new_parent, verdict);
        if (r <= 0)
                return r;
        trade(mount, one, other, verdict == ACCESS_VIRTUAL);
        return 0;
}

static int rename_name(struct fs_mount *mount, struct node *parent, const char *text, struct node *new_parent,
                       const char *new_text, unsigned flags)
{
        struct name *from = NULL, *replaced = NULL;
        enum access_verdict verdict = ACCESS_NO;
        int r = flags & ~(unsigned)RENAME_NOREPLACE ? -EINVAL : strlen(new_text) > NODE_NAME_MAX ? -ENAMETOOLONG : 0;

        if (flags == RENAME_EXCHANGE)
                return exchange_names(mount, parent, text, new_parent, new_text);

        if (r == 0)
                r = find(mount, parent, text, &from);
        if (r == 0 && parent == new_parent && strcmp(text, new_text) == 0)
                return 0;
        if (r == 0 && reserved_is(new_text, strlen(new_text)))
                r = -EACCES;
        if (r == 0)
                r = find(mount, new_parent, new_text, &replaced);
        if (r == -ENOENT && from)
                r = 0;
        if (r == 0 && (points_is_on_way(mount, from->node) || (replaced && points_is_on_way(mount, replaced->node))))
                r = -EBUSY;
        if (r == 0 && is_above(from->node, new_parent))
                r = -EINVAL;
        if (r == 0 && replaced && replaced->node == from->node)
                return 0;
        if (r == 0)
                r = check_replaced(mount, from->node, replaced, flags);
        if (r == 0)
                r = judge_rename(mount, from, new_parent, new_text, replaced, &verdict);
        if (r == 0)
                r = prepare_move(mount, parent, new_parent, verdict);
        return r <= 0 ? r : move(mount, from, new_parent, new_text, verdict == ACCESS_VIRTUAL);
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
               unsigned flags)
{
        fuse_reply_err(req, -rename_name(mount_of(req), node_of(req, parent), name, node_of(req, new_parent), new_name,
                                         flags));
}
