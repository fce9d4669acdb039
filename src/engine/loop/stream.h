/* A guest's output, read from our end of a pipe or terminal, and pipes for a guest's 0, 1, 2. */
#ifndef CLOCHE_ENGINE_LOOP_STREAM_H
#define CLOCHE_ENGINE_LOOP_STREAM_H

#include "watch.h"

#include <cloche/error.h>

#include <errno.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#define STREAM_PIECE_BYTES 65536       /* most of one read */
#define STREAM_TURN_BYTES (256u << 10) /* most of all reads in an iteration of the loop */

/* The streams of a loop take turns, a piece each. All pieces of an iteration are bounded, so that
 * guests who flood do not delay the other events of the loop. */
struct stream_turns {
        uv_loop_t *loop;
        uv_prepare_t prepare;
        size_t left_bytes; /* in this iteration */
        TAILQ_HEAD(ready_streams, stream) ready;
};

void stream_turns_open(struct stream_turns *turns, uv_loop_t *loop);
/* The loop closes the handle in a later iteration. */
void stream_turns_close(struct stream_turns *turns);

struct stream_owner {
        /* Called with each piece; it may hold or close the stream, or free it with its owner,
         * but not while stream_drain reads: that one reads on. */
        void (*take)(void *owner, const char *data, size_t size);
        /* Return true to hold the stream instead of reading a piece. NULL: never full. */
        int (*is_full)(void *owner);
        /* Called when the end was reached and the stream is closed; may be NULL. */
        void (*on_end)(void *owner);
};

struct stream {
        TAILQ_ENTRY(stream) link;
        struct stream_turns *turns;
        const struct stream_owner *calls;
        void *owner;
        int fd;              /* -EBADF: at its end, or closed */
        int is_held;         /* not read: the guest waits when its pipe is full */
        int is_ready;        /* in turns->ready */
        struct watch *watch; /* of fd; NULL: not registered, or closed */
};

/* fd: taken, closed with the stream; may be -EBADF. */
void stream_init(struct stream *s, const struct stream_owner *calls, void *owner, int fd);
/* Read whenever there is something, unless it is held. On failure the descriptor is still there. */
int stream_start(struct stream *s, struct stream_turns *turns, struct cloche_err *e);
void stream_hold(struct stream *s, int hold);
/* Read now the bytes that are there now, even if it is held or full, and no later ones: a guest may
 * write without end. */
void stream_drain(struct stream *s);
/* Read at no event any more, without a system call; stream_drain still reads. */
void stream_ignore(struct stream *s);
/* The same, and take the descriptor from the loop; it stays open. */
void stream_unwatch(struct stream *s);
void stream_close(struct stream *s);

/* Make a pipe; our end is nonblocking. we_read: 1 for output of the guest, 0 for its input. */
int stream_pipe(int *ret_our_fd, int *ret_guest_fd, int we_read, struct cloche_err *e);

struct stdio {
        int guest_fds[3];         /* for the guest; owned until it has them */
        int our_fds[3];           /* our ends, nonblocking */
        struct watch *watches[2]; /* of the guest's 1 and 2, or NULL */
};

#define STDIO_NONE ((struct stdio){{-EBADF, -EBADF, -EBADF}, {-EBADF, -EBADF, -EBADF}, {NULL, NULL}})

int stdio_open(struct stdio *s, struct cloche_err *e);
/* Register our ends of the guest's outputs on the loop, before there is a stream that reads
 * them. */
int stdio_watch(struct stdio *s, uv_loop_t *loop, struct cloche_err *e);
/* Use /dev/null without other ends, for a template. */
int stdio_open_null(struct stdio *s, struct cloche_err *e);
void stdio_close_guest(struct stdio *s);
void stdio_close(struct stdio *s);

#endif
