/* The control socket of a box's PID 1 (proto/init.h), without waiting. Answers come in
 * the order of the requests, exits of programs between them. */
#ifndef CLOCHE_ENGINE_LOOP_CONTROL_H
#define CLOCHE_ENGINE_LOOP_CONTROL_H

#include "proto/init.h"
#include "watch.h"

#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

struct control;

/* e: NULL, or the error (then answer is NULL and fd -EBADF). fd: owned by the callback, -EBADF if
 * none came. It can be any kind of descriptor; close a socket with peer_discard_one. */
typedef void (*control_done)(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e);

struct control_kind {
        const char *name;            /* the owner of this init, for errors */
        enum cloche_code ended_code; /* error code of a request whose init is gone */
        uint64_t patience_ms;        /* timeout of one answer: init may be stopped, or its box out of memory */
        int outlives_silence;        /* a timeout fails late requests only; else it closes the socket */
};
extern const struct control_kind control_of_box, control_of_sandbox, control_of_context;

struct control_pending; /* opaque */
struct control {
        const struct control_kind *kind;
        int fd;      /* owned; -EBADF: closed */
        int is_held; /* control_hold */
        int is_copy; /* others keep using this socket; set it before control_open */
        struct watch *watch;
        uv_timer_t *timer;
        unsigned round; /* counts timeouts */
        STAILQ_HEAD(control_unsent, control_pending) unsent;
        STAILQ_HEAD(control_sent, control_pending) sent;
        int *was_closed; /* set if a callback of its own closes it, and perhaps frees it; or NULL */
        /* Each may be NULL. */
        void (*on_exit)(void *data, const struct init_answer *exit); /* an INIT_SPAWN program exited */
        void (*on_end)(void *data, const struct cloche_err *e);      /* PID 1 is gone or timed out */
        void *data;
};

/* Set up c, which must be zeroed, without a socket. */
void control_init(struct control *c, const struct control_kind *kind);
/* Takes fd, also on failure. Set the callbacks before. */
CLOCHE_MUST_CHECK int control_open(struct control *c, int fd, uv_loop_t *loop, struct cloche_err *e);
/* Allocate and open one, without callbacks; NULL on failure. Takes fd, also on failure. */
struct control *control_new(const struct control_kind *kind, int fd, uv_loop_t *loop, struct cloche_err *e);
/* Send a request, which is copied; fds are duplicated. done is never called from here. The owner of
 * data drops its callbacks with control_detach. */
CLOCHE_MUST_CHECK int control_request(struct control *c, const struct init_request *request, const int *fds,
                                      size_t fd_count, control_done done, void *data, struct cloche_err *e);
/* Send a request with a path. CLOCHE_E_INVALID_ARGUMENT: the path is too long. */
CLOCHE_MUST_CHECK int control_request_path(struct control *c, struct init_request *request, const char *path,
                                           const int *fds, size_t fd_count, control_done done, void *data,
                                           struct cloche_err *e);
/* INIT_SPAWN. strings: cwd, argc arguments, envc environment entries, each terminated. fds as in
 * proto/init.h, without the descriptor of the strings. */
CLOCHE_MUST_CHECK int control_spawn(struct control *c, const struct init_request *request, const char *strings,
                                    size_t size, const int *fds, size_t fd_count, control_done done, void *data,
                                    struct cloche_err *e);
/* Its box is frozen, or no longer: while it is, no answer is late. */
void control_hold(struct control *c, int is_held);
/* Drop the callbacks of requests with this data; descriptors in their answers are closed. */
void control_detach(struct control *c, const void *data);
/* Close the socket. Open requests get an error. */
void control_close(struct control *c);
/* Free the result of control_new; callbacks of open requests are dropped. Accepts NULL. */
void control_free(struct control *c);
/* Likewise, but return the socket, blocking; -EBADF if it is closed. */
int control_free_but_fd(struct control *c);

#endif
