/* One box as the engine holds it: made by the keeper, served by its init. Blocking calls, each bounded by
 * BOX_PATIENCE_S: an init that does not answer (its box out of memory, say) is given up. */
#ifndef CLOCHE_ENGINE_BOX_H
#define CLOCHE_ENGINE_BOX_H

#include "keeper/client.h"
#include "keeper/init-protocol.h"

#define BOX_PATIENCE_S 20
#define BOX_QUIESCE_PATIENCE_S 10 /* killing takes a second at most, unless a mount's server does not answer */

struct box {
        struct keeper *keeper;
        uint32_t id;
        int made;
        int control_fd, pidfd;
        int fork_fd; /* a template's, until its program has it */
        /* The program started last: how it ended, once it has. */
        int32_t pid;
        int exited;
        struct init_answer exit;
};

int box_make(struct box *box, struct keeper *keeper, const struct keeper_box_spec *spec, struct cloche_err *e);
/* The same from what the keeper answered. */
void box_adopt(struct box *box, struct keeper *keeper, const struct keeper_box *made);
/* mode: as st_mode, with its type. fd is borrowed. */
int box_put(struct box *box, const char *path, int fd, uint32_t mode, struct cloche_err *e);
/* strings: cwd, argc arguments, envc environment entries, each terminated. fds: 3 to 5, borrowed. */
int box_spawn(struct box *box, const char *strings, size_t size, uint32_t argc, uint32_t envc, const int *fds,
              size_t fd_count, struct cloche_err *e);
int box_quiesce(struct box *box, struct init_answer *ret, struct cloche_err *e);
/* Ask without waiting: INIT_MARK or INIT_RENEW; then box_hear_answer when the control socket is readable: 1 with *ret_clean
 * (may be NULL, for INIT_RENEW), 0 when what came was something else, or an error. */
int box_tell(struct box *box, enum init_op op, struct cloche_err *e);
int box_hear_answer(struct box *box, enum init_op op, int *ret_clean, struct cloche_err *e);
/* *ret_fd: struct init_entry records; owned by the caller. */
int box_list(struct box *box, const char *path, int *ret_fd, struct cloche_err *e);
int box_get(struct box *box, const char *path, int *ret_fd, struct cloche_err *e);
/* *ret_fd: a memory file with the target. */
int box_read_link(struct box *box, const char *path, int *ret_fd, struct cloche_err *e);
/* The control socket is readable: 0 (box->exited may be set now), or an error: the box's init is gone. */
int box_hear(struct box *box, struct cloche_err *e);
/* The same without waiting for it. */
void box_drop_later(struct box *box);
/* Kill and remove; once. ret may be NULL. */
int box_drop(struct box *box, struct keeper_usage *ret, struct cloche_err *e);

#endif
