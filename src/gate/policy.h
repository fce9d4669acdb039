/* Where a sandbox may connect to: {allow, deny, dns} of spec/sandbox.md, read strictly and asked. Pure; in the gate and in the engine, which
 * checks before it sends. Addresses are in host order, names as host_name() makes them. */
#ifndef CLOCHE_GATE_POLICY_H
#define CLOCHE_GATE_POLICY_H

#include <cloche/cloche.h>
#include <jansson.h>
#include <stdint.h>

#define HOST_NAME_MAX_BYTES 253
#define POLICY_RULES_MAX 1000 /* of each list */

struct policy; /* opaque */

/* rule: its text, valid as long as the policy, or NULL: none was about it. why: static text. */
struct policy_verdict {
        int allowed;
        const char *rule, *why;
};

/* Lower case, without a dot at its end: letters, digits, - and _ in labels of 1 to 63. Not a name: what inet_aton(3) or a browser would take for an
 * address (127.1, 0x7f.1, 2130706433). 0 or -1. */
int host_name(const char *text, size_t size, char ret[HOST_NAME_MAX_BYTES + 1]);

/* *ret is owned by the caller. -CLOCHE_E_INVALID_ARGUMENT names the rule, -CLOCHE_E_RESOURCE. */
CLOCHE_MUST_CHECK int policy_load(const json_t *json, struct policy **ret, struct cloche_err *e);
void policy_free(struct policy *policy); /* accepts NULL */

/* Is it answered at all: is there a port on which it may be connected to? */
struct policy_verdict policy_resolves(const struct policy *policy, const char *name);
/* A connection to a name. */
struct policy_verdict policy_name(const struct policy *policy, const char *name, unsigned port);
/* A connection to an address. own: it is one of this machine's. */
struct policy_verdict policy_address(const struct policy *policy, uint32_t address, unsigned port, int own);
/* A connection to an address that a name, which was allowed, leads to. */
struct policy_verdict policy_leads(const struct policy *policy, uint32_t address, unsigned port, int own);

#endif
