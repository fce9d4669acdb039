/* Volumes: directories that are kept, each an ext4 in an image of fixed size in a directory of the
 * keeper's own. Its size and its number of inodes are the quota. */
#ifndef CLOCHE_KEEPER_VOLUME_H
#define CLOCHE_KEEPER_VOLUME_H

#include "proto/keeper.h"

#include <sys/types.h>

struct keeper_state;

/* A child that makes, mounts or removes a volume. One that has mounted it stays for as long as the
 * volume is open, because its end is the unmount, which may write for long. Free: no id, no pid. */
struct volume {
        char id[KEEPER_VOLUME_ID_SIZE];
        pid_t pid;     /* 0: none, or reaped */
        int socket_fd; /* the child ends when it is closed; -EBADF: not open */
        int tree_fd;   /* its files, mounted in the namespace of ns_fd */
        int ns_fd;
        int is_unwanted;          /* to be closed as soon as it is open */
        int is_scratch, is_taken; /* for one box; that box has it */
};

/* Fail if this keeper has no volumes: it is not root's, or its command line names no directory. */
int volume_check(const struct keeper_state *keeper, struct cloche_err *e);

/* Handle the request. 0: *ret_usage has the answer; 1: it comes later. */
int volume_handle(struct keeper_state *keeper, const struct keeper_volume_spec *spec, uint32_t serial,
                  struct keeper_volume_usage *ret_usage, struct cloche_err *e);

/* Copies of the mounts of open volumes for a box; ret_fds: a row for each of its mounts, those that
 * are volumes are set, and owned by the caller. */
int volumes_take(const struct keeper_state *keeper, const struct keeper_box_spec *spec, int ret_fds[KEEPER_MOUNTS_MAX],
                 struct cloche_err *e);

/* The mount of an open scratch volume, for the only box that ever has it; owned by the caller. */
int volume_take_scratch(struct keeper_state *keeper, const char *id, int *ret_fd, struct cloche_err *e);

/* Show the files of these copies, which nothing uses yet, to this box as its user's. */
struct box;
int volumes_map(const struct keeper_state *keeper, const struct box *row, const int *mount_fds, uint32_t volumes,
                struct cloche_err *e);
/* The same for the files of a scratch volume, to the only box that has it. */
int volume_map_scratch(const struct keeper_state *keeper, const struct box *row, int files_fd, struct cloche_err *e);

/* Reap children that have ended. */
void volumes_reap(struct keeper_state *keeper);
/* Close all; the children end when the boxes have ended. */
void volumes_close(struct keeper_state *keeper);

#endif
