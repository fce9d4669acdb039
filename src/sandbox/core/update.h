/* Changes to the options of a sandbox. The keeper changes the limits of a running box on
 * request. */
#ifndef CLOCHE_SANDBOX_CORE_UPDATE_H
#define CLOCHE_SANDBOX_CORE_UPDATE_H

#include "sandboxes.h"

/* The common part of create and update. 0: done. 1: done is called, with e or NULL, when the
 * keeper has answered, and a new policy is in force in all networks of the sandbox. A cancelled
 * request is carried out, without the callback. A failure changes nothing, with one exception:
 * if the state directory is full, the box that runs keeps the new limits until it stops. */
int sandbox_update_begin(struct sandbox *s, struct sandbox_request *request, const json_t *params,
                         void (*done)(struct sandbox_request *request, const struct cloche_err *e),
                         struct cloche_err *e);
/* Answer the updates whose policy is in force, or will not be in time. */
void sandbox_updates_settle(struct sandbox *s);
/* Drop pending updates: the sandbox ends. */
void sandbox_updates_free(struct sandbox *s);

#endif
