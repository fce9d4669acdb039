/* Console lines of an evaluated module (spec/agent.md, Lines): sent one by one, many at a time, or
 * left in memory by a killed agent. */
#ifndef CLOCHE_ENGINE_LOOP_CONSOLE_H
#define CLOCHE_ENGINE_LOOP_CONSOLE_H

#include "wire/rpc.h"

struct cloche_run;

/* Handle a notification `console` or `lines`. Negative with *e: it broke the protocol, or memory
 * ran out. */
int console_receive(struct cloche_run *run, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);
/* Add the lines that the agent had not sent when it ended. Call it before the channel is closed. */
void console_take_rest(struct cloche_run *run);

#endif
