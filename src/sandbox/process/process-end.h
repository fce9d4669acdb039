/* The end of processes: functions of process.c for the other files of this folder. */
#ifndef CLOCHE_SANDBOX_PROCESS_PROCESS_END_H
#define CLOCHE_SANDBOX_PROCESS_PROCESS_END_H

#include "process.h"

/* The transition must be legal. */
void process_set_state(struct process *p, enum process_state state);
void process_ended(struct process *p, int exit_code, int signal);
void process_ended_as(struct process *p, int wait_status);
/* Send SIGKILL to all of the process; at once, or as soon as it has a pid. */
void process_kill_hard(struct process *p);
void process_arm_timeout(struct process *p);
void process_stop_timers(struct process *p);
/* Drop the oldest outputs of exec if there are too many. */
void process_outputs_drop_old(struct sandbox *s);
/* process-request.c: the process and all that it started have ended; or this cannot be
 * determined. */
void process_killings_ended(struct process *p);
void process_killings_failed(struct process *p, const struct cloche_err *e);

#endif
