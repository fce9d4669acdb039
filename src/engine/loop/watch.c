/* Descriptors on the loop. Runs in: the engine, on its loop, or in a thread with a loop of its
 * own. */
#include "watch.h"

#include "handle.h"

struct watch {
        uv_poll_t poll; /* first member: closing it frees all (handle.h) */
        int events;     /* registered; 0: stopped */
        watch_callback on_event;
        void *data;
};

int watch_new(uv_loop_t *loop, int fd, struct watch **ret)
{
        struct watch *watch = calloc(1, sizeof(*watch));
        int r = watch ? uv_poll_init(loop, &watch->poll, fd) : -ENOMEM;

        if (r < 0) {
                free(watch);
                watch = NULL;
        }
        *ret = watch;
        return r;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct watch *watch = (struct watch *)poll;

        if (status < 0) /* libuv has stopped the handle (src/unix/poll.c, uv__poll_io) */
                watch->events = 0;
        if (watch->on_event)
                watch->on_event(watch->data, status, events);
        else
                watch_set(watch, 0);
}

void watch_set(struct watch *watch, int events)
{
        if (watch->events == events)
                return;
        watch->events = events;
        if (events)
                uv_poll_start(&watch->poll, events, on_poll);
        else
                uv_poll_stop(&watch->poll);
}

void watch_on_event(struct watch *watch, watch_callback on_event, void *data)
{
        watch->on_event = on_event;
        watch->data = data;
}

void watch_close(struct watch *watch)
{
        handle_close(watch);
}
