/* Places in this mount to which other mounts are attached, once this one is served: directories and files of ours, empty, which hide what the host has there.
 * Neither the host nor the guest can move them, replace them or take them away, nor a directory that leads to one: what is beneath
 * such a place would come in sight, or the other mount would move to where other rules hold. */
#ifndef CLOCHE_FS_POINTS_H
#define CLOCHE_FS_POINTS_H

#include "mount.h"

/* Is it one of them, or does it lead to one? Then it is busy (EBUSY). */
bool points_hold(const struct mount *mount, const struct node *node);
/* Is path, below the mount, one of them? What the host has beneath is not loaded. */
bool points_have(struct mount *mount, const char *path);

#endif
