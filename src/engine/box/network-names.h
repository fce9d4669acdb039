/* Names that stand for rules in a network policy (spec/sandbox.md): presets, whose
 * hosts the operator or the host's configuration names, and ports of the host's
 * loopback that the operator opened. */
#ifndef CLOCHE_ENGINE_BOX_NETWORK_NAMES_H
#define CLOCHE_ENGINE_BOX_NETWORK_NAMES_H

#include <cloche/error.h>
#include <jansson.h>

/* Replace the names in a policy by what they stand for; the other rules keep their places.
 * names: of the operator, {presets?: {name: [rule, …]}, proxy?: [rule], services?: {name:
 * port}}; what the host's files say is added to it. *ret is owned by the caller.
 * -CLOCHE_E_INVALID_ARGUMENT: nothing is known for a name. */
CLOCHE_MUST_CHECK int network_names_expand(json_t *names, const json_t *policy, json_t **ret, struct cloche_err *e);
/* Return the preset with a rule for exactly this host, and port if it is not 0; NULL: none. */
const char *network_names_preset(json_t *names, const char *host, unsigned port);

/* Return the name of the port of the host that this is, and its port is not another one (0:
 * any); NULL: none. ret: its text, of NETWORK_SERVICE_MAX + 1 bytes. */
#define NETWORK_SERVICE_MAX 40
const char *network_names_service(const json_t *names, const char *host, unsigned port,
                                  char ret[NETWORK_SERVICE_MAX + 1]);

#define NETWORK_SERVICE_EXPECTED \
        "NAME=PORT, with a name of a to z, 0 to 9 and - that begins with a letter, and a port from 1 to 65535"
/* Add NAME=PORT to the services. 0 or -1: it is not of that form, or the name has a
 * port already, or no memory. */
int network_names_add_service(json_t *services, const char *text);

/* Return HOST or HOST:PORT of a URL of HTTP, without a user, in the text; NULL: it has none. */
const char *network_names_authority(const char *url, size_t *ret_size);
/* Append the rule HOST:PORT for that URL, unless the list has it. 0 or -1: no valid host, no
 * memory. */
int network_names_add_url(json_t *rules, const char *url);

#endif
