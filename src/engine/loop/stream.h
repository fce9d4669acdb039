/* Pipes for a guest's 0, 1, 2. */
#ifndef CLOCHE_ENGINE_LOOP_STREAM_H
#define CLOCHE_ENGINE_LOOP_STREAM_H

#include "watch.h"

#include <cloche/error.h>

#include <errno.h>

struct stdio {
        int guest_fds[3];         /* for the guest; owned until it has them */
        int our_fds[3];           /* our ends, nonblocking */
        struct watch *watches[2]; /* of the guest's 1 and 2, or NULL */
};

#define STDIO_NONE ((struct stdio){{-EBADF, -EBADF, -EBADF}, {-EBADF, -EBADF, -EBADF}, {NULL, NULL}})

int stdio_open(struct stdio *s, struct cloche_err *e);
/* Register our ends of the guest's outputs on the loop, before there is a run that reads them. */
int stdio_watch(struct stdio *s, uv_loop_t *loop, struct cloche_err *e);
/* Use /dev/null without other ends, for a template. */
int stdio_open_null(struct stdio *s, struct cloche_err *e);
void stdio_close_guest(struct stdio *s);
void stdio_close(struct stdio *s);

#endif
