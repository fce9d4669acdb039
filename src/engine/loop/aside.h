/* Blocking work in a thread beside the loop: requests to a box's init, which may be stopped or
 * starved by its neighbours and must delay only its own run; or writes that have to reach the
 * disk. */
#ifndef CLOCHE_ENGINE_LOOP_ASIDE_H
#define CLOCHE_ENGINE_LOOP_ASIDE_H

#include <cloche/error.h>
#include <uv.h>

struct aside; /* opaque */

/* work runs in the thread and may use only data that no other thread uses. control_fd: the socket
 * that work waits on, borrowed, or -EBADF. after runs on the loop, once, when work is done; *ret is
 * freed by then. */
CLOCHE_MUST_CHECK int aside_start(uv_loop_t *loop, int control_fd, void (*work)(void *data), void (*after)(void *data),
                                  void *data, struct aside **ret, struct cloche_err *e);
/* Shut down control_fd, so that work fails and ends. */
void aside_cut_short(struct aside *aside);

#endif
