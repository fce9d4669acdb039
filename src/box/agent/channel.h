/* Frames on the agent's socket, blocking. It never reads beyond the current frame: forked processes
 * read too. */
#ifndef CLOCHE_BOX_AGENT_CHANNEL_H
#define CLOCHE_BOX_AGENT_CHANNEL_H

#include "wire/frame.h"

#include <sys/types.h>

struct agent_channel {
        int fd;
        pid_t pid;    /* its owner */
        dev_t device; /* these two prove that fd is still the same socket */
        ino_t inode;
        struct frame_reader reader;
        struct agent_channel_shared *shared; /* with forked processes that may send requests; NULL: they may not */
};

/* Move descriptor fd away from its low number. Returns 0 or -errno. */
int agent_channel_open(struct agent_channel *c, int fd, int is_shared);
/* In a forked child that waits for its first request: copy the memory that it will be read into
 * now. */
void agent_channel_get_ready(struct agent_channel *c);
/* The descriptor has another owner now: forget it. */
void agent_channel_detach(struct agent_channel *c);
void agent_channel_close(struct agent_channel *c);

/* Returns 1: a frame, valid until the next read; 0: the stream has ended; -1: the stream is
 * invalid, e has the reason. */
int agent_channel_read(struct agent_channel *c, struct frame *ret, struct cloche_err *e);
int agent_channel_has_input(const struct agent_channel *c);
/* Wait for input or its end: 1. Returns 0 if gives_up, which is called ten times a second and at
 * each signal, returns true. */
int agent_channel_await_input(const struct agent_channel *c, int (*gives_up)(void));

/* Write one frame as a whole, even if other processes write. Returns 0, or -1 if the peer has
 * closed. */
int agent_channel_write(const struct agent_channel *c, const void *data, size_t size);

/* Ids of requests are unique among all processes that share the channel. Only one process at a time
 * may be between these two calls. Returns 0, and nothing to end, if gives_up (may be NULL) returned
 * true while waiting for the turn. */
uint64_t agent_channel_begin_request(struct agent_channel *c, int (*gives_up)(void));
void agent_channel_end_request(struct agent_channel *c);

#endif
