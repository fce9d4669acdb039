/* The control socket: the engine's requests, served between the guest's, and notifications to the
 * engine. README.md lists them. Frames of JSON-RPC over a stream socket; a descriptor travels with
 * the bytes of its request or answer. */
#ifndef CLOCHE_HELPERS_FS_CONTROL_H
#define CLOCHE_HELPERS_FS_CONTROL_H

#include "helpers/fs/tree/change.h"
#include "mount.h"
#include "wire/server.h"

struct fs_control {
        struct server server;
        struct fs_mount *mount;
        struct changes list; /* the list that is being paged */
        bool listed;         /* more pages remain */
        int (*configure)(struct fs_control *control, const json_t *params, json_t **ret, struct cloche_err *e);
};

/* fd is borrowed. Set configure before the first turn of the server. */
void fs_control_init(struct fs_control *control, int fd, struct fs_mount *mount);

#endif
