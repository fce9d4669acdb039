/* Work that waits, in a thread beside the loop: a conversation with a box's init, which may be stopped, or starved by what runs beside it, and then holds up its own
 * run only; or what has to reach the disk. */
#ifndef CLOCHE_ENGINE_ASIDE_H
#define CLOCHE_ENGINE_ASIDE_H

#include <cloche/cloche.h>
#include <uv.h>

struct aside; /* opaque */

/* work: in the thread; it may use only data that no other thread uses. control_fd: the socket it waits at, borrowed, or -EBADF.
 * after: on the loop, once, when work is done; *ret is gone by then. */
CLOCHE_MUST_CHECK int aside_start(uv_loop_t *loop, int control_fd, void (*work)(void *data), void (*after)(void *data), void *data, struct aside **ret,
                                  struct cloche_err *e);
/* Nothing more can be said on that socket: work comes to its end. */
void aside_cut_short(struct aside *aside);

#endif
