/* The network of a cold run: none, unless its options name rules. The box is then made like a
 * sandbox's, and its only network is cloche-egress, which the keeper starts as the box's owner
 * (spec/egress.md). */
#ifndef CLOCHE_ENGINE_RUN_RUN_NETWORK_H
#define CLOCHE_ENGINE_RUN_RUN_NETWORK_H

#include "engine/box/network-words.h"

#include <cloche/error.h>
#include <jansson.h>

struct cloche_run;
struct cloche_run_options;

struct run_network {
        json_t *policy; /* NULL: no network */
        struct network *egress;
        int is_ready, is_awaited;   /* awaited: only the network is missing to start its program */
        json_t *denied;             /* from the egress program, each row once with a count */
        uint64_t lost;              /* denials beyond the most that are kept */
        struct network_words words; /* in stderr of a run without a network */
};

/* Check opt->network and keep it. -CLOCHE_E_INVALID_JSON, _INVALID_ARGUMENT. */
int run_take_network(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e);
/* Start the network: the box is made. Later failures end the run by run_failed. */
int run_start_network(struct cloche_run *run, struct cloche_err *e);
/* 1: run_go_on() follows when the rules are in force. */
int run_awaits_network(struct cloche_run *run);
/* Read the decisions so far and end the egress program. May be called again. */
void run_stop_network(struct cloche_run *run);
/* Warn that the run has no network, if it failed and printed or threw an error about a name or a
 * host. */
void run_explain_network(struct cloche_run *run);
void run_network_done(struct cloche_run *run);

#endif
