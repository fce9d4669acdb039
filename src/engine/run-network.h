/* The network of a cold run: none, unless its options name rules. The box is then of the kind that sandboxes have, and cloche-gate, which the keeper
 * starts as the box's owner, is all the network it has (spec/gate.md). */
#ifndef CLOCHE_ENGINE_RUN_NETWORK_H
#define CLOCHE_ENGINE_RUN_NETWORK_H

#include "network-words.h"

#include <cloche/cloche.h>
#include <jansson.h>

struct run_network {
        json_t *policy; /* NULL: no network */
        struct network *gate;
        int is_ready, is_awaited; /* awaited: all but the network is there for its program to start */
        json_t *denied; /* as the gate reports them, each once with a count */
        uint64_t lost;  /* of others, beyond the most that are kept */
        struct network_words words; /* of its standard error, where it has no network */
};

/* Check opt->network and keep it. -CLOCHE_E_INVALID_JSON, _INVALID_ARGUMENT. */
int run_take_network(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e);
/* Its box is there. Failures that come later end the run by run_failed. */
int run_start_network(struct cloche_run *run, struct cloche_err *e);
/* 1: run_go_on() follows when the rules are in force. */
int run_awaits_network(struct cloche_run *run);
/* Take the decisions that were made, and end the gate. May be called again. */
void run_stop_network(struct cloche_run *run);
/* A run that failed, and printed or threw that a name or a host cannot be reached, has a warning that it has no network. */
void run_explain_network(struct cloche_run *run);
void run_network_done(struct cloche_run *run);

#endif
