/* The part of a sandbox that a copy of it has: its definition without that which is one
 * sandbox's alone. */
#ifndef CLOCHE_SANDBOX_LIFE_HERITAGE_H
#define CLOCHE_SANDBOX_LIFE_HERITAGE_H

#include "sandbox/core/sandboxes.h"

/* Limits, environment, network policy, labels, image, packages, deadlines without the moment of
 * the end, and sessions with their directories and exported variables; NULL: no memory. */
json_t *sandbox_heritage_of(struct sandbox *s);
/* s is new. */
CLOCHE_MUST_CHECK int sandbox_heritage_take(struct sandbox *s, const json_t *heritage, struct cloche_err *e);
/* Append {kind, name, reason} to the list. */
void sandbox_heritage_omit(json_t *list, const char *kind, const char *name, const char *reason);
/* Append all that a copy of the sandbox does not have, except contexts. */
void sandbox_heritage_list_omitted(const struct sandbox *s, json_t *list);

#endif
