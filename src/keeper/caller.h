/* Users whose rights decide which directories of the host are mounted, and as whom mounts are served. Runs in: the keeper of root. */
#ifndef CLOCHE_KEEPER_CALLER_H
#define CLOCHE_KEEPER_CALLER_H

#include <cloche/cloche.h>
#include <stdint.h>
#include <sys/types.h>

#define CALLER_GROUPS_MAX 1024

struct caller {
        uid_t uid;
        gid_t gid;
        gid_t groups[CALLER_GROUPS_MAX];
        size_t group_count;
};

/* A directory named when the keeper started. */
struct keeper_root {
        int fd;
        int is_slash;
        int *above_fds; /* the directories on the way to it, as they were then */
        size_t above_count;
        struct caller *named; /* whose rights count for callers that come without a socket; NULL: the owner's of what is mounted */
};

/* argument: "/DIRECTORY", or "UID,GID[,GID…]:/DIRECTORY". */
int caller_open_root(const char *argument, struct keeper_root *ret, struct cloche_err *e);
/* The process that connected a unix socket, with its groups of that time: SO_PEERCRED, SO_PEERGROUPS. 0: root, who needs no leave; 1: *ret. */
int caller_of_socket(int socket_fd, struct caller *ret, struct cloche_err *e);
/* The directory path beneath root, opened with nothing but the rights of this user: what he may not search, read, or with write may not write
 * is -CLOCHE_E_FORBIDDEN. Its own file system only: another may be a program of his that never answers. The descriptor (O_PATH). */
int caller_open(const struct caller *caller, const struct keeper_root *root, const char *path, int write, struct cloche_err *e);

#endif
