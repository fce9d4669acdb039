/* A user namespace with a range of ids that no other process of the host has, and a directory that
 * belongs to its root. */
#ifndef CLOCHE_CLI_RUN_OWN_IDS_H
#define CLOCHE_CLI_RUN_OWN_IDS_H

#include "jail/ids.h"

#include <cloche/error.h>
#include <limits.h>
#include <sys/types.h>

struct own_ids {
        struct ids_lease lease;
        char directory[PATH_MAX]; /* "": none */
};

/* Lease the ids and make the directory in parent. Needs root. */
CLOCHE_MUST_CHECK int own_ids_open(const char *parent, struct own_ids *ret, struct cloche_err *e);
/* For a child after fork(2): the program that it becomes, and those that this starts, keep the
 * ids from others until they end. */
void own_ids_keep(const struct own_ids *ids);
/* For a child after fork(2): become root of the namespace, which its parent maps by own_ids_map
 * with the other end of a socket pair. 0, or an error number. */
int own_ids_enter(int socket_fd);
CLOCHE_MUST_CHECK int own_ids_map(const struct own_ids *ids, pid_t child, int socket_fd, struct cloche_err *e);
/* The directory must be empty, or gone. */
void own_ids_close(struct own_ids *ids);

#endif
