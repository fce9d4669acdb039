/* Connections answered before the end of their request body. Closing a socket with unread bytes
 * resets it, and the reset discards the answer for a client that still writes. So the socket stays
 * open for reading, bounded in bytes, time and number. */
#ifndef CLOCHE_DAEMON_HTTP_LINGER_H
#define CLOCHE_DAEMON_HTTP_LINGER_H

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
/* Close connections after their timeout; call it periodically. */
void lingers_sweep(struct http_lingers *all, uint64_t now_ns);
void lingers_done(struct http_lingers *all);
/* Keep a duplicate of the socket and read up to bytes_max from it. Beyond the maximum number the
 * socket is closed as usual. */
void linger_begin(struct http_lingers *all, int fd, uint64_t bytes_max, uint64_t now_ns);

#endif
