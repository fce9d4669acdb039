/* Frames to and from a stream socket, without waiting: the half that server.h and client.h share.
 * Frames to send are appended to wire_transport_out(), and wire_transport_flush() sends them. */
#ifndef CLOCHE_WIRE_TRANSPORT_H
#define CLOCHE_WIRE_TRANSPORT_H

#include "rpc.h"

#include <sys/types.h>

#define WIRE_FDS_MAX 4

struct wire_transport {
        int socket_fd; /* borrowed; -EBADF: closed */
        struct frame_reader in;
        struct buf out; /* its first `sent` bytes were sent */
        size_t sent;
        struct {
                size_t at; /* offset in out of the first byte of its message */
                int fd;
        } leaving[WIRE_FDS_MAX];
        unsigned leaving_count;
};

/* Read from the socket without waiting: the number of bytes, 0 at the end of the stream, or
 * -errno. */
typedef ssize_t (*wire_read)(void *data, char *to, size_t room);

/* in_max: bytes of a received frame; out_max: bytes of unsent frames. */
void wire_transport_init(struct wire_transport *t, int socket_fd, size_t in_max, size_t out_max);
void wire_transport_done(struct wire_transport *t);

/* The buffer to append frames to, with as much room as possible. */
struct buf *wire_transport_out(struct wire_transport *t);
size_t wire_transport_unsent(const struct wire_transport *t);
/* Send fd with the byte of wire_transport_out() at this offset, which may be its end: the next
 * frame takes it along then. Takes fd, also on failure. -EBUSY: WIRE_FDS_MAX descriptors are
 * unsent, or this frame has one. */
CLOCHE_MUST_CHECK int wire_transport_attach(struct wire_transport *t, size_t at, int fd);
/* Close a descriptor that was attached to a frame that could not be appended. */
void wire_transport_detach(struct wire_transport *t);
/* Send as much as possible; 0, or -errno: nothing more can be sent. */
CLOCHE_MUST_CHECK int wire_transport_flush(struct wire_transport *t);
/* Drop what is unsent. */
void wire_transport_drop(struct wire_transport *t);

/* Read once. Returns the number of bytes, which is *ret_room if there may be more; -EAGAIN;
 * 0 at the end of the stream; or another -errno, -ENOMEM without memory. */
ssize_t wire_transport_receive(struct wire_transport *t, wire_read read, void *data, size_t *ret_room);
/* 1: *f and *m are the next message, to be freed with rpc_message_done(); the views in *f are valid
 * until the next call on t. 0: more bytes are needed. Negative: the stream is invalid. Memory that
 * only a large frame needed is freed once all messages were taken. */
CLOCHE_MUST_CHECK int wire_transport_next(struct wire_transport *t, struct frame *f, struct rpc_message *m,
                                          struct cloche_err *e);

#endif
