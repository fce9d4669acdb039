/* References among the containers of a value (spec/values.md), for languages that need none. Pure. */
#ifndef CLOCHE_AGENT_RESOLVE_H
#define CLOCHE_AGENT_RESOLVE_H

#include <cloche/cloche.h>
#include <jansson.h>

/* A value that value_check() found good. *ret is a new reference: what was shared stands in several places as one json_t. A value
 * that holds itself is refused: -CLOCHE_E_INVALID_JSON. */
int resolve_references(json_t *value, json_t **ret, struct cloche_err *e);

#endif
