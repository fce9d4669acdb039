/* The state of a sandbox: legal transitions, and the words for it. */
#ifndef CLOCHE_SANDBOX_LIFE_STATE_H
#define CLOCHE_SANDBOX_LIFE_STATE_H

#include "sandbox/core/sandboxes.h"

/* True if its processes are frozen: in memory they are as they were. */
int sandbox_has_memory(const struct sandbox *s);
/* {state, pauseKind} of spec/answers.def; a new reference. */
json_t *sandbox_state_json(const struct sandbox *s);

#endif
