/* Templates: warm interpreters that runs are forked from. A base is made per language when first wanted, a prefix on top
 * of it per set-up; both are kept by what they are made of, and rebuilt when they crash while somebody wants them. */
#ifndef CLOCHE_ENGINE_TEMPLATE_H
#define CLOCHE_ENGINE_TEMPLATE_H

#include "box.h"
#include "build.h"
#include "channel.h"
#include "files.h"
#include "runtime.h"
#include "seat.h"

#include <jansson.h>
#include <sys/queue.h>

struct cloche_run;

/* What makes a prefix: equal texts are one template. Counted. */
struct setup {
        unsigned refs;
        char *key;
        struct buf prepare; /* the request, as a frame */
        struct build build; /* of a compiled language: asked for before */
        int is_code;        /* the program of the runs themselves, not set-up for them */
        struct kept_files files;
        struct cloche_limits limits; /* of the set-up */
};

/* One who waits for a template: told once, from the loop, e NULL or why it could not be brought up. */
struct template_wait {
        TAILQ_ENTRY(template_wait) link;
        struct template *of; /* NULL: does not wait */
        void (*told)(struct template_wait *wait, const struct cloche_err *e);
};

/* A child that is no run: whoever has it hears of its end. */
struct template_child {
        TAILQ_ENTRY(template_child) link;
        struct template *of; /* NULL: nothing will be told */
        uint32_t fork;
        void (*exited)(struct template_child *child, const struct init_answer *exit);
};

enum template_state { TEMPLATE_IDLE, TEMPLATE_STARTING, TEMPLATE_READY, TEMPLATE_BROKEN };

struct template {
        TAILQ_ENTRY(template) link;
        struct cloche_engine *engine;
        const struct runtime *runtime;
        int64_t tenant; /* what is forked from one template shares addresses, canaries and hash seeds: it is one tenant's */
        struct template *parent; /* the base of a prefix */
        struct setup *setup;     /* of a prefix */
        enum template_state state;
        struct cloche_err error; /* TEMPLATE_BROKEN */
        json_t *failure;         /* what the set-up code threw: {type, message, stack, …}, or NULL */
        unsigned crashes;        /* in a row, without a run between them */
        unsigned forks;          /* so far */
        uint64_t ready_ns;       /* when it became so */
        int is_frozen;           /* it has said so, and the keeper is asked */
        int is_retired;          /* another one has taken its place: it goes with its last user */
        unsigned users;          /* prefixes held by the caller, prefixes beneath, runs */
        uint64_t used_ns;
        uint64_t turn; /* when it was served last, counted */
        uint64_t memory_bytes;   /* when it became ready */
        struct trunk *trunk; /* once its box is made; a broken one has none */
        struct channel channel;
        uv_timer_t *timer; /* of the set-up */
        struct seat *own_seat; /* a prefix being forked from its base */
        TAILQ_HEAD(seats, seat) seats;
        unsigned seat_count;
        struct keeper_box_limits spare_limits; /* of the run that came last */
        int has_spare_limits;
        TAILQ_HEAD(waiting_runs, cloche_run) waiting;
        unsigned waiting_count;
        TAILQ_HEAD(active_runs, cloche_run) active;
        unsigned active_count;
        TAILQ_HEAD(template_waits, template_wait) waits;
        TAILQ_HEAD(template_children, template_child) children;
};

/* A tenant's base of a runtime, and the prefix with that setup (whose reference is taken over, also on failure). Found or made, not
 * started. */
int template_base(struct cloche_engine *engine, const struct runtime *runtime, int64_t tenant, struct template **ret, struct cloche_err *e);
int template_prefix(struct cloche_engine *engine, const struct runtime *runtime, int64_t tenant, struct setup *setup, struct template **ret,
                    struct cloche_err *e);
void setup_free(struct setup *setup);

/* Bring it up, if it is not. Failures end in TEMPLATE_BROKEN. */
void template_start(struct template *t);
/* Give up a broken state, so that the next start tries again. */
void template_forget_failure(struct template *t);
/* It is broken, and what the host lacked is why. */
int template_failed_by_host(const struct template *t);
/* Have a new one take the place of a base, once that is ready: called again and again until the old one is retired. */
void template_replace(struct template *base);
void template_free(struct template *t);

/* Bring it up and be told; the caller is one of its users. */
void template_await(struct template *t, struct template_wait *wait);
void template_await_no_more(struct template_wait *wait);
void template_follow(struct template *t, struct template_child *child, uint32_t fork);
void template_unfollow(struct template_child *child);

/* A run wants a seat; run_seated or run_failed follows, perhaps at once. */
void template_seat_run(struct template *t, struct cloche_run *run);
/* A run that waits or runs leaves its place to the next one. */
void template_leave(struct template *t, struct cloche_run *run);

/* The box of a run that ended well may serve again; box and trunk are taken over. */
void template_reuse(struct template *t, const struct keeper_box_limits *limits, struct box *box, struct trunk *trunk);

/* For seat.c, and between template.c and schedule.c. */
void template_drop_seats(struct template *t);
/* One is being made, after which the waiting runs are looked at again, or waits for its turn with one of them. */
int template_has_seat_to_come(const struct template *t);
void template_tell_waiting(struct template *t, const struct cloche_err *e);
/* The setup whose files are to be placed in a seat's box: a reference, or NULL for none. */
struct setup *template_furniture(const struct template *of, const struct seat *seat);
void template_seat_ready(struct template *t, struct seat *seat);
void template_seat_failed(struct template *t, struct seat *seat, const struct cloche_err *e);

/* Engine-wide: hand free seats out, in turn among the templates, as far as the limit of runs at once permits. */
void templates_dispatch(struct cloche_engine *engine);
void templates_refill(struct cloche_engine *engine);
/* Unused templates over the memory budget go, the longest unused first. */
void templates_evict(struct cloche_engine *engine);
/* Now and then: the same, and spares nobody took for a while, and what could not be brought up. */
void templates_tidy(struct cloche_engine *engine);

#endif
