/* References among the containers of a value (spec/values.md), for languages that need none.
 * Pure. */
#ifndef CLOCHE_BOX_AGENT_RESOLVE_H
#define CLOCHE_BOX_AGENT_RESOLVE_H

#include <cloche/error.h>
#include <jansson.h>

/* Resolve a value that value_check() accepted. *ret is a new reference: a shared value is one
 * json_t in several places. A value that holds itself is refused: -CLOCHE_E_INVALID_JSON. */
int resolve_references(json_t *value, json_t **ret, struct cloche_err *e);

#endif
