/* The destinations a sandbox may connect to: {allow, deny, dns, headers} of spec/sandbox.md, parsed
 * strictly and evaluated. Pure; runs in the egress program and in the engine, which checks a
 * policy before it sends it. Addresses are in host order, names in host_name() form. */
#ifndef CLOCHE_HELPERS_EGRESS_READ_POLICY_H
#define CLOCHE_HELPERS_EGRESS_READ_POLICY_H

#include <cloche/error.h>
#include <jansson.h>
#include <stdint.h>

#define HOST_NAME_MAX_BYTES 253
#define POLICY_RULES_MAX 1000 /* of each list */

struct host_headers;
struct policy; /* opaque */

/* rule: text of the deciding rule, valid as long as the policy, or NULL: none
 * applies. why: static text. is_curable: it is denied, and a rule in allow for this
 * host (and port) would allow it. */
struct policy_verdict {
        int allowed, is_curable;
        const char *rule, *why;
};

/* Normalize a host name: lower case, no trailing dot, letters, digits, - and _ in labels of 1 to
 * 63. Rejects forms that inet_aton(3) or a browser reads as an address (127.1, 0x7f.1, 2130706433).
 * 0 or -1. */
int host_name(const char *text, size_t size, char ret[HOST_NAME_MAX_BYTES + 1]);

/* *ret is owned by the caller. -CLOCHE_E_INVALID_ARGUMENT names the rule; or -CLOCHE_E_RESOURCE. */
CLOCHE_MUST_CHECK int policy_load(const json_t *json, struct policy **ret, struct cloche_err *e);
void policy_free(struct policy *policy); /* accepts NULL */

/* Check if a DNS query is answered: some port must be allowed for the name. */
struct policy_verdict policy_resolves(const struct policy *policy, const char *name);
/* Check a connection to a name. */
struct policy_verdict policy_name(const struct policy *policy, const char *name, unsigned port);
#define POLICY_SERVICE "host:"          /* begins a rule about a service of this machine */
#define POLICY_SERVICES "host.internal" /* their names are below it */
/* Return the text after "host:" of such a rule; NULL: it is another one. "host:80" is a
 * port of the host "host". */
const char *policy_service_of(const char *rule);
/* True for names below host.internal: services of this machine's loopback, at 127.0.0.1. Only a
 * rule host:NAME:PORT allows NAME.host.internal, on this port. The engine makes such rules of
 * what the operator opened; it accepts none from callers. No name server is asked. */
int policy_is_service(const char *name);
/* The headers that are set in requests to the host; NULL: none. */
const struct host_headers *policy_headers(const struct policy *policy, const char *name);
/* Check a connection to an address. own: it belongs to this machine. */
struct policy_verdict policy_address(const struct policy *policy, uint32_t address, unsigned port, int own);
/* Check a connection to an address that an allowed name resolved to. */
struct policy_verdict policy_leads(const struct policy *policy, uint32_t address, unsigned port, int own);

#endif
