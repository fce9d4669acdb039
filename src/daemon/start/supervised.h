/* The engine's end of the link to its supervisor. In a daemon without one (--connect-fd) these
 * functions do nothing. */
#ifndef CLOCHE_DAEMON_START_SUPERVISED_H
#define CLOCHE_DAEMON_START_SUPERVISED_H

#include "proto/supervisor.h"

struct daemon;
struct daemon_options;

/* Call it first in main. 1: the supervisor started this process. Takes the descriptors that are not
 * listeners, and reads MESSAGE_BEGIN. */
int supervised_enter(struct daemon_options *o, uint32_t *ret_restarts, int *ret_had_state);
/* From now on this process is killed when its supervisor ends. Call it after the change of users,
 * which would undo it. */
CLOCHE_MUST_CHECK int supervised_bind(const struct daemon_options *o, struct cloche_err *e);
CLOCHE_MUST_CHECK int supervised_start(struct daemon *d, struct cloche_err *e);
/* Send a message; dropped if the supervisor does not read. e: for MESSAGE_FAILED. */
void supervised_tell(const struct daemon_options *o, enum supervisor_message_kind kind, const struct cloche_err *e);

#endif
