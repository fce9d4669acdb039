/* The engine's side of the keeper: start it, ask it. One thread. A request is sent, or held back while the keeper takes no more, and never waits; the answer goes
 * to a function when keeper_hear meets it. */
#ifndef CLOCHE_KEEPER_CLIENT_H
#define CLOCHE_KEEPER_CLIENT_H

#include "protocol.h"

#include <stddef.h>
#include <sys/types.h>

#define KEEPER_ANSWER_FDS 3
/* Boxes that are made at once: more whole requests would fill the keeper's socket, while it fills ours. */
#define KEEPER_MAKING_MAX 8
/* A box that takes longer is not counted: the keeper has read its request, and waits for a process, code of a template perhaps, while it serves others. */
#define KEEPER_STUCK_NS UINT64_C(1000000000)

struct keeper; /* opaque */

/* What came back, valid until the next call. error: NULL, or why not. fds: those that are kept are taken out (TAKE_FD), the rest is closed. */
struct keeper_reply {
        const struct keeper_answer *answer;
        const struct cloche_err *error;
        int *fds;
        size_t fd_count;
};
/* NULL where nobody wants to know. */
typedef void (*keeper_done)(void *data, struct keeper_reply *reply);

/* A box from the keeper; descriptors owned. */
struct keeper_box {
        uint32_t id;
        int pidfd;      /* readable when the box is dead */
        int control_fd; /* seqpacket to its PID 1, see init-protocol.h */
        int fork_fd;    /* a template's: to be its descriptor 4; else -EBADF */
};

struct keeper_options {
        const char *const *roots; /* directories of the host beneath which KEEPER_SERVE may work, absolute; borrowed */
        size_t root_count;
        const char *image, *runtimes; /* the only image of boxes, and the directory of their runtimes: absolute, NULL for none; borrowed */
        int core_scheduling; /* wanted: the guard of this name */
};

/* Start libexec_dir/cloche-keeper with libexec_dir/cloche-box-init and say hello.
 * The keeper ends, and kills every box, when this process ends for whatever reason. */
CLOCHE_MUST_CHECK int keeper_start(const char *libexec_dir, const struct keeper_options *opt, struct keeper **ret, struct cloche_err *e);
/* Waits until all boxes are gone, but not for one that was given up, nor for ever; open requests get an error. Accepts NULL. */
void keeper_stop(struct keeper *k);

/* It does not answer: those who wait are told why, and every request from now on fails. Its boxes live until keeper_stop. */
void keeper_give_up(struct keeper *k, const char *why);

/* This receiver (`data`) gets no reply any more: it is about to be freed. A box that is being made for it lasts as long as the keeper.
 * Returns the number of replies that will not come. */
unsigned keeper_detach(struct keeper *k, const void *data);

const struct keeper_guard *keeper_guard(const struct keeper *k, enum cloche_guard guard);

pid_t keeper_pid(const struct keeper *k);

/* The groups of its boxes, for cgroup_read_usage: on most hosts everybody may read them. */
const struct cgroup_host *keeper_groups(const struct keeper *k);

/* To be polled for reading: then keeper_hear. */
int keeper_fd(const struct keeper *k);
/* Take one answer that is there, and hand it over. 1, 0 when there is none, or negative: the keeper is gone, and everybody who waited was told. */
CLOCHE_MUST_CHECK int keeper_hear(struct keeper *k, struct cloche_err *e);

/* For whoever serves nobody else: a request with keeper_on_waited and a struct keeper_wait, all 0, can be waited for. Answers to others are handed over meanwhile. */
struct keeper_wait {
        int is_answered;
        struct cloche_err error;
        uint32_t box;
        struct keeper_usage usage;
        int fds[KEEPER_ANSWER_FDS]; /* owned by the caller */
        size_t fd_count;
};
void keeper_on_waited(void *data, struct keeper_reply *reply);
CLOCHE_MUST_CHECK int keeper_wait(struct keeper *k, const struct keeper_wait *w, struct cloche_err *e);

/* Only answered. */
CLOCHE_MUST_CHECK int keeper_ping_later(struct keeper *k, keeper_done done, void *data, struct cloche_err *e);
CLOCHE_MUST_CHECK int keeper_box_make_later(struct keeper *k, const struct keeper_box_spec *spec, keeper_done done, void *data,
                                            struct cloche_err *e);
/* Fewer boxes are being made than the keeper takes orders for; else a request for one is held back for a while. */
int keeper_may_make(const struct keeper *k);
/* Called when a request is held back. Boxes that take long give their room to others, and a socket may be full: so keeper_send_held has to be called then, and again
 * after the milliseconds that it returns, until that is -1. */
void keeper_on_held(struct keeper *k, void (*on_held)(void *data), void *data);
int keeper_send_held(struct keeper *k);
/* The box in an answer; takes the descriptors. */
CLOCHE_MUST_CHECK int keeper_box_take(uint32_t box, int *fds, size_t fd_count, struct keeper_box *ret, struct cloche_err *e);
/* Have the template above the box fork into it. fds: 0, 1, 2, the channel, and for a template its fork socket; borrowed.
 * ret_fork: the number under which the template will speak of that child. */
CLOCHE_MUST_CHECK int keeper_box_fork_later(struct keeper *k, uint32_t box, const int *fds, size_t fd_count, keeper_done done,
                                            void *data, uint32_t *ret_fork, struct cloche_err *e);
/* fds: as enum keeper_service says; borrowed. box: KEEPER_NO_BOX for a sync. */
CLOCHE_MUST_CHECK int keeper_serve_later(struct keeper *k, uint32_t box, const struct keeper_service_spec *spec, const int *fds, size_t fd_count,
                                         keeper_done done, void *data, struct cloche_err *e);
/* Of limits memory_bytes, pids and cpu_percent are set; 0: as it is, UINT64_MAX: none.
 * CLOCHE_E_INVALID_ARGUMENT: the box uses more memory than that; nothing was changed. */
CLOCHE_MUST_CHECK int keeper_box_limit_later(struct keeper *k, uint32_t box, const struct keeper_box_limits *limits, keeper_done done, void *data,
                                             struct cloche_err *e);
CLOCHE_MUST_CHECK int keeper_box_usage_later(struct keeper *k, uint32_t box, keeper_done done, void *data, struct cloche_err *e);
CLOCHE_MUST_CHECK int keeper_box_freeze_later(struct keeper *k, uint32_t box, keeper_done done, void *data, struct cloche_err *e);
CLOCHE_MUST_CHECK int keeper_box_thaw_later(struct keeper *k, uint32_t box, keeper_done done, void *data, struct cloche_err *e);
/* Kill everything in the box, remove it, free its id. */
CLOCHE_MUST_CHECK int keeper_box_drop_later(struct keeper *k, uint32_t box, keeper_done done, void *data, struct cloche_err *e);

#endif
