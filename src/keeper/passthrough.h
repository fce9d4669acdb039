/* FUSE passthrough (Linux 6.9) needs CAP_SYS_ADMIN of the initial user namespace for
 * one call: the keeper makes it for the servers of mounts, which have no capabilities.
 * Runs in: the keeper, root. */
#ifndef CLOCHE_KEEPER_PASSTHROUGH_H
#define CLOCHE_KEEPER_PASSTHROUGH_H

#include "proto/passthrough.h"

#include <cloche/error.h>

/* The passthrough of one mount. */
struct passthrough {
        int fd;         /* -EBADF: none, and the server reads the files itself */
        uint32_t alive; /* number of ids */
};

/* *ret_their_fd: the server's end, owned by the caller. */
int passthrough_new(struct passthrough *ret, int *ret_their_fd, struct cloche_err *e);
/* Serve one packet. Returns 0, or -errno: the other end is gone or sent an invalid packet, so close
 * it. Never waits. */
int passthrough_serve(struct passthrough *passthrough);

#endif
