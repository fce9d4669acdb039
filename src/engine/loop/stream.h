/* Pipes for a guest's 0, 1, 2. */
#ifndef CLOCHE_ENGINE_LOOP_STREAM_H
#define CLOCHE_ENGINE_LOOP_STREAM_H

#include <cloche/error.h>

#include <errno.h>

struct stdio {
        int guest_fds[3]; /* for the guest; owned until it has them */
        int our_fds[3];   /* our ends, nonblocking */
};

#define STDIO_NONE ((struct stdio){{-EBADF, -EBADF, -EBADF}, {-EBADF, -EBADF, -EBADF}})

int stdio_open(struct stdio *s, struct cloche_err *e);
/* Use /dev/null without other ends, for a template. */
int stdio_open_null(struct stdio *s, struct cloche_err *e);
void stdio_close_guest(struct stdio *s);
void stdio_close(struct stdio *s);

#endif
