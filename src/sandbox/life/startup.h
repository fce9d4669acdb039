/* The start and ready commands of an image, at each start of a sandbox: the first is a background
 * process of the sandbox, and requests wait until the second succeeds. */
#ifndef CLOCHE_SANDBOX_LIFE_STARTUP_H
#define CLOCHE_SANDBOX_LIFE_STARTUP_H

#include "sandbox/core/sandboxes.h"

#define STARTUP_PROCESS "image-start" /* its id in the lists of processes */

/* The box runs. Calls sandbox_started or sandbox_start_failed, from here only without commands. */
void sandbox_startup_begin(struct sandbox *s);
/* False while requests wait for it. */
int sandbox_startup_is_over(const struct sandbox *s);
/* Return the number of processes that run because of the image, and keep no sandbox from being
 * idle: each start of the sandbox starts them again. */
unsigned sandbox_startup_processes(const struct sandbox *s);
/* True for the process of the start command. */
int sandbox_startup_has(const struct sandbox *s, const struct process *p);
/* Do the scheduled work: it may end the sandbox. */
void sandbox_startup_turn(struct sandbox *s);
void sandbox_startup_on_box_closed(struct sandbox *s);

#endif
