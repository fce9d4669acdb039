/* The networks of a sandbox: that of its box, and one for each context, whose box has its own.
 * All are under the sandbox's policy, and their decisions are in one log. */
#ifndef CLOCHE_SANDBOX_NETWORK_CONNECTIONS_H
#define CLOCHE_SANDBOX_NETWORK_CONNECTIONS_H

#include <cloche/error.h>
#include <jansson.h>
#include <stdint.h>

struct sandbox;

/* One of them. The owner sets sandbox, box and on_change. */
struct connections {
        struct sandbox *sandbox;
        uint32_t box; /* of a context: KEEPER_NO_BOX until it has one that runs code */
        /* A policy is in force; with e: the network could not be started, or has ended. May be
         * NULL. */
        void (*on_change)(struct connections *c, const struct cloche_err *e);
        struct network *network;
        unsigned pending; /* policies that are not in force yet */
        int is_lost;      /* it has ended by itself; connecting fails at once */
};

/* Set it up for the policy, or change its policy. It is in force when connections_are_settled(). */
int connections_open(struct connections *c, const json_t *policy, struct cloche_err *e);
void connections_close(struct connections *c);
/* Give all of them a policy. Those of contexts that fail are lost. */
int sandbox_connections_open(struct sandbox *s, const json_t *policy, struct cloche_err *e);
/* No policy is pending. */
int connections_are_settled(const struct connections *c);
int sandbox_connections_are_settled(const struct sandbox *s);
/* Start those again that have ended by themselves. */
void sandbox_connections_restart(struct sandbox *s);
/* Write one line: why programs in it may not connect, and how the operator can allow it. */
void sandbox_explain_network(const struct sandbox *s, char *ret, size_t size);
/* Read all decisions that the networks have sent, and return the connections that were refused
 * since s->decision_count was `since`: SandboxDenial[] of spec/answers.def. NULL: none. */
json_t *sandbox_denials(struct sandbox *s, uint64_t since);

#endif
