/* A seat: a box prepared beneath a template and a child of the template forked into it, waiting for one run. */
#ifndef CLOCHE_ENGINE_SEAT_H
#define CLOCHE_ENGINE_SEAT_H

#include "box.h"
#include "channel.h"
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
};

struct trunk *trunk_ref(struct trunk *trunk);
void trunk_unref(struct trunk *trunk); /* accepts NULL */

enum seat_state { SEAT_MAKING, SEAT_MARKING, SEAT_ENTERING, SEAT_RENEWING, SEAT_READY };

struct seat {
        TAILQ_ENTRY(seat) link;
        struct template *of; /* not looked at once abandoned */
        struct trunk *trunk;
        enum seat_state state;
        int abandoned; /* while it is made: nobody wants it any more */
        int is_template;
        uint32_t shared_with; /* the sandbox's box whose files its are, or KEEPER_NO_BOX; in such a one nothing is placed, remembered or used again */
        void (*told)(struct seat *seat, const struct cloche_err *e); /* of such a one */
        void *owner;
        struct keeper_box_limits limits;
        struct mounts *mounts; /* of the one run it is for, or NULL */
        struct box box;
        struct channel channel;
        struct stdio stdio;
        uv_poll_t *init_poll; /* while marking or renewing */
        int is_used; /* a run was in this box before */
        struct keeper_usage before; /* of the run: what the box had used when the child was forked */
        uint32_t fork; /* under this number the template speaks of the child */
};

/* Start making one (mounts: NULL, or a run's, of which a reference is taken); template_seat_ready or template_seat_failed is called later, never from here.
 * shared_with: a sandbox's box, or KEEPER_NO_BOX; not together with mounts, nor for a template. Such a seat is none of the template's: its maker sets told
 * and owner at once, told is called when it is ready (e NULL) or failed, and whoever was told frees it, at the latest before the template. */
int seat_new(struct template *of, const struct keeper_box_limits *limits, struct mounts *mounts, uint32_t shared_with, int is_template, struct seat **ret,
             struct cloche_err *e);
/* A seat in the box of a run that has ended, if the box turns out to be as it was; else it fails. box and trunk are taken
 * over, also on failure. */
int seat_renew(struct template *of, const struct keeper_box_limits *limits, struct box *box, struct trunk *trunk, struct seat **ret,
               struct cloche_err *e);
/* What was not taken out of it is dropped. While it is still being made, that happens later. */
void seat_free(struct seat *seat);

#endif
