/* Seeds: entries that the caller places over a mount before the guest runs. The guest may change
 * them freely; they are never synced. */
#ifndef CLOCHE_HELPERS_FS_SEED_H
#define CLOCHE_HELPERS_FS_SEED_H

#include "mount.h"

/* {path, kind: "file"|"directory"|"symlink", mode, target}; fd: contents of a file, borrowed.
 * Missing parent directories are created; existing ones stay. -CLOCHE_E_INVALID_ARGUMENT names the
 * fault; only directories may have been created by then. */
int seed_entry(struct fs_mount *mount, const json_t *params, int fd, struct cloche_err *e);

/* The points of the settings (points.h), {path, kind: "file"|"directory"} each. */
int points_make(struct fs_mount *mount, struct cloche_err *e);

#endif
