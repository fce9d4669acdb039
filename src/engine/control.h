/* The control socket of a box's PID 1 (keeper/init-protocol.h), asked without waiting: answers come in order, ends of programs between them. */
#ifndef CLOCHE_ENGINE_CONTROL_H
#define CLOCHE_ENGINE_CONTROL_H

#include "keeper/init-protocol.h"

#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

struct control;

/* e: NULL, or why not (then answer is NULL and fd -EBADF). fd: owned by the callback, -EBADF when none came; to
 * close a socket it takes peer_discard_one, for it may be any. */
typedef void (*control_done)(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e);

struct control_kind {
        const char *name;      /* of whose init it is, for errors */
        enum cloche_code gone; /* the code of what was asked of one that is gone */
        uint64_t patience_ms;  /* for one answer: an init that is stopped, or whose box is out of memory, does not answer */
        int outlives_silence;  /* after that, requests fail and the rest goes on: there is more in the box than in their answers. Else it is given up */
};
extern const struct control_kind control_of_box, control_of_sandbox, control_of_context;

/* Whether size bytes at answer (or 0 or -errno instead of them, of a receive) are an answer. PID 1 runs beside hostile code: each of its packets is checked here. */
CLOCHE_MUST_CHECK int control_check(const struct control_kind *kind, struct init_answer *answer, ssize_t size, struct cloche_err *e);

struct control_question; /* opaque */
struct control {
        const struct control_kind *kind;
        int fd; /* owned; -EBADF: gone */
        int is_copy; /* others go on with the same socket; set before it is opened */
        uv_poll_t *poll;
        uv_timer_t *timer;
        unsigned round; /* counts how often its patience was at an end */
        STAILQ_HEAD(control_unsent, control_question) unsent;
        STAILQ_HEAD(control_asked, control_question) asked;
        int *is_gone; /* set when it is closed from a callback of its own, for it may be freed then; or NULL */
        /* Each may be NULL. */
        void (*on_exit)(void *data, const struct init_answer *exit); /* a program started by INIT_SPAWN ended */
        void (*on_end)(void *data, const struct cloche_err *e);      /* PID 1 is gone, or did not answer in time; open questions were answered with that error */
        void *data;
};

/* c is all 0; it is not open yet. */
void control_init(struct control *c, const struct control_kind *kind);
/* Takes fd, also on failure. Callbacks are set before. */
CLOCHE_MUST_CHECK int control_open(struct control *c, int fd, uv_loop_t *loop, struct cloche_err *e);
/* One on the heap, open, without callbacks; NULL on failure. Takes fd, also then. */
struct control *control_new(const struct control_kind *kind, int fd, uv_loop_t *loop, struct cloche_err *e);
/* request is copied; fds are duplicated. done may be called only later. data's owner takes it back with control_forget. */
CLOCHE_MUST_CHECK int control_ask(struct control *c, const struct init_request *request, const int *fds, size_t fd_count,
                                  control_done done, void *data, struct cloche_err *e);
/* The same with the request's path. CLOCHE_E_INVALID_ARGUMENT: it is too long. */
CLOCHE_MUST_CHECK int control_ask_path(struct control *c, struct init_request *request, const char *path, const int *fds, size_t fd_count,
                                       control_done done, void *data, struct cloche_err *e);
/* INIT_SPAWN. strings: cwd, argc arguments, envc environment entries, each terminated; fds as there, but without them. */
CLOCHE_MUST_CHECK int control_spawn(struct control *c, const struct init_request *request, const char *strings, size_t size, const int *fds,
                                    size_t fd_count, control_done done, void *data, struct cloche_err *e);
/* Answers to questions with this data are dropped; descriptors in them are closed. */
void control_forget(struct control *c, const void *data);
/* Open questions are answered with an error. */
void control_close(struct control *c);
/* One of control_new; open questions are forgotten. Accepts NULL. */
void control_free(struct control *c);
/* The same, but the socket is given back, blocking; -EBADF: it is gone. */
int control_free_but_fd(struct control *c);

#endif
