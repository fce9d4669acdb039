/* The engine's side of the keeper: start it, ask it. Blocking, one request at a time, one thread. */
#ifndef CLOCHE_KEEPER_CLIENT_H
#define CLOCHE_KEEPER_CLIENT_H

#include "protocol.h"

struct keeper; /* opaque */

/* Start libexec_dir/cloche-keeper with libexec_dir/cloche-box-init and say hello.
 * The keeper ends, and kills every box, when this process ends for whatever reason. */
CLOCHE_MUST_CHECK int keeper_start(const char *libexec_dir, struct keeper **ret, struct cloche_err *e);
void keeper_stop(struct keeper *k); /* waits until all boxes are gone; accepts NULL */

const struct keeper_guard *keeper_guard(const struct keeper *k, enum cloche_guard guard);

/* ret_control_fd: seqpacket to the box's PID 1, see init-protocol.h. ret_init_pidfd: readable when the box is dead.
 * Both owned by the caller. */
CLOCHE_MUST_CHECK int keeper_box_make(struct keeper *k, const struct keeper_box_spec *spec, uint32_t *ret_box,
                                      int *ret_control_fd, int *ret_init_pidfd, struct cloche_err *e);
CLOCHE_MUST_CHECK int keeper_box_usage(struct keeper *k, uint32_t box, struct keeper_usage *ret, struct cloche_err *e);
CLOCHE_MUST_CHECK int keeper_box_freeze(struct keeper *k, uint32_t box, struct cloche_err *e);
CLOCHE_MUST_CHECK int keeper_box_thaw(struct keeper *k, uint32_t box, struct cloche_err *e);
/* Kill everything in the box, remove it, free its id. ret may be NULL. */
CLOCHE_MUST_CHECK int keeper_box_drop(struct keeper *k, uint32_t box, struct keeper_usage *ret, struct cloche_err *e);

#endif
