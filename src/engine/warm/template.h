/* Templates: warm interpreters that runs are forked from. A base is made for each language at its
 * first use, a prefix on top of it for each set-up. Both are found by their key, and rebuilt after
 * a crash while they have users. */
#ifndef CLOCHE_ENGINE_WARM_TEMPLATE_H
#define CLOCHE_ENGINE_WARM_TEMPLATE_H

#include "build.h"
#include "engine/box/box.h"
#include "engine/box/files.h"
#include "engine/box/image.h"
#include "engine/loop/channel.h"
#include "instance.h"
#include "runtime.h"
#include "translation.h"

#include <cloche/limits.h>
#include <jansson.h>
#include <sys/queue.h>

struct cloche_run;

/* Input of a prefix: equal keys share a template. Reference-counted. */
struct setup {
        unsigned refs;
        char *key;
        struct buf prepare; /* the request, as a frame */
        struct build build; /* of a compiled language: requested first */
        int is_code;        /* the runs' own program, not their set-up */
        struct kept_files files;
        struct cloche_limits limits; /* of the set-up */
};

/* Waits for a template: on_ready is called once, from the loop, with e NULL or the error. */
struct template_wait {
        TAILQ_ENTRY(template_wait) link;
        struct template *of; /* NULL: not waiting */
        void (*on_ready)(struct template_wait *wait, const struct cloche_err *e);
};

enum template_state { TEMPLATE_IDLE, TEMPLATE_STARTING, TEMPLATE_READY, TEMPLATE_BROKEN, TEMPLATE_STATES };

struct template
{
        TAILQ_ENTRY(template) link;
        struct cloche_engine *engine;
        const struct runtime *runtime;
        struct image image;
        int64_t tenant;          /* a template serves one tenant: its forks share addresses, canaries and hash seeds */
        struct template *parent; /* the base of a prefix, or a notebook under the set-up of contexts */
        struct setup *setup;     /* of a prefix */
        enum template_state state;
        struct cloche_err error; /* TEMPLATE_BROKEN */
        json_t *failure;         /* error of the set-up code: {type, message, stack, …}, or NULL */
        unsigned crashes;        /* in a row, without a run between */
        unsigned forks;          /* number made */
        uint64_t ready_ns;       /* when it became so */
        int is_frozen;           /* reported; the keeper is raising its memory limit */
        int is_retired;          /* replaced by another; freed with its last user */
        unsigned users;          /* prefixes of the caller, prefixes on it, runs */
        uint64_t used_ns;
        uint64_t turn;                 /* order of the last dispatch */
        uint64_t memory_bytes;         /* when it became ready */
        struct parent_box *parent_box; /* once its box is made; NULL if broken */
        struct channel channel;
        int stderr_fd;                 /* what the interpreter of a base prints while it starts, or -EBADF */
        uv_timer_t *timer;             /* timeout of its start, its set-up or its freeze */
        struct instance *own_instance; /* of a prefix, while it is forked from its base */
        TAILQ_HEAD(instances, instance) instances;
        unsigned instance_count;
        struct keeper_box_limits pool_limits; /* of the last run */
        int has_pool_limits;
        TAILQ_HEAD(waiting_runs, cloche_run) waiting;
        unsigned waiting_count;
        TAILQ_HEAD(active_runs, cloche_run) active;
        unsigned active_count;
        TAILQ_HEAD(template_waits, template_wait) waits;
        TAILQ_HEAD(template_children, template_child) children;
        struct translations translations;
};

/* Find or add a tenant's base of a runtime in an image, or the prefix with that setup (takes its
 * reference, also on failure). Does not start it. */
int template_base(struct cloche_engine *engine, const struct runtime *runtime, const struct image *image,
                  int64_t tenant, struct template **ret, struct cloche_err *e);
int template_prefix(struct cloche_engine *engine, const struct runtime *runtime, const struct image *image,
                    int64_t tenant, struct setup *setup, struct template **ret, struct cloche_err *e);
/* The same for a set-up that runs in a child of another template, which may be a prefix itself. */
int template_on(struct template *parent, struct setup *setup, struct template **ret, struct cloche_err *e);
void setup_free(struct setup *setup);

/* Start it if it is idle. Failures end in TEMPLATE_BROKEN. */
void template_start(struct template *t);
/* Reset a broken template, so that the next start tries again. */
void template_reset(struct template *t);
/* True if it is broken because the host lacks something. */
int template_failed_by_host(const struct template *t);
/* Replace a base once its successor is ready. Call it repeatedly until the base is retired. */
void template_replace(struct template *base);
void template_free(struct template *t);

/* Start it and call back when it is ready or broken; the caller counts as a user. */
void template_await(struct template *t, struct template_wait *wait);
void template_cancel_wait(struct template_wait *wait);
void template_follow(struct template *t, struct template_child *child, uint32_t fork);
void template_unfollow(struct template_child *child);

/* Queue a run for an instance; run_start_in_instance or run_failed follows, perhaps from here. */
void template_queue_run(struct template *t, struct cloche_run *run);
/* A run that ends while it waits gets no instance. */
void template_dequeue_run(struct template *t, struct cloche_run *run);
/* Remove a run that waits or runs; its place goes to the next one. */
void template_leave(struct template *t, struct cloche_run *run);

/* Reuse the box of a run that ended well; takes box and parent_box. */
void template_reuse(struct template *t, const struct keeper_box_limits *limits, struct box *box,
                    struct parent_box *parent_box);

/* The rest is for instance.c, and between template.c and schedule.c. */
void template_drop_instances(struct template *t);
void template_drop_instance(struct template *t, struct instance *instance);
void template_take_instance(struct template *t, struct instance *instance);
/* True if a child is to be forked into a box that is made now; else it waits in INSTANCE_MADE. */
int template_wants_fork(const struct template *t, const struct instance *instance);
/* True if an instance is being made or forked, or waits for its turn with a waiting run: the
 * waiting runs are dispatched after it. */
int template_has_pending_instance(const struct template *t);
void template_fail_waiting(struct template *t, const struct cloche_err *e);
/* Return a reference to the setup whose files are to seed an instance's box; NULL: no
 * files. */
struct setup *template_seed(const struct template *of, const struct instance *instance);
void template_instance_ready(struct template *t, struct instance *instance);
void template_instance_failed(struct template *t, struct instance *instance, const struct cloche_err *e);

/* Engine-wide: give free instances to runs, in turn among the templates, up to runs_max. */
void templates_dispatch(struct cloche_engine *engine);
void templates_refill(struct cloche_engine *engine);
/* Free unused templates over the memory budget, the least recently used first. */
void templates_evict(struct cloche_engine *engine);
/* Call it now and then: also frees pooled instances that were not used for a while, and broken
 * templates. */
void templates_tidy(struct cloche_engine *engine);

#endif
