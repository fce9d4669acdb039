/* A prewarmed interpreter for the next context of a sandbox. It has the language and the
 * set-up of the last context; it is forked already and its pages are its own, so the
 * next context starts at once. */
#ifndef CLOCHE_SANDBOX_CONTEXT_PREWARM_H
#define CLOCHE_SANDBOX_CONTEXT_PREWARM_H

#include "notebook.h"

struct sandbox;

/* Return the prewarmed instance, now owned by the caller, or NULL if none is ready. set_up: of a
 * caller's prefix; NULL: the notebook's. */
struct instance *context_prewarm_take(struct sandbox *s, const struct runtime *runtime, const struct template *set_up);
/* Record the start of a context, and schedule a prewarmed instance for the next one. It is made
 * after a delay, so that it does not slow the current request. */
void context_prewarm_schedule(struct sandbox *s, const struct runtime *runtime, struct template *set_up);
/* Drop an instance that was not used for long. */
void context_prewarm_tidy(struct sandbox *s, uint64_t now_ns);
void context_prewarm_close(struct sandbox *s);

#endif
