/* A stream of frames to and from an agent, on the engine's loop. */
#ifndef CLOCHE_ENGINE_LOOP_CHANNEL_H
#define CLOCHE_ENGINE_LOOP_CHANNEL_H

#include "wire/rpc.h"

#include <uv.h>

#define CHANNEL_MEMORY_BYTES_MAX 65536

struct channel {
        int fd; /* -EBADF: none */
        int is_ended, is_paused;
        /* Accept descriptors of this type and keep the last one: S_IFDIR from our own programs;
         * S_IFREG from an agent, memory (memfd_create(2)) of a fixed size, at most
         * CHANNEL_MEMORY_BYTES_MAX; 0: accept no descriptors. */
        mode_t takes;
        int received_fd; /* or -EBADF */
        uv_poll_t *poll;
        struct frame_reader reader;
        struct buf out;
        int out_fd; /* sent with the byte of out at out_fd_at; or -EBADF */
        size_t out_fd_at;
        /* Called for each message, may close the channel. A negative return with *e means that the
         * message is invalid; on_end follows. */
        int (*on_message)(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);
        /* Called when no more messages will come. e: the error, or NULL at the end of the
         * stream. */
        void (*on_end)(void *data, const struct cloche_err *e);
        void *data;
};

/* Make a connected pair: our end in the channel, the agent's in *ret_agent_fd, owned by the caller.
 * frame_bytes_max limits frames from the agent. The caller sets the callbacks before
 * channel_watch. */
int channel_open(struct channel *c, uint64_t frame_bytes_max, int *ret_agent_fd, struct cloche_err *e);
int channel_watch(struct channel *c, uv_loop_t *loop, struct cloche_err *e);
/* Send fd with the message appended to c->out next; one at a time. Takes fd, also on failure. */
CLOCHE_MUST_CHECK int channel_attach(struct channel *c, int fd);
/* Close the attached descriptor, if its message could not be appended. */
void channel_detach(struct channel *c);
/* Append a request without attachments and flush. params: stolen. */
int channel_request(struct channel *c, int id, const char *method, json_t *params, struct cloche_err *e);
/* Send as much of c->out as possible now; the rest follows from the loop. */
void channel_flush(struct channel *c);
/* Stop or resume reading; the sender waits meanwhile. */
void channel_pause(struct channel *c, int is_paused);
/* Read all that has arrived. */
void channel_drain(struct channel *c);
void channel_close(struct channel *c);

#endif
