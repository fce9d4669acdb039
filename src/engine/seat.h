/* A seat: a box prepared beneath a template and a child of the template forked into it, waiting for one run; or for a context, which stays, and may be a
 * template itself. */
#ifndef CLOCHE_ENGINE_SEAT_H
#define CLOCHE_ENGINE_SEAT_H

#include "box.h"
#include "channel.h"
#include "place.h"
#include "stream.h"

#include <sys/queue.h>

struct template;
struct mounts;
struct cloche_engine;

/* The box of one life of a template. It lasts as long as anything forked from it: the kernel kills what is beneath. Counted. */
struct trunk {
        unsigned refs;
        struct box box;
        struct trunk *beneath; /* a prefix stands on its base */
        int is_dead; /* its interpreter is gone: no end of a child will be told any more */
        /* Of a context's. */
        struct tally *above, *counted_in; /* boxes above it that are not gone; the one its own box is in; or NULL */
};

/* The box is taken over; NULL: no memory, and it was not. */
struct trunk *trunk_new(struct box *box);
struct trunk *trunk_ref(struct trunk *trunk);
void trunk_unref(struct trunk *trunk); /* accepts NULL */

/* SEAT_MAKING: the keeper owes an answer; SEAT_FURNISHING: the box's init or a mount's server. */
enum seat_state { SEAT_MAKING, SEAT_FURNISHING, SEAT_MADE, SEAT_READY };

struct seat {
        TAILQ_ENTRY(seat) link;
        struct cloche_engine *engine;
        struct template *of; /* not looked at once abandoned; NULL: forked from a context */
        struct trunk *trunk;
        struct trunk *own_trunk; /* of its own box, once somebody asked for it (seat_trunk) */
        struct tally *counted_in; /* as of the trunk */
        enum seat_state state;
        int abandoned; /* while the keeper is asked: nobody wants it any more */
        int is_template;
        int holds_fork;
        uint32_t shared_with; /* the sandbox's box whose files its are, or KEEPER_NO_BOX */
        void (*told)(struct seat *seat, const struct cloche_err *e); /* of a context's, in which nothing is placed, remembered or used again */
        void *owner;
        struct cloche_err fork_error; /* told before the keeper answered */
        struct keeper_box_limits limits;
        struct mounts *mounts; /* of the one run it is for, or NULL */
        struct box box;
        struct channel channel;
        struct stdio stdio;
        /* While its files are placed. */
        struct setup *furniture;
        struct placing placing;
        int is_used; /* a run was in this box before */
        struct keeper_usage before; /* of the run: what the box had used when the child was forked */
        uint32_t fork; /* under this number the template speaks of the child */
};

/* Start making one (mounts: NULL, or a run's, of which a reference is taken); template_seat_ready or template_seat_failed is called later, never from here.
 * shared_with: a sandbox's box, or KEEPER_NO_BOX; not together with mounts. Such a seat is a context's and none of the template's: its maker sets told
 * and owner at once, told is called when it is ready (e NULL) or failed, and whoever was told frees it, at the latest before the template. With is_template
 * others can be forked from it (seat_trunk, seat_branch). */
int seat_new(struct template *of, const struct keeper_box_limits *limits, struct mounts *mounts, uint32_t shared_with, int is_template, struct seat **ret,
             struct cloche_err *e);
/* A seat in the box of a run that has ended, if the box turns out to be as it was; else it fails. box and trunk are taken
 * over, also on failure. */
int seat_renew(struct template *of, const struct keeper_box_limits *limits, struct box *box, struct trunk *trunk, struct seat **ret,
               struct cloche_err *e);
/* What was not taken out of it is dropped. While it is still being made, that happens later. When boxes stand on its own, only what runs in it is killed; it is
 * dropped with the last of them. Accepts NULL. */
void seat_free(struct seat *seat);

/* -- forking a context ---------------------------------------------------------------------------------------- */

#define SEAT_BRANCHES_MAX 256 /* boxes on one context that are not gone; an interpreter that does not reap what was forked from it holds them up */

struct seat_order {
        struct keeper_box_limits limits;
        uint32_t shared_with; /* a sandbox's box, or KEEPER_NO_BOX for files and groups of its own */
        int is_template;      /* can be forked in turn; boxes stand at most 30 deep, of which base, prefix and first context are three */
        int holds_fork;       /* stop when the box is made, to put files into it; seat_fork goes on */
        void (*told)(struct seat *seat, const struct cloche_err *e);
        void *owner;
};

/* The box of a context's ready seat made with is_template, for boxes on it; borrowed from the seat. seat->box is as it was, but the trunk's. NULL: no memory. */
struct trunk *seat_trunk(struct seat *seat, struct cloche_err *e);
/* Start making a box on a context's (a reference to trunk is taken) and have the context forked into it, which must stand in cloche_guest_wait_for by then: its
 * agent has answered `branch` and was asked nothing since. told is called later, never from here: with holds_fork once with state SEAT_MADE, and with SEAT_READY
 * when the context was told to fork. Then the child is asked `enter`: the request waits in the channel for it. Whoever was told of an error or that it is
 * ready frees the seat. */
int seat_branch(struct cloche_engine *engine, struct trunk *trunk, const struct seat_order *order, struct seat **ret, struct cloche_err *e);
/* SEAT_MADE: go on. A failure here is the caller's, not told. */
int seat_fork(struct seat *seat, struct cloche_err *e);
/* The context told `failed` {fork, message} on its channel, and fork is seat->fork: told is called with that error, at once or when the keeper has answered.
 * (`exited` {fork, ...} of a context says that its child has ended, which the end of the seat's own channel has said already; status -1: nobody knows how.) */
void seat_fork_failed(struct seat *seat, const char *message);

#endif
