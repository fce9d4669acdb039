/* What the caller puts over a mount before the guest runs: the guest's to do with as it likes, and never synced. */
#ifndef CLOCHE_FS_PLACE_H
#define CLOCHE_FS_PLACE_H

#include "mount.h"

/* {path, kind: "file"|"directory"|"symlink", mode, target}; fd: what is in a file, borrowed. Directories above it are made when they are
 * missing; one that is there stays what it is. -CLOCHE_E_INVALID_ARGUMENT names what is wrong; nothing is placed then but
 * directories. */
int place(struct mount *mount, const json_t *params, int fd, struct cloche_err *e);

/* The points of the settings (points.h), {path, kind: "file"|"directory"} each. */
int points_make(struct mount *mount, struct cloche_err *e);

#endif
