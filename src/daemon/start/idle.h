/* Exit of an idle daemon that was started with --exit-when-idle. Runs in: cloched. */
#ifndef CLOCHE_DAEMON_START_IDLE_H
#define CLOCHE_DAEMON_START_IDLE_H

#include "daemon/core/daemon.h"

/* Call it once a second. */
void idle_sweep(struct daemon *d, uint64_t now_ns);

#endif
