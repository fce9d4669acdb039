/* Copy files out of one box, to keep them or to put them into another. The file program in the
 * first box packs them into a memory file, and that in the second unpacks it. The box that packs is
 * charged for the memory, so its limits bound the size. */
#ifndef CLOCHE_SANDBOX_CORE_COPY_H
#define CLOCHE_SANDBOX_CORE_COPY_H

#include "sandboxes.h"

struct copy;

/* Called once, never from within a function of this header. fd: the packed files, sealed, owned by
 * the callee; -EBADF after sandbox_copy_in, and with e. */
typedef void (*copy_done)(void *data, int fd, const struct cloche_err *e);

/* Pack the content of path, which is WORKSPACE or, for all that a save has, "/", in the box of
 * that PID 1. */
int sandbox_copy_out(struct sandbox *s, struct control *control, const char *path, copy_done done, void *data,
                     struct copy **ret, struct cloche_err *e);
/* Pack the changes of the system's directories instead: for an image (box/files/archive/pack.h). */
int sandbox_copy_system(struct sandbox *s, copy_done done, void *data, struct copy **ret, struct cloche_err *e);
/* fd: from sandbox_copy_out, borrowed for the call; several copies may read it. empties: remove
 * the old content of WORKSPACE first. */
int sandbox_copy_in(struct sandbox *s, struct control *control, int fd, int empties, copy_done done, void *data,
                    struct copy **ret, struct cloche_err *e);
/* Open packed files again, for reading and with an offset of their own; -errno. */
int sandbox_copy_reopen(int fd);
/* Stop without a callback. Accepts NULL. */
void sandbox_copy_cancel(struct copy *copy);
/* Called every second: end those whose program does not go on. */
void sandbox_copies_tidy(struct sandbox *s);
/* Handle the exit of a program of that PID 1. */
void sandbox_copies_exited(struct sandbox *s, const struct control *control, const struct init_answer *exit);

#endif
