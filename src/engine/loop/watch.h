/* A descriptor on the loop, registered with the kernel as long as its owner keeps it. libuv takes a
 * descriptor out of epoll and puts it in again at each uv_poll_start, also for the same events; a
 * watch is changed only when the events change. */
#ifndef CLOCHE_ENGINE_LOOP_WATCH_H
#define CLOCHE_ENGINE_LOOP_WATCH_H

#include <uv.h>

struct watch;

/* status, events: as of uv_poll_cb. A negative status has stopped the watch. */
typedef void (*watch_callback)(void *data, int status, int events);

/* Watch fd, which becomes nonblocking; no event is awaited yet. 0 or -errno; *ret is NULL then. */
int watch_new(uv_loop_t *loop, int fd, struct watch **ret);
/* Await events (UV_READABLE | ...; 0: none). */
void watch_set(struct watch *watch, int events);
/* Set the callback for later events. NULL: there is no reader yet, or no more; an event then stops
 * the watch, and the next watch_set starts it again. */
void watch_on_event(struct watch *watch, watch_callback on_event, void *data);
/* Call it before closing the descriptor, or libuv would drop the next user of that number. Accepts
 * NULL. */
void watch_close(struct watch *watch);

#endif
