/* A stream of frames to an agent, on the engine's loop: what is asked goes out, what it says comes in. */
#ifndef CLOCHE_ENGINE_CHANNEL_H
#define CLOCHE_ENGINE_CHANNEL_H

#include "wire/rpc.h"

#include <uv.h>

#define CHANNEL_MEMORY_BYTES_MAX 65536

struct channel {
        int fd; /* -EBADF: none */
        int is_ended, is_paused;
        /* Descriptors of this kind may come along, and the last one is kept: S_IFDIR, of programs of ours; S_IFREG, memory of an agent's (memfd_create(2)) of a fixed size, at most CHANNEL_MEMORY_BYTES_MAX; 0: none. */
        mode_t takes;
        int received_fd; /* or -EBADF */
        uv_poll_t *poll;
        struct frame_reader reader;
        struct buf out;
        int out_fd;        /* goes along with the byte of out at out_fd_at; or -EBADF */
        size_t out_fd_at;
        /* A message came. Negative with *e: it was none that may come; on_end follows. The channel may be closed in it. */
        int (*on_message)(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);
        /* Nothing more will come. e: what was wrong, or NULL for the end of the stream. */
        void (*on_end)(void *data, const struct cloche_err *e);
        void *data;
};

/* A connected pair: our end in the channel, the agent's in *ret_agent_fd, owned by the caller. frame_bytes_max: of what it
 * may send. Callbacks are the caller's to set, before channel_watch. */
int channel_open(struct channel *c, uint64_t frame_bytes_max, int *ret_agent_fd, struct cloche_err *e);
int channel_watch(struct channel *c, uv_loop_t *loop, struct cloche_err *e);
/* fd goes along with what is appended to c->out next; one at a time. Owned from here on, also when it cannot be had. */
CLOCHE_MUST_CHECK int channel_attach(struct channel *c, int fd);
/* Closes it, when its message could not be appended. */
void channel_detach(struct channel *c);
/* A request without attachments, sent as far as it goes at once. params: stolen. */
int channel_request(struct channel *c, int id, const char *method, json_t *params, struct cloche_err *e);
/* What was appended to c->out goes as far as it goes at once; the rest follows. */
void channel_flush(struct channel *c);
/* Read nothing until it is let go: whoever speaks waits. */
void channel_pause(struct channel *c, int is_paused);
/* Take what is there now. */
void channel_drain(struct channel *c);
void channel_close(struct channel *c);

#endif
