/* A queue of output to our standard output and error, in order, so that a slow reader does not
 * block the loop. */
#ifndef CLOCHE_CLI_OUTPUT_OUTPUT_QUEUE_H
#define CLOCHE_CLI_OUTPUT_OUTPUT_QUEUE_H

#include <stddef.h>
#include <sys/queue.h>

struct output_piece;
struct output_queue {
        STAILQ_HEAD(output_pieces, output_piece) pieces;
        size_t waiting_bytes;
        char last;  /* last byte queued for standard output */
        int failed; /* errno: the reader has gone, and further data is dropped */
};

void output_queue_init(struct output_queue *o);
void output_queue_done(struct output_queue *o);
/* data is copied. 0 or -ENOMEM. */
int output_queue_put(struct output_queue *o, int fd, const void *data, size_t size);
/* The descriptor to poll for POLLOUT; -1: the queue is empty. */
int output_queue_fd(const struct output_queue *o);
/* Call when writable: writes as much as does not block. 0, or -errno at the first failure. */
int output_queue_write(struct output_queue *o);

#endif
