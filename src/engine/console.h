/* Lines of the console of an evaluated module (spec/agent.md, Lines): one by one, many at a time, and those that a killed agent left. */
#ifndef CLOCHE_ENGINE_CONSOLE_H
#define CLOCHE_ENGINE_CONSOLE_H

#include "wire/rpc.h"

struct cloche_run;

/* A notification `console` or `lines`. Negative with *e: it broke the protocol, or there is no memory. */
int console_receive(struct cloche_run *run, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);
/* The run is over, and its channel still open: the lines that its agent had not sent when it ended. */
void console_take_rest(struct cloche_run *run);

#endif
