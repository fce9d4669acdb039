/* Changes to the options of a sandbox. The keeper changes the limits of a running box on
 * request. */
#ifndef CLOCHE_SANDBOX_CORE_UPDATE_H
#define CLOCHE_SANDBOX_CORE_UPDATE_H

#include "internal.h"

/* The common part of create and update. 0: done. 1: done is called when the keeper has answered,
 * with e or NULL. A cancelled request is carried out, without the callback. A failure changes
 * nothing, with one exception: if the state directory is full, the box that runs keeps the new
 * limits until it stops. */
int update_begin(struct sandbox *s, struct sandbox_ask *ask, const json_t *params,
                 void (*done)(struct sandbox_ask *ask, const struct cloche_err *e), struct cloche_err *e);
/* Drop pending updates: the sandbox ends. */
void updates_free(struct sandbox *s);

#endif
