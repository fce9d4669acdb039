/* Files of one box for another, or kept: packed by the file program in the one into a memory file, unpacked by it in the other. The memory is on the account of
 * the box that packs, and is bounded by its limits. */
#ifndef CLOCHE_SANDBOX_COPY_H
#define CLOCHE_SANDBOX_COPY_H

#include "internal.h"

struct copy;

/* done is told once, never from within. fd: what was packed, sealed, owned by the hearer; -EBADF of one that unpacks, or with e. */
typedef void (*copy_done)(void *data, int fd, const struct cloche_err *e);

/* What is in WORKSPACE of the box whose PID 1 that is. */
int copy_out(struct sandbox *s, struct control *control, copy_done done, void *data, struct copy **ret, struct cloche_err *e);
/* fd: of copy_out, borrowed for the call; several may read it. empties: what is in WORKSPACE goes before. */
int copy_in(struct sandbox *s, struct control *control, int fd, int empties, copy_done done, void *data, struct copy **ret, struct cloche_err *e);
/* Nobody is told. Accepts NULL. */
void copy_cancel(struct copy *copy);
/* A program of that PID 1 ended. */
void copies_exited(struct sandbox *s, const struct control *control, const struct init_answer *exit);

#endif
