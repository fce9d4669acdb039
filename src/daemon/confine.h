/* Drop the engine's rights before it reads untrusted input. Runs in: cloched-engine. */
#ifndef CLOCHE_DAEMON_CONFINE_H
#define CLOCHE_DAEMON_CONFINE_H

#include "daemon.h"

/* First of all: a loop that is made from now on gets no io_uring, which would work around the filter. */
void confine_refuse_rings(void);
/* After the change of users; for good. The process cannot be traced or dumped (PR_SET_DUMPABLE); Landlock leaves its state, its builds and the files it
 * reads again; the filter leaves the calls of filter-calls.def. A kernel without Landlock is logged; one without filters is an error unless the guard
 * seccomp was named optional. d->confinement says which of them is in force. */
CLOCHE_MUST_CHECK int confine(struct daemon *d, struct cloche_err *e);

#endif
