/* Users whose rights decide which directories of the host are mounted, and who own the servers of
 * mounts. Runs in: the keeper of root. */
#ifndef CLOCHE_KEEPER_CALLER_H
#define CLOCHE_KEEPER_CALLER_H

#include "proto/keeper.h"

#include <cloche/error.h>
#include <stdint.h>
#include <sys/types.h>

struct keeper_caller {
        uid_t uid;
        gid_t gid;
        gid_t groups[KEEPER_CALLER_GROUPS_MAX];
        size_t group_count;
};

/* A directory named on the keeper's command line. */
struct keeper_root {
        int fd;
        int is_slash;
        int *above_fds; /* the directories on the way to it, opened at that time */
        size_t above_count;
        struct keeper_caller *named; /* the user whose rights count for callers without a socket; NULL: the owner of the
                                 mounted directory */
};

/* argument: "/DIRECTORY", or "UID,GID[,GID…]:/DIRECTORY". */
int caller_open_root(const char *argument, struct keeper_root *ret, struct cloche_err *e);
/* Get the user who connected a unix socket, with the groups of that time: SO_PEERCRED,
 * SO_PEERGROUPS. Returns 0 for root, which needs no check; 1: *ret. */
int keeper_caller_of_socket(int socket_fd, struct keeper_caller *ret, struct cloche_err *e);
/* Open the directory path beneath root with only this user's rights. -CLOCHE_E_FORBIDDEN if the
 * user may not search or read it, or with write not write it. Other file systems are not entered:
 * one may be a program of the user's that never replies. Returns the descriptor (O_PATH). */
int caller_open(const struct keeper_caller *caller, const struct keeper_root *root, const char *path, int write,
                struct cloche_err *e);

#endif
