/* A client of JSON-RPC (wire/client.h) on the engine's loop: the agents and file programs in
 * boxes, and the programs that serve mounts, syncs and networks. */
#ifndef CLOCHE_ENGINE_LOOP_CHANNEL_H
#define CLOCHE_ENGINE_LOOP_CHANNEL_H

#include "watch.h"

#include "wire/client.h"

#define CHANNEL_MEMORY_BYTES_MAX 65536

struct channel {
        int fd; /* -EBADF: none */
        int is_ended, is_paused;
        int is_unread; /* the agent closed its end before it had read all that was sent */
        /* Accept descriptors of this type and keep the last one: S_IFDIR from our own programs;
         * S_IFREG from an agent, memory (memfd_create(2)) of a fixed size, at most
         * CHANNEL_MEMORY_BYTES_MAX; 0: accept no descriptors. */
        mode_t takes;
        int received_fd; /* or -EBADF */
        struct watch *watch;
        struct wire_client client;
        /* Called for each message that answers no pending request; may close the channel. A
         * negative return with *e means that the message is invalid; on_end follows. */
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
/* Register the channel on the loop before it has a reader, and before the struct is moved;
 * nothing is read until channel_watch. */
int channel_register(struct channel *c, uv_loop_t *loop, struct cloche_err *e);
/* Drop later events, or take the channel off the loop as well; channel_close follows. */
void channel_ignore(struct channel *c);
void channel_unwatch(struct channel *c);
/* Another limit, before channel_watch. */
void channel_limit_frames(struct channel *c, uint64_t frame_bytes_max);

/* Send a request, with fd (or -EBADF) and without attachments. answered is called with the data of
 * the channel. params are stolen; fd is taken, also on failure. */
CLOCHE_MUST_CHECK int channel_request(struct channel *c, const char *method, json_t *params, int fd,
                                      wire_answered answered, struct cloche_err *e);
/* Frames appended here are sent by channel_flush: as much as possible now, the rest from the
 * loop. */
struct buf *channel_out(struct channel *c);
size_t channel_unsent(const struct channel *c);
void channel_flush(struct channel *c);

/* Stop or resume reading; the sender waits meanwhile. */
void channel_pause(struct channel *c, int is_paused);
/* Read all that has arrived. */
void channel_drain(struct channel *c);
void channel_close(struct channel *c);

#endif
