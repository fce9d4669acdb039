/* Merge the host's tree and the guest's changes. All calls return 0 or -errno; none checks
 * rights. */
#ifndef CLOCHE_HELPERS_FS_TREE_OVERLAY_H
#define CLOCHE_HELPERS_FS_TREE_OVERLAY_H

#include "helpers/fs/mount.h"

/* Look up a name in parent without counting the kernel's reference. known: a fresh lstat of the
 * host's entry, or NULL. -ENOENT also for entries that the guest removed or that are left out. */
int overlay_lookup(struct fs_mount *mount, struct node *parent, const char *name, const struct stat *known,
                   struct node **ret);
/* True if the host has an entry there that is left out. */
bool overlay_hides(struct fs_mount *mount, const struct node *parent, const char *name);
/* Record the identity of a left-out host entry before the guest covers it. */
void overlay_cover(struct fs_mount *mount, struct name *name);
/* Read the host's attributes again; -ESTALE if its entry is another one now. */
int overlay_refresh(struct fs_mount *mount, struct node *node);
/* Fill stat(2) as shown to the guest. */
void overlay_stat(struct fs_mount *mount, struct node *node, struct stat *ret);

/* Copy the path's part up to a slash; returns its size, or -errno. */
int overlay_first_part(const char *path, char ret[NODE_NAME_MAX + 1]);
/* Walk from the root. The caller releases the node with overlay_settle(). */
int overlay_walk(struct fs_mount *mount, const char *path, struct node **ret);

/* Switch the node to the guest's attributes. -ENOSPC over the limit of changes. */
int overlay_own(struct fs_mount *mount, struct node *node);
/* Make the contents the guest's: the first keep bytes of the host's are copied. */
int overlay_copy_up(struct fs_mount *mount, struct node *node, uint64_t keep);
void overlay_touch(struct node *node, bool contents);
/* 0 if one more change fits, or -ENOSPC. */
int overlay_has_room(const struct fs_mount *mount);

/* A descriptor of a regular file's present contents. */
int overlay_open_contents(struct fs_mount *mount, struct node *node, int flags);
int overlay_truncate(struct fs_mount *mount, struct node *node, uint64_t size);
int overlay_read_link(struct fs_mount *mount, struct node *node, char *ret, size_t size);

/* Free the contents of a nameless file that is not open, and the node if nothing else holds it. */
void overlay_settle(struct fs_mount *mount, struct node *node);

/* For eager loading: leave out files over maxTotalSize, in the order of the walk. */
int overlay_load_eagerly(struct fs_mount *mount);

#endif
