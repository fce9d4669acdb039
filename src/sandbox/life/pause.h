/* Pause with memory: the processes of a sandbox are frozen, and go on later with the same pids. */
#ifndef CLOCHE_SANDBOX_LIFE_PAUSE_H
#define CLOCHE_SANDBOX_LIFE_PAUSE_H

#include "sandbox/core/sandboxes.h"

/* Pause a running sandbox; requests to pause it get the outcome. save: save its files first, if
 * they changed and there is a state directory. */
void sandbox_pause(struct sandbox *s, int save);
/* It is paused, or will be: let it run again in the next loop iteration. */
void sandbox_wake(struct sandbox *s);
/* Let a paused one go on; then the requests in waiting begin. */
void sandbox_resume(struct sandbox *s);
/* Answer the requests to pause it. e: why it is not paused, or NULL: it is, with its
 * memory or its files only. */
void sandbox_answer_pauses(struct sandbox *s, const struct cloche_err *e);
/* It was or will be stopped: it is no paused one with its files only. */
void sandbox_pause_forget(struct sandbox *s);
void sandbox_pause_on_box_closed(struct sandbox *s);

#endif
