/* The network of a sandbox. */
#ifndef CLOCHE_SANDBOX_NETWORK_CONNECTIONS_H
#define CLOCHE_SANDBOX_NETWORK_CONNECTIONS_H

#include "sandbox/core/sandboxes.h"

/* connections.c: set up the box's network for the policy. It is in force when sandbox_connections_ready is
 * called. */
int sandbox_connections_open(struct sandbox *s, const json_t *policy, struct cloche_err *e);
void sandbox_connections_restart(struct sandbox *s); /* restart it after it ended by itself */
void sandbox_connections_close(struct sandbox *s);
/* Write one line: why programs in it may not connect, and how the operator can allow it. */
void sandbox_explain_network(const struct sandbox *s, char *ret, size_t size);
/* Return the connections that were refused since s->decision_count was `since`, by the network's
 * last word: SandboxDenial[] of spec/answers.def. NULL: none. */
json_t *sandbox_denials(struct sandbox *s, uint64_t since);

#endif
