/* Layers: archives like those of saved sandboxes, with which new sandboxes of a principal begin.
 *
 *   STATE/PRINCIPAL/.packages/KEY    never changed once it is there
 *   STATE/PRINCIPAL/.packages/.KEY   its description, in JSON */
#ifndef CLOCHE_SANDBOX_ENVIRONMENT_LAYER_H
#define CLOCHE_SANDBOX_ENVIRONMENT_LAYER_H

#include "sandbox/core/sandboxes.h"

/* False also if it is too old, which removes it. */
int sandbox_layer_exists(const struct sandboxes *all, int64_t principal, const char *key);
/* Now and then remove those of all principals that are too old. Sandboxes that began with one
 * keep theirs. */
void sandbox_layers_tidy(struct sandboxes *all, uint64_t now_ns);
/* Make the saved files of a stopped sandbox a layer; it has none then. about: {packages,
 * image?}. */
CLOCHE_MUST_CHECK int sandbox_layer_keep(const struct sandbox *s, const char *key, const json_t *about,
                                         struct cloche_err *e);
/* Make a layer the saved files of a sandbox that has none. */
CLOCHE_MUST_CHECK int sandbox_layer_give(const struct sandbox *s, const char *key, struct cloche_err *e);

#endif
