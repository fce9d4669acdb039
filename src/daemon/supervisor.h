/* The process that the daemon's starter sees. It opens the sockets, starts the engine's process, which starts the keeper, and starts both again when either of
 * them crashed or hangs; it passes signals on, tells systemd, and removes the unix socket at the end.
 *
 *   STARTING ── "ready" ──▶ SERVING ── "stopping" ──▶ STOPPING ── exit ──▶ the daemon's exit code
 *       ▲                      │ exit, or silence
 *       └──────── pause ◀──────┘   (sockets stay open: callers wait in the kernel)
 *
 * Without privilege it could not start a keeper, and a filter or a Landlock domain would pass to the keeper with fork and exec (seccomp(2), landlock(7)). So
 * it is kept small instead: it reads nothing but messages of one size from the engine, signals, and whom the kernel says it can reap. */
#ifndef CLOCHE_DAEMON_SUPERVISOR_H
#define CLOCHE_DAEMON_SUPERVISOR_H

#include "options.h"

/* Returns the daemon's exit code. argv: what each engine is started with again. */
int supervisor_run(struct daemon_options *o, char **argv);

#endif
