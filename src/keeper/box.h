/* The keeper's boxes: made, measured, frozen, dropped. */
#ifndef CLOCHE_KEEPER_BOX_H
#define CLOCHE_KEEPER_BOX_H

#include "jail/cgroup.h"
#include "protocol.h"

#include <sys/types.h>

struct box {
        pid_t init_pid; /* 0: the row is free */
        int init_pidfd;
};

struct keeper_state {
        struct cgroup_host cgroups;
        int init_program_fd;
        int is_root; /* may give each box a host user of its own */
        struct keeper_guard guards[CLOCHE_GUARD_COUNT];
        struct box boxes[KEEPER_BOXES_MAX];
};

/* *ret_control_fd is owned by the caller. */
int box_make(struct keeper_state *keeper, const struct keeper_box_spec *spec, uint32_t *ret_box, int *ret_control_fd,
             struct cloche_err *e);
struct box *box_find(struct keeper_state *keeper, uint32_t box, struct cloche_err *e);
void box_usage(struct keeper_state *keeper, uint32_t box, struct keeper_usage *ret);
/* Kills, waits, removes; the row is free afterwards even when a group could not be removed. */
int box_drop(struct keeper_state *keeper, uint32_t box, struct keeper_usage *ret, struct cloche_err *e);

#endif
