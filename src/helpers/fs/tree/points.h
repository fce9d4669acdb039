/* Points: places in this mount to which other mounts are attached once this one is
 * served. They are empty directories and files of ours, which hide the host's entry of
 * that name. Neither the host nor the guest can move, replace or remove a point or a
 * directory that leads to it: otherwise the hidden entry would show, or the other mount
 * would move to a place with other rules. */
#ifndef CLOCHE_HELPERS_FS_TREE_POINTS_H
#define CLOCHE_HELPERS_FS_TREE_POINTS_H

#include "helpers/fs/mount.h"

/* True if the node is a point or leads to one: then it is busy (EBUSY). */
bool points_is_on_way(const struct fs_mount *mount, const struct node *node);
/* True if path, relative to the mount, is a point: the host's content below it is not loaded. */
bool points_has_path(struct fs_mount *mount, const char *path);

#endif
