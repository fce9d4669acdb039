/* The directory of saved sandboxes: the daemon's user owns it, and one daemon uses it at a time. */
#ifndef CLOCHE_DAEMON_CORE_STATE_H
#define CLOCHE_DAEMON_CORE_STATE_H

#include "daemon.h"

/* Find or make the directory, and take it. Call it before privileges are dropped. If another daemon
 * has the default directory, this one saves no sandboxes, which is logged. */
int state_open(struct daemon *d, struct cloche_err *e);
/* Check that the directory is accessible, after privileges are dropped. */
int state_check(struct daemon *d, struct cloche_err *e);
void state_close(struct daemon *d);

#endif
