/* A request whose answer waits for another process. That process has a deadline, and other requests
 * are served meanwhile. */
#ifndef CLOCHE_KEEPER_PENDING_H
#define CLOCHE_KEEPER_PENDING_H

#include "proto/keeper.h"

#include <sys/queue.h>

struct keeper_state;
struct pollfd;

/* A thousand times the slowest step on a quiet host; docs/decisions/0017 lists the code that may
 * stop it. */
#define PENDING_TIMEOUT_NS UINT64_C(10000000000)
#define PENDING_MAX (KEEPER_BOXES_MAX + KEEPER_SYNCS_MAX + KEEPER_IMAGE_PROGRAMS_MAX + KEEPER_VOLUMES_MAX)

struct pending;

struct pending_kind {
        const char *what; /* "make the box", for the error of one that takes too long */
        /* fd is readable, or its other end is closed. 1: done, with up to two descriptors for the
         * answer, owned by the caller; 0: wait on, perhaps for another fd; or an error. */
        int (*advance)(struct keeper_state *keeper, struct pending *p, int ret_fds[2], struct cloche_err *e);
        /* After an error of advance, or instead of it at the deadline or when the box was dropped:
         * kill the process at work, and undo. */
        void (*cancel)(struct keeper_state *keeper, struct pending *p, int is_late);
};

/* The first member of each kind's own struct. Allocated by its maker; freed after the answer. */
struct pending {
        LIST_ENTRY(pending) link;
        const struct pending_kind *kind;
        uint32_t op, serial, box; /* of the request; box: KEEPER_NO_BOX for a sync */
        int fd;                   /* owned */
        uint64_t deadline_ns;
        struct keeper_volume_usage volume; /* for the answer */
};

LIST_HEAD(pending_list, pending);

/* Add a request to the list, which owns it from here on. */
void pending_begin(struct keeper_state *keeper, struct pending *p);
/* Fill rows for poll(2), at most PENDING_MAX; returns the number. */
size_t pending_fill(const struct keeper_state *keeper, struct pollfd *polled);
/* Advance requests, and answer the finished ones. polled: the rows of pending_fill; no request may
 * have begun or ended since. Returns 0, or -errno: the engine is gone. */
int pending_serve(struct keeper_state *keeper, const struct pollfd *polled, size_t count);
/* Milliseconds until the next deadline; -1: there is none. */
int pending_timeout_ms(const struct keeper_state *keeper);
/* Fail the pending requests of a box that is dropped. */
int pending_cancel(struct keeper_state *keeper, uint32_t box);
/* End all requests without answers. */
void pending_end(struct keeper_state *keeper);

#endif
