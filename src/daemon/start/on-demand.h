/* cloched --on-demand: the user's own daemon, in the background, at a place where all programs of
 * the user find it. The first program that needs it starts it; it ends when it is idle. Runs in:
 * cloched, before and after it forks, with the rights of its starter. */
#ifndef CLOCHE_DAEMON_START_ON_DEMAND_H
#define CLOCHE_DAEMON_START_ON_DEMAND_H

#include "daemon/core/daemon.h"

/* Print the socket of a running daemon. 1: this process is done, *ret_code is its exit code. 0:
 * this is the new daemon, and its starter waits for on_demand_ready() or on_demand_fail(). */
CLOCHE_MUST_CHECK int on_demand_enter(struct daemon_options *o, int *ret_code);
void on_demand_ready(struct daemon_options *o);
void on_demand_fail(const struct daemon_options *o, const struct cloche_err *e);
/* Take the start lock without waiting. 1: taken; other starters wait until this daemon ends. */
CLOCHE_MUST_CHECK int on_demand_lock(const struct daemon_options *o);
/* Empty the log when it exceeds 1 MiB. */
void on_demand_tidy_log(const struct daemon_options *o);

#endif
