/* The daemon's first process. It opens the sockets and starts the engine's process, which starts
 * the keeper. It starts both again when one of them crashes or hangs. It forwards signals, notifies
 * systemd, and removes the unix socket at the end.
 *
 *   STARTING ── "ready" ──▶ SERVING ── "stopping" ──▶ STOPPING ── exit ──▶ the daemon's exit code
 *       ▲                      │ exit, or silence
 *       └──────── pause ◀──────┘   (sockets stay open: callers wait in the kernel)
 *
 * It keeps its privileges, because it starts keepers; it has no filter and no Landlock domain,
 * because a keeper would inherit them through fork and exec (seccomp(2), landlock(7)). So it is
 * kept small: it reads only messages of one size from the engine, signals, and the pids of its
 * children from the kernel. */
#ifndef CLOCHE_DAEMON_START_SUPERVISOR_H
#define CLOCHE_DAEMON_START_SUPERVISOR_H

#include "daemon/core/options.h"

/* Returns the daemon's exit code. argv: the arguments for each engine. */
int supervisor_run(struct daemon_options *o, char **argv);

#endif
