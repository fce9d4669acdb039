/* One box as the engine holds it: made by the keeper, served by its init. On the loop its init is asked through control (control.h). The calls that wait for
 * an answer are for a thread beside the loop (aside.h), once the socket was taken. */
#ifndef CLOCHE_ENGINE_BOX_H
#define CLOCHE_ENGINE_BOX_H

#include "control.h"
#include "keeper/client.h"

struct box {
        struct keeper *keeper;
        uint32_t id;
        int made, is_killed;
        struct control *control; /* owned; NULL: its socket was taken, or there is no box */
        int control_fd;          /* then; or -EBADF */
        int pidfd;
        int fork_fd; /* a template's, until its program has it */
        /* The program started last: how it ended, once it has. */
        int32_t pid;
        int exited;
        struct init_answer exit;
};

#define BOX_NONE ((struct box){.control_fd = -EBADF, .pidfd = -EBADF, .fork_fd = -EBADF})

/* From what the keeper answered, whose descriptors are taken. When its init cannot be watched it is dropped. */
CLOCHE_MUST_CHECK int box_adopt(struct box *box, struct keeper *keeper, struct keeper_reply *reply, uv_loop_t *loop, struct cloche_err *e);
/* Another object owns the box from now on; from keeps its id and how its program ended. */
struct box box_move(struct box *from);
/* Questions that are open are forgotten. control_fd is the socket afterwards, blocking with a timeout, or -EBADF when its init is gone. */
void box_take_control(struct box *box);
/* The contrary: control is there, without callbacks. */
CLOCHE_MUST_CHECK int box_return_control(struct box *box, uv_loop_t *loop, struct cloche_err *e);
/* INIT_EXITED: of the program started last, or of another. */
void box_keep_exit(struct box *box, const struct init_answer *exit);
/* Kill it. box_drop has to follow, when nobody waits at control_fd any more. */
void box_kill(struct box *box);
/* Kill and remove it, without waiting; once. Open questions are forgotten. 1: done, which may be NULL, is called when the box is gone. 0: it is not called, for there was no
 * box, or it was dropped before, or went with its keeper. */
int box_drop(struct box *box, keeper_done done, void *data);

int box_quiesce(struct box *box, struct init_answer *ret, struct cloche_err *e);
/* *ret_fd: struct init_entry records; owned by the caller. */
int box_list(struct box *box, const char *path, int *ret_fd, struct cloche_err *e);
int box_get(struct box *box, const char *path, int *ret_fd, struct cloche_err *e);
/* *ret_fd: a memory file with the target. */
int box_read_link(struct box *box, const char *path, int *ret_fd, struct cloche_err *e);

#endif
