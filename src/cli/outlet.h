/* Output on its way to our own standard output and error, in its order, for a loop that must not be held up by whoever reads them. */
#ifndef CLOCHE_CLI_OUTLET_H
#define CLOCHE_CLI_OUTLET_H

#include <stddef.h>
#include <sys/queue.h>

struct outlet_piece;
struct outlet {
        STAILQ_HEAD(outlet_pieces, outlet_piece) pieces;
        size_t waiting_bytes;
        char last;  /* that was put on standard output */
        int failed; /* errno: nobody takes anything any more, and what is put is dropped */
};

void outlet_begin(struct outlet *o);
void outlet_done(struct outlet *o);
/* data is copied. 0 or -ENOMEM. */
int outlet_put(struct outlet *o, int fd, const void *data, size_t size);
/* Of whom POLLOUT is to be waited for; -1: nothing waits. */
int outlet_fd(const struct outlet *o);
/* Once it may be written to: so much at once as does not block. 0, or -errno the first time that it fails. */
int outlet_write(struct outlet *o);

#endif
