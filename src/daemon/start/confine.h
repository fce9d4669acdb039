/* Drop the engine's rights before it reads untrusted input. Runs in: cloched-engine. */
#ifndef CLOCHE_DAEMON_START_CONFINE_H
#define CLOCHE_DAEMON_START_CONFINE_H

#include "daemon/core/daemon.h"

/* Call it first: libuv loops that are made later use no io_uring, which would bypass the filter. */
void confine_refuse_rings(void);
/* Confine the process for good, after the change of users. It cannot be traced or dumped
 * (PR_SET_DUMPABLE). Landlock leaves it its state, its builds and the files it reads again; the
 * filter leaves the calls of filter-calls.def. A kernel without Landlock is logged; one without
 * filters is an error unless the guard seccomp is optional. d->confinement records which of them
 * are in force. */
CLOCHE_MUST_CHECK int confine(struct daemon *d, struct cloche_err *e);

#endif
