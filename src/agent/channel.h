/* Frames on the agent's socket, blocking. No byte is read that is not of the frame asked for: forked processes read too. */
#ifndef CLOCHE_AGENT_CHANNEL_H
#define CLOCHE_AGENT_CHANNEL_H

#include "wire/frame.h"

#include <sys/types.h>

struct channel {
        int fd;
        pid_t pid;       /* whose it is */
        dev_t device;    /* these two say that fd is still the socket it was */
        ino_t inode;
        struct frame_reader reader;
        struct channel_shared *shared; /* with forked processes that may ask; NULL: they may not */
};

/* Take descriptor fd away from its low number. 0 or -errno. */
int channel_open(struct channel *c, int fd, int is_shared);
/* The descriptor belongs to somebody else now: forget it. */
void channel_forget(struct channel *c);
void channel_close(struct channel *c);

/* 1: a frame, valid until the next read; 0: the stream has ended; -1: it cannot be followed, e says why. */
int channel_read(struct channel *c, struct frame *ret, struct cloche_err *e);
int channel_has_input(const struct channel *c);
/* Until there is input, or the end of it: 1. 0 when gives_up says so, which is looked at ten times a second and at each signal. */
int channel_await_input(const struct channel *c, int (*gives_up)(void));

/* One frame, whole, whoever else writes; 0, or -1 when nobody reads any more. */
int channel_write(const struct channel *c, const void *data, size_t size);

/* Ids of questions are unique among all processes that share the channel. One asks at a time: between these two calls. 0, and nothing to end, when
 * gives_up (may be NULL) said so before it was this one's turn. */
uint64_t channel_begin_question(struct channel *c, int (*gives_up)(void));
void channel_end_question(struct channel *c);

#endif
