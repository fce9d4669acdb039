/* The engine's side of the link to its supervisor. A daemon without one (--connect-fd) calls the same functions, which then do nothing. */
#ifndef CLOCHE_DAEMON_SUPERVISED_H
#define CLOCHE_DAEMON_SUPERVISED_H

#include "supervisor-protocol.h"

struct daemon;
struct daemon_options;

/* First in main: 1 when the supervisor started this process. Takes the descriptors that are no listeners, and the message of the beginning. */
int supervised_enter(struct daemon_options *o, uint32_t *ret_restarts, int *ret_had_state);
/* This process is killed when its supervisor ends, from now on. After the change of users, which would undo it. */
CLOCHE_MUST_CHECK int supervised_bind(const struct daemon_options *o, struct cloche_err *e);
CLOCHE_MUST_CHECK int supervised_start(struct daemon *d, struct cloche_err *e);
/* e: with MESSAGE_FAILED. A message is dropped when the supervisor does not read. */
void supervised_tell(const struct daemon_options *o, enum supervisor_message_kind kind, const struct cloche_err *e);

#endif
