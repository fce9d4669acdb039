/* The daemon's event loop, and its end. */
#ifndef CLOCHE_DAEMON_CORE_LOOP_H
#define CLOCHE_DAEMON_CORE_LOOP_H

#include "daemon.h"

#include <jansson.h>

int loop_new(struct daemon *d, struct cloche_err *e);
/* Call it when the engine exists. */
int loop_start(struct daemon *d, struct cloche_err *e);
/* The policy of new sandboxes that state none (--network); a new reference, NULL: none. */
json_t *daemon_network(const struct daemon *d);
/* Run until the end; returns the exit code. */
int loop_run(struct daemon *d);
/* The daemon received a signal to end. A second one ends it at once. */
void loop_signal(struct daemon *d, int number);
/* Accepts a daemon that loop_new or a later step left incomplete. */
void loop_free(struct daemon *d);

#endif
