/* A long operation: progress to the client, and its end when the client cancels. */
#ifndef CLOCHE_HELPERS_IMAGE_WORK_H
#define CLOCHE_HELPERS_IMAGE_WORK_H

#include "wire/server.h"

struct linker;

struct work {
        struct server *server;
        struct linker *linker;       /* NULL: of a reader, which links nothing */
        uint64_t polled_ns, sent_ns; /* the socket was polled last, a notification was sent last */
};

/* Report that `done` bytes or entries of the phase are done; total 0: unknown. It may be called for
 * each piece: the socket is polled every 50 ms and a notification sent every 200 ms.
 * -CLOCHE_E_CANCELLED. */
CLOCHE_MUST_CHECK int work_go_on(struct work *work, const char *phase, uint64_t done, uint64_t total,
                                 struct cloche_err *e);
int work_no_memory(struct cloche_err *e);

#endif
