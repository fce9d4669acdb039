/* Host functions called by a guest: each call goes to the caller's handler, which answers now or later. */
#ifndef CLOCHE_ENGINE_BRIDGE_H
#define CLOCHE_ENGINE_BRIDGE_H

#include "wire/rpc.h"

#include <sys/queue.h>

struct cloche_run;

struct bridge {
        cloche_bridge_handler handler; /* NULL: nothing is offered */
        void *data;
        uint64_t calls, call_bytes; /* so far */
        int has_bodies;             /* what is asked of bodies is passed on too (spec/agent.md, Bodies) */
        int has_exported;
        unsigned bodies_open; /* of open */
        TAILQ_HEAD(bridge_calls, cloche_bridge_call) open;
};

void bridge_init(struct bridge *bridge, cloche_bridge_handler handler, void *data);
/* A request of the guest. Negative: it broke the protocol, or a limit (then the run was told). */
int bridge_receive(struct cloche_run *run, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);
/* cloche_bridge_call_args, cloche_bridge_call_kwargs and cloche_bridge_answer of held values (wire/value.h). Borrowed. */
const json_t *bridge_call_args(const cloche_bridge_call *call);
const json_t *bridge_call_kwargs(const cloche_bridge_call *call);
int bridge_answer(cloche_bridge_call *call, const json_t *value, struct cloche_err *e);
/* cloche_bridge_fail() with all that is known of it: {name, message, fields, exact}, held. */
int bridge_fail(cloche_bridge_call *call, const json_t *failure, struct cloche_err *e);
/* The run is over: answers to what is open go nowhere. */
void bridge_done(struct bridge *bridge);

#endif
