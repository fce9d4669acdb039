/* The five sockets of a kernel, by libzmq. */
#ifndef CLOCHE_JUPYTER_KERNEL_SOCKETS_H
#define CLOCHE_JUPYTER_KERNEL_SOCKETS_H

#include "connection.h"
#include "frames.h"

#include <sys/queue.h>

struct outgoing;
struct sockets {
        void *context;
        void *of[PORT_COUNT];
        TAILQ_HEAD(outgoing_list, outgoing) waiting; /* on iopub, for a client that is behind */
        size_t waiting_bytes;
};

/* Threads are started; the sockets listen once sockets_bind() was called. */
CLOCHE_MUST_CHECK int sockets_open(struct sockets *s, const struct connection *c, struct cloche_err *e);
CLOCHE_MUST_CHECK int sockets_bind(struct sockets *s, const struct connection *c, struct cloche_err *e);
/* Messages that were sent have a second to arrive. */
void sockets_close(struct sockets *s);

/* The parts of a message that came, valid until the next call: their number. 0: there is none.
 * Parts beyond FRAMES_MAX are dropped, and count is FRAMES_MAX + 1. */
struct received;
struct received *received_new(void);
void received_free(struct received *r);
size_t sockets_receive(struct sockets *s, enum connection_port port, struct received *r,
                       const struct frames_part **ret);

/* Send, with the parts in order. On iopub nothing is lost that a client takes in time. */
void sockets_send(struct sockets *s, enum connection_port port, const struct frames_part *parts, size_t count);
void sockets_flush(struct sockets *s);
void sockets_echo(struct sockets *s);

#endif
