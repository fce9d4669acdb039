/* The engine's side of the keeper: start it, send requests. One thread. A request is sent, or
 * queued while the keeper accepts no more; it never blocks. keeper_receive receives the answers and
 * calls their functions. */
#ifndef CLOCHE_ENGINE_BOX_KEEPER_CLIENT_H
#define CLOCHE_ENGINE_BOX_KEEPER_CLIENT_H

#include "proto/keeper.h"

#include <stddef.h>
#include <sys/types.h>

#define KEEPER_ANSWER_FDS 3
/* Boxes that are made at the same time: more full-size requests would fill the keeper's socket,
 * while it fills ours. */
#define KEEPER_MAKING_MAX 8
/* A box that takes longer is not counted: the keeper has read its request, and serves others while
 * it waits for a process, perhaps code of a template. */
#define KEEPER_STUCK_NS UINT64_C(1000000000)

struct keeper; /* opaque */

/* An answer, valid until the next call. error: NULL, or the reason of the failure. fds: take out
 * those to keep (TAKE_FD), the rest is closed. */
struct keeper_reply {
        const struct keeper_answer *answer;
        const struct cloche_err *error;
        int *fds;
        size_t fd_count;
};
/* NULL if the result does not matter. */
typedef void (*keeper_done)(void *data, struct keeper_reply *reply);

/* A box from the keeper; descriptors owned. */
struct keeper_box {
        uint32_t id;
        int pidfd;      /* readable when the box is dead */
        int control_fd; /* seqpacket to its PID 1, see proto/init.h */
        int fork_fd;    /* of a template: to become its descriptor 4; else -EBADF */
};

struct keeper_options {
        const char *const *roots; /* directories of the host beneath which KEEPER_SERVE may work, absolute; borrowed */
        size_t root_count;
        const char *image, *trees, *runtimes; /* the image of boxes that name none; the directories of images they may
                                                 name and of their runtimes: absolute, NULL for none; borrowed */
        const char *volumes;                  /* the directory of volumes, likewise */
        int core_scheduling;                  /* enable the guard of this name */
        int images_are_written;               /* KEEPER_SERVICE_IMAGES may change the store */
};

/* Start libexec_dir/cloche-keeper with libexec_dir/cloche-box-init, and exchange the greeting. If
 * this process ends for any reason, the keeper kills every box and exits. */
CLOCHE_MUST_CHECK int keeper_start(const char *libexec_dir, const struct keeper_options *opt, struct keeper **ret,
                                   struct cloche_err *e);
/* Wait until all boxes are gone, but neither for a keeper that was given up nor for ever. Open
 * requests fail. Accepts NULL. */
void keeper_stop(struct keeper *k);

/* The keeper does not answer: pending requests fail with this reason, and so does every later one.
 * Its boxes live until keeper_stop. */
void keeper_give_up(struct keeper *k, const char *why);

/* Send no more replies to this receiver (`data`), which is about to be freed. A box that is being
 * made for it lasts as long as the keeper. Returns the number of replies that will not come. */
unsigned keeper_detach(struct keeper *k, const void *data);

/* True if writable roots can lie in memory: tmpfs has user attributes (Linux 6.6). */
int keeper_memory_has_attributes(const struct keeper *k);
const struct keeper_guard *keeper_guard(const struct keeper *k, enum cloche_guard guard);

pid_t keeper_pid(const struct keeper *k);

/* The groups of its boxes, for cgroup_read_usage: on most hosts every user may read them. */
const struct cgroup_host *keeper_groups(const struct keeper *k);

/* The descriptor to poll for reading; then call keeper_receive. */
int keeper_fd(const struct keeper *k);
/* Receive one answer if there is one, and deliver it. Returns 1, 0 if there is none, or negative:
 * the keeper is gone, and all pending requests have failed. */
CLOCHE_MUST_CHECK int keeper_receive(struct keeper *k, struct cloche_err *e);

/* For a caller that serves nothing else: it can wait for a request that it sent with
 * keeper_on_waited and a struct keeper_wait, all 0. Answers to others are delivered meanwhile. */
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

/* Does nothing but reply. */
CLOCHE_MUST_CHECK int keeper_ping_async(struct keeper *k, keeper_done done, void *data, struct cloche_err *e);
CLOCHE_MUST_CHECK int keeper_box_make_async(struct keeper *k, const struct keeper_box_spec *spec, keeper_done done,
                                            void *data, struct cloche_err *e);
/* True if fewer boxes are being made than the keeper accepts; else a request for one is queued. */
int keeper_may_make(const struct keeper *k);
/* Called when a request is queued: the socket is full, or too many boxes are being made. Then call
 * keeper_send_held, and again after the milliseconds that it returns, until that is -1. */
void keeper_on_held(struct keeper *k, void (*on_held)(void *data), void *data);
int keeper_send_held(struct keeper *k);
/* Take the box of an answer, with its descriptors. */
CLOCHE_MUST_CHECK int keeper_box_take(uint32_t box, int *fds, size_t fd_count, struct keeper_box *ret,
                                      struct cloche_err *e);
/* Request that the template above the box forks into it. fds: 0, 1, 2, the channel, and for a
 * template its fork socket; borrowed. ret_fork: the template's number for that child. */
CLOCHE_MUST_CHECK int keeper_box_fork_async(struct keeper *k, uint32_t box, const int *fds, size_t fd_count,
                                            keeper_done done, void *data, uint32_t *ret_fork, struct cloche_err *e);
/* fds: see enum keeper_service; borrowed. box: KEEPER_NO_BOX for a sync. */
CLOCHE_MUST_CHECK int keeper_serve_async(struct keeper *k, uint32_t box, const struct keeper_service_spec *spec,
                                         const int *fds, size_t fd_count, keeper_done done, void *data,
                                         struct cloche_err *e);
/* Make, open, close or remove a volume. */
CLOCHE_MUST_CHECK int keeper_volume_async(struct keeper *k, const struct keeper_volume_spec *spec, keeper_done done,
                                          void *data, struct cloche_err *e);
/* Set memory_bytes, pids and cpu_percent of limits; 0 keeps a limit, UINT64_MAX removes it.
 * CLOCHE_E_INVALID_ARGUMENT: the box uses more memory than that; nothing was changed. */
CLOCHE_MUST_CHECK int keeper_box_limit_async(struct keeper *k, uint32_t box, const struct keeper_box_limits *limits,
                                             keeper_done done, void *data, struct cloche_err *e);
CLOCHE_MUST_CHECK int keeper_box_usage_async(struct keeper *k, uint32_t box, keeper_done done, void *data,
                                             struct cloche_err *e);
/* is_frozen 1: freeze it, as far as that is possible at once (is_frozen of the answer); 0: thaw
 * it. */
CLOCHE_MUST_CHECK int keeper_box_freeze_async(struct keeper *k, uint32_t box, int is_frozen, keeper_done done,
                                              void *data, struct cloche_err *e);
/* Kill all processes of the box, remove it, free its id. */
CLOCHE_MUST_CHECK int keeper_box_drop_async(struct keeper *k, uint32_t box, keeper_done done, void *data,
                                            struct cloche_err *e);

#endif
