/* Serve one loop over the kernel's requests and the engine's. */
#ifndef CLOCHE_HELPERS_FS_SESSION_H
#define CLOCHE_HELPERS_FS_SESSION_H

#include "control.h"
#include "mount.h"

/* Serve until the control socket or the connection closes. 0, or -1 if it could not start. Takes
 * fuse_fd. */
int session_serve(struct fs_mount *mount, struct fs_control *control, int fuse_fd);

#endif
