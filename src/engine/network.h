/* The network of a box, a sandbox's or a run's: has the keeper start cloche-gate (spec/gate.md) for it, gives it the policy, and hears what it decides. On the
 * engine's loop, one thread; nothing waits.
 *
 * Life cycle: network_start(); on_ready once, or on_end; then any number of on_decision; network_stop(). on_end comes at most once, never
 * from within network_start, and nothing comes after it: the box has no network then, but network_stop() is still the owner's to call.
 * A box that never had a network gets one at any time; it is taken away again by a policy that allows nothing. */
#ifndef CLOCHE_ENGINE_NETWORK_H
#define CLOCHE_ENGINE_NETWORK_H

#include "keeper/client.h"

#include <cloche/cloche.h>
#include <jansson.h>
#include <uv.h>

/* The host's name servers, read again whenever the file is another. resolv.conf(5). */
#define NETWORK_SERVERS_FILE "/etc/resolv.conf"

struct network; /* opaque */

struct network_face {
        /* The policy is in force: what is started from now on has its network. May be NULL. */
        void (*on_ready)(void *data);
        /* {host?, address?, port, verdict, rule?, why, kind, count}: count of the same since it was last told. Borrowed. May be NULL.
         * Number and time are the hearer's to give. */
        void (*on_decision)(void *data, const json_t *decision);
        /* It could not be started, or is gone: the box ended, or its memory was used up. */
        void (*on_end)(void *data, const struct cloche_err *e);
        void *data;
};

struct network_stats {
        uint64_t connections, connections_total; /* open now; since it was started */
        uint64_t bytes_in, bytes_out;            /* to the guest, from the guest */
        uint64_t queries;                        /* of names */
        uint64_t lost;                           /* decisions that came too fast to be told */
};

/* {allow: [rule, …], deny: [rule, …], dns?: boolean} as spec/sandbox.md says. -CLOCHE_E_INVALID_ARGUMENT names the rule: "network.allow[2]: …". */
CLOCHE_MUST_CHECK int network_policy_check(const json_t *policy, struct cloche_err *e);

/* policy: checked here again; borrowed. keeper, loop: borrowed, until network_stop. box: made with is_sandbox, alive.
 * -CLOCHE_E_INVALID_ARGUMENT, _RESOURCE, _KEEPER at once; what the keeper refuses comes by on_end. */
CLOCHE_MUST_CHECK int network_start(struct keeper *keeper, uint32_t box, uv_loop_t *loop, const json_t *policy, const struct network_face *face,
                                    struct network **ret, struct cloche_err *e);
/* In place of the one before, at once; also before on_ready. Open connections that it does not allow are cut. */
CLOCHE_MUST_CHECK int network_set_policy(struct network *network, const json_t *policy, struct cloche_err *e);
/* As they were last told (once a second while there is something to tell). */
struct network_stats network_stats(const struct network *network);
/* Hear what the gate has said up to now. */
void network_drain(struct network *network);
/* The gate ends; nothing is heard any more. Accepts NULL. */
void network_stop(struct network *network);

#endif
