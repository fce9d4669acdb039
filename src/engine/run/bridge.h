/* Host functions that a guest calls. Each call goes to the caller's handler, which answers at once
 * or later. */
#ifndef CLOCHE_ENGINE_RUN_BRIDGE_H
#define CLOCHE_ENGINE_RUN_BRIDGE_H

#include "wire/rpc.h"

#include <cloche/engine.h>
#include <sys/queue.h>

struct cloche_run;

struct bridge {
        cloche_bridge_handler handler; /* NULL: no function is offered */
        void *data;
        uint64_t calls, call_bytes; /* so far */
        int has_bodies;             /* calls about bodies are passed on, too (spec/agent.md, Bodies) */
        int has_exported;
        unsigned bodies_open; /* calls about bodies in open */
        TAILQ_HEAD(bridge_calls, cloche_bridge_call) open;
};

void bridge_init(struct bridge *bridge, cloche_bridge_handler handler, void *data);
/* Handle a request of the guest. Negative if it broke the protocol; if it crossed a limit, the run
 * is ended (run_broke_bridge) and 0 returned. */
int bridge_receive(struct cloche_run *run, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);
/* Like cloche_bridge_call_args, cloche_bridge_call_kwargs and cloche_bridge_answer, with held
 * values (wire/value.h). Borrowed. */
const json_t *bridge_call_args(const cloche_bridge_call *call);
const json_t *bridge_call_kwargs(const cloche_bridge_call *call);
int bridge_answer(cloche_bridge_call *call, const json_t *value, struct cloche_err *e);
/* Like cloche_bridge_fail(), with a held object {name, message, fields, exact}. */
int bridge_fail(cloche_bridge_call *call, const json_t *failure, struct cloche_err *e);
/* Detach the open calls: the run is over, and their answers are dropped. */
void bridge_done(struct bridge *bridge);

#endif
