/* A prewarmed interpreter for the next context of a sandbox. It has the language of the last
 * context; it is forked already and its pages are its own, so the next context starts at once. */
#ifndef CLOCHE_SANDBOX_CONTEXT_PREWARM_H
#define CLOCHE_SANDBOX_CONTEXT_PREWARM_H

#include "notebook.h"

struct sandbox;

/* Return the prewarmed instance, now owned by the caller, or NULL if none is ready. */
struct seat *ahead_take(struct sandbox *s, const struct runtime *runtime);
/* Record the start of a context, and schedule a prewarmed instance for the next one. It is made
 * after a delay, so that it does not slow the current request. */
void ahead_want(struct sandbox *s, const struct runtime *runtime);
/* Drop an instance that was not used for long. */
void ahead_tidy(struct sandbox *s, uint64_t now_ns);
void ahead_gone(struct sandbox *s);

#endif
