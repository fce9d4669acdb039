/* Functions that process.c and process-start.c share. */
#ifndef CLOCHE_SANDBOX_PROCESS_PROCESS_H
#define CLOCHE_SANDBOX_PROCESS_PROCESS_H

#include "sandbox/core/internal.h"

void process_ended(struct process *p, int exit_code, int signal);
void process_ended_as(struct process *p, int wait_status);
/* Send SIGKILL to all of the process; at once, or as soon as it has a pid. */
void process_kill_hard(struct process *p);
void process_arm_timeout(struct process *p);
void process_stop_timers(struct process *p);
/* Drop the oldest outputs of exec if there are too many. */
void outputs_forget_old(struct sandbox *s);

#endif
