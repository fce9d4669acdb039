/* Changes of the options a sandbox was made with. The keeper is asked to change the limits of a running box. */
#ifndef CLOCHE_SANDBOX_UPDATE_H
#define CLOCHE_SANDBOX_UPDATE_H

#include "internal.h"

/* The common part of create and update. 0: done. 1: done is called when the keeper has answered, e NULL or why not. A cancelled request is carried out,
 * without the callback. Nothing is changed on failure, but for the limits of a box that runs, when the state directory is full: it has them until it stops. */
int update_begin(struct sandbox *s, struct sandbox_ask *ask, const json_t *params, void (*done)(struct sandbox_ask *ask, const struct cloche_err *e),
                 struct cloche_err *e);
/* The sandbox goes. */
void updates_free(struct sandbox *s);

#endif
