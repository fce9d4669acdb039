/* The control socket of a sandbox's PID 1 (keeper/init-protocol.h), asked without waiting: answers come in order, ends of programs between them. */
#ifndef CLOCHE_SANDBOX_CONTROL_H
#define CLOCHE_SANDBOX_CONTROL_H

#include "keeper/init-protocol.h"

#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

struct control;

/* e: NULL, or why not (then answer is NULL and fd -EBADF). fd: owned by the hearer, -EBADF when none came. */
typedef void (*control_done)(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e);

struct control_question; /* opaque */
struct control {
        int fd; /* owned; -EBADF: gone */
        uv_poll_t *poll;
        STAILQ_HEAD(control_unsent, control_question) unsent;
        STAILQ_HEAD(control_asked, control_question) asked;
        void (*on_exit)(void *data, const struct init_answer *exit); /* a program started by INIT_SPAWN ended */
        void (*on_end)(void *data, const struct cloche_err *e);      /* PID 1 is gone; everybody who waited was told */
        void *data;
};

/* Takes fd, also on failure. Callbacks are set before. */
CLOCHE_MUST_CHECK int control_open(struct control *c, int fd, uv_loop_t *loop, struct cloche_err *e);
/* request is copied; fds are duplicated. done may be called only later. data's owner takes it back with control_forget. */
CLOCHE_MUST_CHECK int control_ask(struct control *c, const struct init_request *request, const int *fds, size_t fd_count,
                                  control_done done, void *data, struct cloche_err *e);
/* Nobody hears the answers to what was asked with data; descriptors in them are closed. */
void control_forget(struct control *c, const void *data);
/* Those who wait are told. */
void control_close(struct control *c);

#endif
