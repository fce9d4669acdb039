/* A conversation with a box's init that waits for its answers, in a thread beside the loop, for work that would hold up the loop by itself: an init that is
 * stopped, or starved by what runs beside it, then holds up its own run only. */
#ifndef CLOCHE_ENGINE_ASIDE_H
#define CLOCHE_ENGINE_ASIDE_H

#include <cloche/cloche.h>
#include <uv.h>

struct aside; /* opaque */

/* work: in the thread; of what data leads to it touches only what nobody else does meanwhile. control_fd: the socket it waits at, borrowed.
 * after: on the loop, once, when work is done; *ret is gone by then. */
CLOCHE_MUST_CHECK int aside_start(uv_loop_t *loop, int control_fd, void (*work)(void *data), void (*after)(void *data), void *data, struct aside **ret,
                                  struct cloche_err *e);
/* Nothing more can be said on that socket: work comes to its end. */
void aside_cut_short(struct aside *aside);

#endif
