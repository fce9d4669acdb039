/* The network of a box, a sandbox's or a run's: the keeper starts cloche-egress (spec/egress.md)
 * for it; this sends the policy and receives the decisions. Runs on the engine's loop, in one
 * thread, and never waits.
 *
 * Life cycle: network_start(); on_ready once, or on_end; then any number of on_decision, and
 * on_ready once for each network_set_policy(); network_stop(). on_end comes at most once,
 * never from network_start, and is the last callback: the box has no network then, but the
 * owner must still call network_stop(). A box without a network gets one at any time; a policy
 * that allows nothing takes it away. */
#ifndef CLOCHE_ENGINE_BOX_NETWORK_H
#define CLOCHE_ENGINE_BOX_NETWORK_H

#include "keeper-client.h"

#include <cloche/error.h>
#include <jansson.h>
#include <uv.h>

/* The host's name servers, read again if the file has changed. resolv.conf(5). */
#define NETWORK_SERVERS_FILE "/etc/resolv.conf"

struct network; /* opaque */

struct network_face {
        /* A policy is in force, that of network_start or network_set_policy: programs started
         * from now on have its network. May be NULL. */
        void (*on_ready)(void *data);
        /* {host?, address?, port, verdict, rule?, why, kind, count}; count: equal decisions since
         * the last report. Borrowed. May be NULL. The receiver adds number and time. */
        void (*on_decision)(void *data, const json_t *decision);
        /* Bytes of its connections since the last report, in both directions. May be NULL. */
        void (*on_traffic)(void *data, uint64_t sent, uint64_t received);
        /* The network could not be started, or has ended: the box ended, or its memory ran out. */
        void (*on_end)(void *data, const struct cloche_err *e);
        void *data;
};

/* Check {allow: [rule, …], deny: [rule, …], dns?: boolean, headers?: object} as in spec/sandbox.md.
 * names: of the engine (network-names.h). -CLOCHE_E_INVALID_ARGUMENT names the rule:
 * "network.allow[2]: …". */
CLOCHE_MUST_CHECK int network_policy_check(json_t *names, const json_t *policy, struct cloche_err *e);
/* The policy as it is shown to callers: with null in place of the values of headers. A new
 * reference. */
json_t *network_policy_shown(json_t *policy);

/* policy: checked here, borrowed. keeper, names, loop: borrowed until network_stop. box:
 * alive, made with is_sandbox. Returns -CLOCHE_E_INVALID_ARGUMENT, _RESOURCE, _KEEPER;
 * refusals of the keeper come by on_end. */
CLOCHE_MUST_CHECK int network_start(struct keeper *keeper, json_t *names, uint32_t box, uv_loop_t *loop,
                                    const json_t *policy, const struct network_face *face, struct network **ret,
                                    struct cloche_err *e);
/* Replace the policy; also before on_ready, which comes again when it is in force. Open
 * connections that it does not allow are cut. */
CLOCHE_MUST_CHECK int network_set_policy(struct network *network, const json_t *policy, struct cloche_err *e);
/* Read the messages that the egress program has sent so far. */
void network_drain(struct network *network);
/* End the egress program and drop the callbacks. Accepts NULL. */
void network_stop(struct network *network);

#endif
