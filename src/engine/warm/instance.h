/* An instance is a box on a template's, with a child of the template forked into it. A pooled
 * one waits for one run, with its child or half-made, without one; the instance of a context
 * stays, and can be a template itself. */
#ifndef CLOCHE_ENGINE_WARM_INSTANCE_H
#define CLOCHE_ENGINE_WARM_INSTANCE_H

#include "engine/box/box.h"
#include "engine/box/seed.h"
#include "engine/loop/channel.h"
#include "engine/loop/stream.h"

#include <sys/queue.h>

struct template;
struct mounts;
struct cloche_engine;

/* A child of a template that is no run. Either callback is called at most once, and none after
 * template_unfollow. */
struct template_child {
        TAILQ_ENTRY(template_child) link;
        struct template *of; /* NULL: not followed */
        uint32_t fork;
        void (*exited)(struct template_child *child, const struct init_answer *exit);
        /* The template could not fork it. code: an errno, or 0. */
        void (*failed)(struct template_child *child, const char *message, int code);
};

/* The box of a template, from one start to its end. It lasts as long as any box on it, for the
 * kernel kills those with it. Reference-counted. */
struct parent_box {
        unsigned refs;
        struct box box;
        struct parent_box *parent; /* of the base, under a prefix's */
        int is_dead;               /* its interpreter is gone: exits of children are not reported any more */
        /* Only of a context. */
        struct tally *children, *counted_in; /* live boxes on it; the tally that counts its own box; or NULL */
};

/* Takes box; NULL without memory, and box is not taken. */
struct parent_box *parent_box_new(struct box *box);
struct parent_box *parent_box_ref(struct parent_box *parent_box);
void parent_box_unref(struct parent_box *parent_box); /* accepts NULL */

enum instance_state {
        INSTANCE_MAKING,  /* the keeper makes the box, or forks the child */
        INSTANCE_SEEDING, /* the answer of the box's init, or of a mount's server, is missing */
        INSTANCE_MADE,    /* the box is there, without a child; instance_fork_resume() forks it */
        INSTANCE_READY,   /* or failed */
        INSTANCE_STATES
};

struct instance {
        TAILQ_ENTRY(instance) link;
        struct cloche_engine *engine;
        struct template *of; /* invalid once is_detached; NULL: forked from a context */
        struct parent_box *parent_box;
        struct parent_box *as_parent; /* of its own box, after instance_as_parent */
        struct tally *counted_in;     /* as in the parent box */
        enum instance_state state;
        int is_detached; /* freed by its owner while the keeper's answer is missing */
        int is_template;
        int holds_fork;
        uint32_t shared_with; /* the sandbox's box whose files it uses, or KEEPER_NO_BOX */
        void (*on_ready)(struct instance *instance, const struct cloche_err *e); /* of a context only; never reused */
        /* Its interpreter's exit, once it is ready; of a context only. NULL: on_ready
         * is called with an error. */
        void (*on_exit)(struct instance *instance, const struct init_answer *exit);
        void *owner;
        /* NULL, except of a context whose interpreter is started in its box, not forked. */
        const struct runtime *runtime;
        const struct image *image;
        struct template_child child;  /* of a context only: followed from the request to fork on */
        struct cloche_err fork_error; /* came before the keeper's answer */
        struct keeper_box_limits limits;
        struct mounts *mounts; /* of its one run, or NULL */
        struct box box;
        struct channel channel;
        struct stdio stdio;
        /* While its files are written. */
        struct setup *seed;
        struct seeding seeding;
        int is_forked;              /* the child was requested */
        int has_files;              /* of the set-up, in its box */
        int is_used;                /* a run was in this box before */
        struct keeper_usage before; /* the box's usage at the fork, to subtract from the run's */
        uint32_t fork;              /* the template's number for the child */
};

