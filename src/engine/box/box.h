/* One box as the engine holds it: the keeper makes it, its init serves it. On the loop, requests to
 * init go through control (control.h). The calls that wait for an answer are for a thread beside
 * the loop (aside.h), after box_take_control; they turn a loop of that thread. */
#ifndef CLOCHE_ENGINE_BOX_BOX_H
#define CLOCHE_ENGINE_BOX_BOX_H

#include "engine/loop/control.h"
#include "keeper-client.h"

enum box_check { BOX_UNCHECKED, BOX_CLEAN, BOX_CHANGED };

struct box {
        struct keeper *keeper;
        uint32_t id;
        int made, is_killed;
        struct control *control;   /* owned; NULL: the socket was taken, or there is no box */
        int control_fd;            /* the taken socket, or -EBADF */
        struct box_waiter *waiter; /* of box_waiter_new */
        int pidfd;
        int fork_fd;                        /* of a template, until its program has it */
        int is_recorded;                    /* init has recorded its state, with which INIT_CHECK_CLEAN compares */
        enum box_check check;               /* the last clean-check, since which nothing runs in it */
        int files_fd;                       /* a list of its files in that state; -EBADF: there were none */
        struct cgroup_usage_files counters; /* of engine_measure_box */
        /* The program started last; exit is valid if exited is set. */
        int32_t pid;
        int exited;
        struct init_answer exit;
};

#define BOX_NONE ((struct box){.control_fd = -EBADF, .pidfd = -EBADF, .fork_fd = -EBADF, .files_fd = -EBADF})

/* Fill *box from the keeper's reply, whose descriptors are taken. The box is dropped if its control
 * socket cannot be watched. */
CLOCHE_MUST_CHECK int box_adopt(struct box *box, struct keeper *keeper, struct keeper_reply *reply, uv_loop_t *loop,
                                struct cloche_err *e);
/* Move the ownership of the box to the result; from keeps its id and its program's exit. */
struct box box_move(struct box *from);
/* Drop the open requests' callbacks and move the socket to control_fd; -EBADF if init is gone. */
void box_take_control(struct box *box);
/* Undo box_take_control: control exists again, without callbacks. */
CLOCHE_MUST_CHECK int box_return_control(struct box *box, uv_loop_t *loop, struct cloche_err *e);
/* Have init kill everything in a recorded box and compare it with its recorded state. */
CLOCHE_MUST_CHECK int box_check_clean(struct box *box, control_done done, void *data, struct cloche_err *e);
/* Record an INIT_EXITED if it is of the program started last; ignore others. */
void box_keep_exit(struct box *box, const struct init_answer *exit);
/* Kill the box. box_drop must follow, when no thread waits on control_fd any more. */
void box_kill(struct box *box);
/* Kill and remove the box without waiting; callbacks of open requests are dropped. Returns 1 if
 * done, which may be NULL, will be called when the box is gone; 0 if it will not: there was no box,
 * it was killed or dropped before, or its keeper is gone. */
int box_drop(struct box *box, keeper_done done, void *data);

/* Call it in the thread, before the requests below; box_waiter_free after them. */
CLOCHE_MUST_CHECK int box_waiter_new(struct box *box, struct cloche_err *e);
void box_waiter_free(struct box *box);
int box_quiesce(struct box *box, struct init_answer *ret, struct cloche_err *e);
/* *ret_fd holds struct init_entry records; owned by the caller. */
int box_list(struct box *box, const char *path, int *ret_fd, struct cloche_err *e);
int box_get(struct box *box, const char *path, int *ret_fd, struct cloche_err *e);
/* *ret_fd is a memory file with the target. */
int box_read_link(struct box *box, const char *path, int *ret_fd, struct cloche_err *e);

#endif
