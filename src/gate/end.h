/* One end of a connection: a socket in the loop. */
#ifndef CLOCHE_GATE_END_H
#define CLOCHE_GATE_END_H

#include <uv.h>

struct end {
        int fd; /* owned; -EBADF: none */
        int events;
        uv_poll_t *poll;
        uv_poll_cb heard;
};

#define END_NONE ((struct end){.fd = -EBADF})

/* Takes fd, also on failure: 0 or -errno. heard's poll->data is data; it is not called any more once the end is closed. */
int end_open(struct end *end, uv_loop_t *loop, int fd, uv_poll_cb heard, void *data);
void end_watch(struct end *end, int events);
/* is_cut: whoever is at the other end learns that it did not end in order. */
void end_close(struct end *end, int is_cut);

#endif
