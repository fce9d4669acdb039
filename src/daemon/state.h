/* Where sandboxes are saved: a directory of the daemon's user, and of one daemon at a time. */
#ifndef CLOCHE_DAEMON_STATE_H
#define CLOCHE_DAEMON_STATE_H

#include "daemon.h"

/* Find or make it, and take it; before privilege goes. A directory nobody named that another daemon has leaves this one without, which is logged. */
int state_open(struct daemon *d, struct cloche_err *e);
/* After that: whether it is to be had as whom we are now. */
int state_check(struct daemon *d, struct cloche_err *e);
void state_close(struct daemon *d);

#endif
