/* The daemon's loop, and how it ends. */
#ifndef CLOCHE_DAEMON_LOOP_H
#define CLOCHE_DAEMON_LOOP_H

#include "daemon.h"

int loop_new(struct daemon *d, struct cloche_err *e);
/* Once there is an engine. */
int loop_start(struct daemon *d, struct cloche_err *e);
/* Until the end; the exit code. */
int loop_run(struct daemon *d);
/* The daemon got one of the signals that end it: told twice, it ends at once. */
void loop_signal(struct daemon *d, int number);
/* Accepts what loop_new or a later step left half done. */
void loop_free(struct daemon *d);

#endif
