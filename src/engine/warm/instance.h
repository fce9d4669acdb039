/* A seat: a pooled instance, which is a box prepared on a template's with a child of the template
 * forked into it, waiting for one run; or the instance of a context, which stays, and can be a
 * template itself. */
#ifndef CLOCHE_ENGINE_WARM_INSTANCE_H
#define CLOCHE_ENGINE_WARM_INSTANCE_H

#include "engine/box/box.h"
#include "engine/box/place.h"
#include "engine/loop/channel.h"
#include "engine/loop/stream.h"

#include <sys/queue.h>

struct template;
struct mounts;
struct cloche_engine;

/* The box of a template, from one start to its end. It lasts as long as any box on it, for the
 * kernel kills those with it. Reference-counted. */
struct trunk {
        unsigned refs;
        struct box box;
        struct trunk *beneath; /* of the base, under a prefix's */
        int is_dead;           /* its interpreter is gone: exits of children are not reported any more */
        /* Only of a context. */
        struct tally *above, *counted_in; /* live boxes on it; the tally that counts its own box; or NULL */
};

/* Takes box; NULL without memory, and box is not taken. */
struct trunk *trunk_new(struct box *box);
struct trunk *trunk_ref(struct trunk *trunk);
void trunk_unref(struct trunk *trunk); /* accepts NULL */

/* SEAT_MAKING: the keeper's answer is missing; SEAT_FURNISHING: that of the box's init, or of a
 * mount's server. */
enum seat_state { SEAT_MAKING, SEAT_FURNISHING, SEAT_MADE, SEAT_READY };

struct seat {
        TAILQ_ENTRY(seat) link;
        struct cloche_engine *engine;
        struct template *of; /* invalid once abandoned; NULL: forked from a context */
        struct trunk *trunk;
        struct trunk *own_trunk;  /* of its own box, after seat_trunk */
        struct tally *counted_in; /* as in the trunk */
        enum seat_state state;
        int abandoned; /* freed by its owner while the keeper's answer is missing */
        int is_template;
        int holds_fork;
        uint32_t shared_with; /* the sandbox's box whose files it uses, or KEEPER_NO_BOX */
        void (*told)(struct seat *seat, const struct cloche_err *e); /* of a context only; never reused */
        void *owner;
        struct cloche_err fork_error; /* came before the keeper's answer */
        struct keeper_box_limits limits;
        struct mounts *mounts; /* of its one run, or NULL */
        struct box box;
        struct channel channel;
        struct stdio stdio;
        /* While its files are placed. */
        struct setup *furniture;
        struct placing placing;
        int is_used;                /* a run was in this box before */
        struct keeper_usage before; /* the box's usage at the fork, to subtract from the run's */
        uint32_t fork;              /* the template's number for the child */
};

/* Start making a seat. mounts: NULL, or those of a run (takes a reference). template_seat_ready or
 * template_seat_failed is called later, never from here. shared_with: a sandbox's box, or
 * KEEPER_NO_BOX; not together with mounts. A seat that shares belongs to a context, not to the
 * template: its maker sets told and owner at once; told is called when the seat is ready (e NULL)
 * or failed, and its receiver frees the seat, at the latest before the template. With is_template
 * the context can be forked (seat_trunk, seat_branch). */
int seat_new(struct template *of, const struct keeper_box_limits *limits, struct mounts *mounts, uint32_t shared_with,
             int is_template, struct seat **ret, struct cloche_err *e);
/* Make a seat in the box of a run that has ended, if the box turns out clean; else the seat fails.
 * Takes box and trunk, also on failure. */
int seat_renew(struct template *of, const struct keeper_box_limits *limits, struct box *box, struct trunk *trunk,
               struct seat **ret, struct cloche_err *e);
/* Drop the seat and the members that were not moved out; later, if it is still being made. If other
 * boxes stand on its own, only its programs are killed, and its box is dropped with the last of
 * them. Accepts NULL. */
void seat_free(struct seat *seat);

/* -- forking a context ---------------------------------------------------------------------------------------- */

#define SEAT_BRANCHES_MAX 256 /* live boxes on one context; they stay until its interpreter reaps them */

struct seat_order {
        struct keeper_box_limits limits;
        uint32_t shared_with; /* a sandbox's box, or KEEPER_NO_BOX for own files and groups */
        int is_template;      /* can be forked; at most 30 boxes deep, base and prefix included */
        int holds_fork;       /* stop at SEAT_MADE, to place files; seat_fork goes on */
        void (*told)(struct seat *seat, const struct cloche_err *e);
        void *owner;
};

/* Return the box of a context's ready seat made with is_template, to stand boxes on; borrowed from
 * the seat. seat->box stays valid, but belongs to the trunk. NULL without memory. */
struct trunk *seat_trunk(struct seat *seat, struct cloche_err *e);
/* Start making a box on a context's (takes a reference to trunk), and fork the context into it. The
 * context must wait in cloche_guest_wait_for by then: its agent has answered `branch` and has got
 * no request since. told is called later, never from here: with holds_fork once in state SEAT_MADE;
 * then in SEAT_READY, when the fork was requested. Then send the child `enter`: the request waits
 * in the channel for it. The receiver of an error, or of SEAT_READY, frees the seat. */
int seat_branch(struct cloche_engine *engine, struct trunk *trunk, const struct seat_order *order, struct seat **ret,
                struct cloche_err *e);
/* Go on from SEAT_MADE. A failure is only returned; told is not called. */
int seat_fork(struct seat *seat, struct cloche_err *e);
/* Call it when the context sends `failed` {fork, message} with seat->fork: told is called with that
 * error, at once or at the keeper's answer. (`exited` {fork, ...} of a context reports the exit of
 * its child, already known from the end of the seat's own channel; status -1: unknown.) */
void seat_fork_failed(struct seat *seat, const char *message);

#endif
