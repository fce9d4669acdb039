/* A queue of output to our standard output and error, in order, so that a slow reader does not
 * block the loop. */
#ifndef CLOCHE_CLI_OUTPUT_OUTPUT_QUEUE_H
#define CLOCHE_CLI_OUTPUT_OUTPUT_QUEUE_H

#include <stddef.h>
#include <sys/queue.h>

struct outlet_piece;
struct outlet {
        STAILQ_HEAD(outlet_pieces, outlet_piece) pieces;
        size_t waiting_bytes;
        char last;  /* last byte queued for standard output */
        int failed; /* errno: the reader has gone, and further data is dropped */
};

void outlet_begin(struct outlet *o);
void outlet_done(struct outlet *o);
/* data is copied. 0 or -ENOMEM. */
int outlet_put(struct outlet *o, int fd, const void *data, size_t size);
/* The descriptor to poll for POLLOUT; -1: the queue is empty. */
int outlet_fd(const struct outlet *o);
/* Call when writable: writes as much as does not block. 0, or -errno at the first failure. */
int outlet_write(struct outlet *o);

#endif
