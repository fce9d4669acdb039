/* Host's tree and guest's changes seen as one. All calls return 0 or -errno; none asks for rights. */
#ifndef CLOCHE_FS_OVERLAY_H
#define CLOCHE_FS_OVERLAY_H

#include "mount.h"

/* What is called so in parent; the kernel's reference is not counted. known: what lstat said of the host's entry just now, or NULL.
 * -ENOENT also for what the guest removed and what is left out. */
int overlay_lookup(struct mount *mount, struct node *parent, const char *name, const struct stat *known, struct node **ret);
/* Has the host something there that is left out? */
bool overlay_hides(struct mount *mount, const struct node *parent, const char *name);
/* The guest puts something in the place of what is left out there: what that is now is remembered. */
void overlay_cover(struct mount *mount, struct name *name);
/* Look again at what the host may have changed; -ESTALE when it is something else now. */
int overlay_refresh(struct mount *mount, struct node *node);
/* As stat(2) shows it to the guest. */
void overlay_stat(struct mount *mount, struct node *node, struct stat *ret);

/* The part of a path up to a slash: its size, or -errno. */
int overlay_first_part(const char *path, char ret[NODE_NAME_MAX + 1]);
/* Walk from the root. The caller lets go of the node with overlay_settle(). */
int overlay_walk(struct mount *mount, const char *path, struct node **ret);

/* The attributes become the guest's. -ENOSPC over the bound of changes. */
int overlay_own(struct mount *mount, struct node *node);
/* The contents become the guest's: the first keep bytes of the host's are copied. */
int overlay_copy_up(struct mount *mount, struct node *node, uint64_t keep);
void overlay_touch(struct node *node, bool contents);
/* Room for one more change. */
int overlay_has_room(const struct mount *mount);

/* A descriptor of a regular file's contents as they are now. */
int overlay_open_contents(struct mount *mount, struct node *node, int flags);
int overlay_truncate(struct mount *mount, struct node *node, uint64_t size);
int overlay_read_link(struct mount *mount, struct node *node, char *ret, size_t size);

/* Contents of what has no name and is not open are given back, and the node freed if nothing else holds it. */
void overlay_settle(struct mount *mount, struct node *node);

/* Leave out what is over maxTotalSize, in order of the walk; for eager loading. */
int overlay_load_eagerly(struct mount *mount);

#endif
