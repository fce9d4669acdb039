/* What the engine's process takes from itself before it reads a byte that somebody else wrote. Runs in: cloched-engine. */
#ifndef CLOCHE_DAEMON_CONFINE_H
#define CLOCHE_DAEMON_CONFINE_H

#include "daemon.h"

/* First, before any loop is made: loops get no io_uring, which works around filters. */
void confine_refuse_rings(void);
/* After the change of users; for good. Nobody traces it or reads its memory (PR_SET_DUMPABLE); Landlock leaves its state, its builds and what it reads
 * again; the filter leaves the calls of filter-calls.def. A kernel without Landlock is said in the log; one without filters is an error unless the guard
 * seccomp was named optional. d->confinement says what is in force. */
CLOCHE_MUST_CHECK int confine(struct daemon *d, struct cloche_err *e);

#endif
