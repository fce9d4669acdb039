/* Timers that count the time in which a sandbox runs: the timeout of a command must not end
 * while its processes are frozen. */
#ifndef CLOCHE_SANDBOX_LIFE_TIMER_H
#define CLOCHE_SANDBOX_LIFE_TIMER_H

#include <stdint.h>
#include <uv.h>

struct sandbox;
struct sandbox_timer; /* opaque */

/* A timer that is not started; NULL without memory. Callbacks find data in the handle that they
 * get. */
struct sandbox_timer *sandbox_timer_new(struct sandbox *s, void *data);
void sandbox_timer_close(struct sandbox_timer *t); /* accepts NULL */
/* As uv_timer_start. While the sandbox is paused the time does not pass. */
void sandbox_timer_start(struct sandbox_timer *t, uv_timer_cb expired, uint64_t ms, uint64_t repeat_ms);
void sandbox_timer_stop(struct sandbox_timer *t);
int sandbox_timer_is_active(const struct sandbox_timer *t);

/* Hold all timers of a sandbox, and let them go on with the time that each had left. */
void sandbox_timers_hold(struct sandbox *s);
void sandbox_timers_release(struct sandbox *s);

#endif