/* Start making an instance. mounts: NULL, or those of a run (takes a reference).
 * template_instance_ready or template_instance_failed is called later, never from here.
 * shared_with: a sandbox's box, or KEEPER_NO_BOX; not together with mounts. An instance that
 * shares belongs to a context, not to the template: its maker sets on_ready and owner at once;
 * on_ready is called when the instance is ready (e NULL) or failed, and its receiver frees the
 * instance, at the latest before the template; on_ready may be called with an error after it was
 * called without, for the keeper's answer can come before that of the template. With is_template
 * the context can be forked (instance_as_parent, instance_fork). */
int instance_new(struct template *of, const struct keeper_box_limits *limits, struct mounts *mounts,
                 uint32_t shared_with, int is_template, struct instance **ret, struct cloche_err *e);
/* Make an instance in the box of a run that has ended, if the box turns out clean; else the
 * instance fails. One that was found clean already is INSTANCE_MADE at once. Takes box and
 * parent_box, also on failure.
 * */
int instance_reuse(struct template *of, const struct keeper_box_limits *limits, struct box *box,
                   struct parent_box *parent_box, struct instance **ret, struct cloche_err *e);
/* Drop the instance and the members that were not moved out; later, if it is still being made. If
 * other boxes stand on its own, only its programs are killed, and its box is dropped with the last
 * of them. Accepts NULL. */
void instance_free(struct instance *instance);

/* -- starting the interpreter of a context cold ------------------------------------------------------------------ */

/* Start an interpreter of the sandbox's own files in a box beside the sandbox's: with its user, its
 * mounts and its network, and without the rights of a template. on_ready is called when it was
 * started: send it the set-up then. Its exit is reported by PID 1 of its box, with the pid of
 * instance->box. image and runtime live longer than the instance. */
struct instance_cold_order {
        const struct runtime *runtime;
        const struct image *image; /* for its settings */
        struct keeper_box_limits limits;
        uint32_t shared_with; /* the sandbox's box */
        void (*on_ready)(struct instance *instance, const struct cloche_err *e);
        void *owner;
};

int instance_start_cold(struct cloche_engine *engine, const struct instance_cold_order *order, struct instance **ret,
                        struct cloche_err *e);

/* -- forking a context ------------------------------------------------------------------------------------------ */

#define INSTANCE_FORKS_MAX 256 /* live boxes on one context; they stay until its interpreter reaps them */

struct instance_fork_order {
        struct keeper_box_limits limits;
        uint32_t shared_with; /* a sandbox's box, or KEEPER_NO_BOX for own files and groups */
        int is_template;      /* can be forked; at most 30 boxes deep, base and prefix included */
        int holds_fork;       /* stop at INSTANCE_MADE, to seed files; instance_fork_resume goes on */
        void (*on_ready)(struct instance *instance, const struct cloche_err *e);
        void *owner;
};

/* Return the box of a context's ready instance made with is_template, to stand boxes on;
 * borrowed from the instance. instance->box stays valid, but belongs to its parent_box. NULL
 * without memory. */
struct parent_box *instance_as_parent(struct instance *instance, struct cloche_err *e);
/* Start making a box on a context's (takes a reference to parent_box), and fork the context into
 * it. The context must wait in cloche_guest_wait_for by then: its agent has answered `branch` and
 * has got no request since. on_ready is called later, never from here: with holds_fork once in
 * state INSTANCE_MADE; then in INSTANCE_READY, when the fork was requested. Then send the child
 * `enter`: the request waits in the channel for it. The receiver of an error, or of INSTANCE_READY,
 * frees the instance. */
int instance_fork(struct cloche_engine *engine, struct parent_box *parent_box, const struct instance_fork_order *order,
                  struct instance **ret, struct cloche_err *e);
/* Go on from INSTANCE_MADE. A failure is only returned; no callback reports it. */
int instance_fork_resume(struct instance *instance, struct cloche_err *e);
/* Call it when the context sends `failed` {fork, message} with instance->fork: on_ready is
 * called with that error, whose os_errno is code, at once or at the keeper's answer. (`exited`
 * {fork, ...} of a context reports the exit of its child, already known from the end of the
 * instance's own channel; status -1: unknown.) */
void instance_fork_failed(struct instance *instance, const char *message, int code);

#endif
