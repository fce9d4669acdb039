/* What the kernel asks of a mount (fuse_lowlevel.h says which replies each operation has). */
#ifndef CLOCHE_FS_OPERATIONS_H
#define CLOCHE_FS_OPERATIONS_H

#include "mount.h"

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

extern const struct fuse_lowlevel_ops operations; /* userdata is the struct mount */

/* May this opcode change what a sync reads? Then it waits while the mount is frozen. */
bool operations_change(const void *request, size_t size);

#endif
