/* The end of a sandbox's time: without use, or at a fixed moment. */
#ifndef CLOCHE_SANDBOX_LIFE_DEADLINE_H
#define CLOCHE_SANDBOX_LIFE_DEADLINE_H

#include "sandbox/core/sandboxes.h"

/* Check idleAction and endAction of a request, and that this host can do them
 * (CLOCHE_E_GUARD_MISSING). keeper: NULL: of a definition, which may come from another host.
 * before: of the sandbox; NULL: of a definition too. */
int sandbox_deadline_check(const struct keeper *keeper, const struct deadline *before, const json_t *params,
                           struct cloche_err *e);
/* Take those that the request has. */
void sandbox_deadline_take(struct deadline *deadline, const json_t *params);
/* Once, before definitions are read. */
void sandbox_deadline_open(struct sandboxes *all);
/* Add them to a description; to a definition in the state directory with the end for
 * this boot and for others. */
void sandbox_deadline_describe(const struct deadline *deadline, json_t *object);
void sandbox_deadline_write(const struct sandbox *s, json_t *object);
void sandbox_deadline_read(struct sandbox *s, const json_t *object);
/* A sandbox that was stopped or paused when its time was over has no end any more, so that its
 * next use is not stopped at once. */
void sandbox_deadline_settle(struct sandbox *s);
/* Called every second: do the action that is due. */
void sandbox_deadline_tidy(struct sandbox *s, uint64_t now_ns);

#endif
