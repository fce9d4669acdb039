/* One end of a connection: a socket in the loop. */
#ifndef CLOCHE_HELPERS_EGRESS_END_H
#define CLOCHE_HELPERS_EGRESS_END_H

#include <uv.h>

struct end {
        int fd; /* owned; -EBADF: none */
        int events;
        uv_poll_t *poll;
        uv_poll_cb on_ready;
};

#define END_NONE ((struct end){.fd = -EBADF})

/* Takes fd, also on failure: 0 or -errno. heard's poll->data is data. heard is not
 * called after end_close(). */
int end_open(struct end *end, uv_loop_t *loop, int fd, uv_poll_cb on_ready, void *data);
void end_watch(struct end *end, int events);
/* is_cut: reset the connection, so that the peer detects an incomplete stream. */
void end_close(struct end *end, int is_cut);

#endif
