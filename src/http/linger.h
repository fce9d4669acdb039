/* Connections that were answered before the end of what they send. A socket that is closed with bytes unread is reset, and the reset takes the answer from
 * whoever is still writing: so it stays open for reading, within bounds of bytes, time and number. */
#ifndef CLOCHE_HTTP_LINGER_H
#define CLOCHE_HTTP_LINGER_H

#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

struct http_linger;

struct http_lingers {
        uv_loop_t *loop;
        TAILQ_HEAD(http_linger_list, http_linger) list;
        unsigned count;
};

void lingers_init(struct http_lingers *all, uv_loop_t *loop);
/* Close the ones whose time is over; now and then. */
void lingers_sweep(struct http_lingers *all, uint64_t now_ns);
void lingers_done(struct http_lingers *all);
/* A copy of the socket is kept, and so many bytes of it are read. One too many is closed as any other is. */
void linger_begin(struct http_lingers *all, int fd, uint64_t bytes_max, uint64_t now_ns);

#endif
