/* Timers that count the time in which a sandbox runs. Runs in: cloched-engine, on its loop, with
 * the rights of the daemon's user. */
#include "timer.h"

#include "engine/loop/handle.h"
#include "sandbox/core/sandboxes.h"

#include <stdlib.h>

struct sandbox_timer {
        uv_timer_t handle; /* the first member: the loop frees it by this address */
        LIST_ENTRY(sandbox_timer) link;
        struct sandbox *sandbox;
        uv_timer_cb expired;
        uint64_t repeat_ms, left_ms; /* left_ms: valid while it is held */
        int is_held;
};

struct sandbox_timer *sandbox_timer_new(struct sandbox *s, void *data)
{
        struct sandbox_timer *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        uv_timer_init(&s->all->engine->loop, &t->handle);
        t->handle.data = data;
        t->sandbox = s;
        LIST_INSERT_HEAD(&s->timers, t, link);
        return t;
}

void sandbox_timer_close(struct sandbox_timer *t)
{
        if (!t)
                return;
        LIST_REMOVE(t, link);
        handle_close(&t->handle);
}

void sandbox_timer_start(struct sandbox_timer *t, uv_timer_cb expired, uint64_t ms, uint64_t repeat_ms)
{
        t->expired = expired;
        t->repeat_ms = repeat_ms;
        t->left_ms = ms;
        t->is_held = t->sandbox->are_timers_held;
        if (!t->is_held)
                uv_timer_start(&t->handle, expired, ms, repeat_ms);
}

void sandbox_timer_stop(struct sandbox_timer *t)
{
        t->is_held = 0;
        uv_timer_stop(&t->handle);
}

int sandbox_timer_is_active(const struct sandbox_timer *t)
{
        return t->is_held || uv_is_active((const uv_handle_t *)&t->handle);
}

void sandbox_timers_hold(struct sandbox *s)
{
        struct sandbox_timer *t;

        s->are_timers_held = 1;
        LIST_FOREACH (t, &s->timers, link)
                if (uv_is_active((const uv_handle_t *)&t->handle)) {
                        t->left_ms = uv_timer_get_due_in(&t->handle);
                        t->is_held = 1;
                        uv_timer_stop(&t->handle);
                }
}

void sandbox_timers_release(struct sandbox *s)
{
        struct sandbox_timer *t;

        s->are_timers_held = 0;
        LIST_FOREACH (t, &s->timers, link)
                if (t->is_held) {
                        t->is_held = 0;
                        uv_timer_start(&t->handle, t->expired, t->left_ms, t->repeat_ms);
                }
}
