/* The kernel's operations on a mount (fuse_lowlevel.h lists the valid replies of each). */
#ifndef CLOCHE_HELPERS_FS_OPERATIONS_H
#define CLOCHE_HELPERS_FS_OPERATIONS_H

#include "mount.h"

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

extern const struct fuse_lowlevel_ops operations; /* userdata is the struct fs_mount */

#endif
