/* Serving: one loop over the kernel's requests and the engine's. */
#ifndef CLOCHE_FS_SESSION_H
#define CLOCHE_FS_SESSION_H

#include "control.h"
#include "mount.h"

/* Until the control socket or the connection ends. 0, or -1 when it could not be begun. fuse_fd is taken. */
int session_serve(struct mount *mount, struct control *control, int fuse_fd);

#endif
