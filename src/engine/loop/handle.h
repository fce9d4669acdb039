/* Handles of the loop on the heap: the loop may use a handle longer than its owner lives. */
#ifndef CLOCHE_ENGINE_LOOP_HANDLE_H
#define CLOCHE_ENGINE_LOOP_HANDLE_H

#include <stdlib.h>
#include <uv.h>

static inline void handle_free(uv_handle_t *handle)
{
        free(handle);
}

/* Accepts NULL. */
static inline void handle_close(void *handle)
{
        if (handle)
                uv_close(handle, handle_free);
}

/* Make a timer, not started yet; NULL without memory. */
static inline uv_timer_t *handle_timer(uv_loop_t *loop, void *data)
{
        uv_timer_t *timer = malloc(sizeof(*timer));

        if (timer) {
                uv_timer_init(loop, timer);
                timer->data = data;
        }
        return timer;
}

#endif
