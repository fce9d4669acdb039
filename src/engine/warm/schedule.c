/* Scheduling of runs to instances: instances are made, kept and given out here. Templates take
 * turns, up to the limit of concurrent runs. Runs in: the engine, on its loop. */
#include "template.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/engine.h"

#include <string.h>

#define IDLE_MAX 256 /* then no box is made ahead of a child: the keeper has KEEPER_BOXES_MAX */
#define POOL_IDLE_NS UINT64_C(30000000000)
#define BASE_AGE_NS (UINT64_C(1800) * 1000000000)

/* -- instances -------------------------------------------------------------------------------------------------- */

static void add(struct template *t, struct instance *instance)
{
        TAILQ_INSERT_TAIL(&t->instances, instance, link);
        t->instance_count++;
}

void template_take_instance(struct template *t, struct instance *instance)
{
        TAILQ_REMOVE(&t->instances, instance, link);
        t->instance_count--;
}

void template_drop_instance(struct template *t, struct instance *instance)
{
        template_take_instance(t, instance);
        instance_free(instance);
}

void template_drop_instances(struct template *t)
{
        struct instance *instance;

        while ((instance = TAILQ_FIRST(&t->instances)))
                template_drop_instance(t, instance);
}

static int same_limits(const struct keeper_box_limits *a, const struct keeper_box_limits *b)
{
        return memcmp(a, b, sizeof(*a)) == 0;
}

/* mounts: those of the instance's one run, or NULL for an instance of any run. */
static int fits(const struct instance *instance, const struct keeper_box_limits *limits, const struct mounts *mounts)
{
        return instance->mounts == mounts && same_limits(&instance->limits, limits);
}

static struct instance *find_ready(struct template *t, const struct keeper_box_limits *limits,
                                   const struct mounts *mounts)
{
        struct instance *instance;

        TAILQ_FOREACH (instance, &t->instances, link)
                if (instance->state == INSTANCE_READY && fits(instance, limits, mounts))
                        return instance;
        return NULL;
}

/* The last one: its memory is still in the processors' caches. */
static struct instance *find_made(struct template *t, const struct keeper_box_limits *limits)
{
        struct instance *instance;

        TAILQ_FOREACH_REVERSE (instance, &t->instances, instances, link)
                if (instance->state == INSTANCE_MADE && fits(instance, limits, NULL))
                        return instance;
        return NULL;
}

static unsigned count_instances(const struct template *t, const struct keeper_box_limits *limits,
                                const struct mounts *mounts)
{
        const struct instance *instance;
        unsigned count = 0;

        TAILQ_FOREACH (instance, &t->instances, link)
                count += fits(instance, limits, mounts);
        return count;
}

static unsigned count_forked(const struct template *t, const struct keeper_box_limits *limits)
{
        const struct instance *instance;
        unsigned count = 0;

        TAILQ_FOREACH (instance, &t->instances, link)
                count += instance->is_forked && fits(instance, limits, NULL);
        return count;
}

/* Boxes in their clean-check, which most pass. */
static unsigned count_returning(const struct template *t, const struct keeper_box_limits *limits)
{
        const struct instance *instance;
        unsigned count = 0;

        TAILQ_FOREACH (instance, &t->instances, link)
                count += instance->is_used && instance->state == INSTANCE_SEEDING && fits(instance, limits, NULL);
        return count;
}

/* Boxes of active runs usually come back, so they count as spares; one that came back does not
 * count twice. */
static unsigned forks_wanted(const struct template *t, int is_used)
{
        unsigned spares = t->engine->options.spares, active = is_used ? 0 : t->active_count;

        return active < spares ? spares - active : 0;
}

int template_wants_fork(const struct template *t, const struct instance *instance)
{
        unsigned forked = count_forked(t, &instance->limits);

        return instance->mounts || forked < t->waiting_count || forked < forks_wanted(t, instance->is_used);
}

/* Spares, boxes without a child, and an instance for each waiting run. */
static unsigned room_of(const struct template *t)
{
        return t->engine->options.spares + t->engine->options.boxes_ahead + t->waiting_count;
}

/* Drop an instance with other limits to make room. */
static void drop_other_instance(struct template *t, const struct keeper_box_limits *limits)
{
        struct instance *instance;

        TAILQ_FOREACH (instance, &t->instances, link)
                if (!instance->mounts && !same_limits(&instance->limits, limits)) {
                        template_drop_instance(t, instance);
                        return;
                }
}

static int fits_who_waits(const struct template *t, const struct instance *instance)
{
        const struct cloche_run *run;

        TAILQ_FOREACH (run, &t->waiting, link) {
                struct keeper_box_limits limits = limits_of_box(&run->limits);

                if (fits(instance, &limits, run->mounts))
                        return 1;
        }
        return 0;
}

int template_has_pending_instance(const struct template *t)
{
        const struct instance *instance;

        TAILQ_FOREACH (instance, &t->instances, link)
                if (instance->state != INSTANCE_MADE &&
                    (instance->state != INSTANCE_READY || fits_who_waits(t, instance)))
                        return 1;
        return 0;
}

/* Add an instance unless the keeper is making as many boxes as it can; then this is retried when
 * one is made, or takes too long. */
static int add_instance(struct template *t, const struct keeper_box_limits *limits, struct mounts *mounts)
{
        struct cloche_err e = {0};
        struct instance *instance;
        int r;

        if (!keeper_may_make(t->engine->keeper)) {
                engine_retry_instances(t->engine);
                return -1;
        }
        if (t->instance_count >= room_of(t))
                drop_other_instance(t, limits);
        r = instance_new(t, limits, mounts, KEEPER_NO_BOX, 0, &instance, &e);
        if (r < 0) {
                if (!template_has_pending_instance(t))
                        template_fail_waiting(t, &e);
                return r;
        }
        add(t, instance);
        return 0;
}

/* Fork into boxes that were made ahead, until so many are forked. */
static void fork_into_made(struct template *t, const struct keeper_box_limits *limits, unsigned wanted)
{
        for (unsigned forked = count_forked(t, limits); forked < wanted; forked++) {
                struct instance *instance = find_made(t, limits);
                struct cloche_err e = {0};

                if (!instance)
                        return;
                if (instance_fork_resume(instance, &e) == 0)
                        continue;
                template_drop_instance(t, instance);
                if (!template_has_pending_instance(t))
                        template_fail_waiting(t, &e);
                return;
        }
}

/* Make an instance for each waiting run with mounts. */
static void make_mounted_instances(struct template *t, unsigned free_runs)
{
        struct cloche_run *run;

        TAILQ_FOREACH (run, &t->waiting, link) {
                struct keeper_box_limits limits = limits_of_box(&run->limits);

                if (free_runs-- == 0)
                        return;
                if (run->mounts && count_instances(t, &limits, run->mounts) == 0 &&
                    add_instance(t, &limits, run->mounts) < 0)
                        return;
        }
}

/* Make as many instances as waiting runs could start. */
static void make_instances(struct template *t, const struct keeper_box_limits *limits)
{
        unsigned free_runs = t->engine->options.runs_max - t->engine->running;
        unsigned wanted = t->waiting_count < free_runs ? t->waiting_count : free_runs;

        fork_into_made(t, limits, wanted);
        for (unsigned have = count_instances(t, limits, NULL); have < wanted; have++)
                if (add_instance(t, limits, NULL) < 0)
                        return;
}

/* Boxes without a child are for runs that come: while others wait for the processors, or boxes
 * of many templates are idle, they would only take from those. Returns the number for each
 * template, its active runs included. */
static unsigned boxes_wanted(const struct cloche_engine *engine)
{
        const struct template *t;
        unsigned idle = 0;

        TAILQ_FOREACH (t, &engine->templates, link)
                idle += t->instance_count;
        return engine->options.spares + (engine->waiting == 0 && idle < IDLE_MAX ? engine->options.boxes_ahead : 0);
}

static void fill_pool(struct template *t, unsigned boxes)
{
        unsigned forks = forks_wanted(t, 0), returning = count_returning(t, &t->pool_limits);

        if (forks > returning) /* the boxes that were used last are the cheapest to fork into */
                fork_into_made(t, &t->pool_limits, forks - returning);
        for (unsigned have = count_instances(t, &t->pool_limits, NULL) + t->active_count; have < boxes; have++)
                if (add_instance(t, &t->pool_limits, NULL) < 0)
                        return;
}

/* Fill the pools, while no run waits for an instance. */
void templates_refill(struct cloche_engine *engine)
{
        unsigned boxes = boxes_wanted(engine);
        struct template *t;

        if (engine->dispatching)
                return;
        engine->dispatching = 1;
        TAILQ_FOREACH (t, &engine->templates, link)
                if (t->state == TEMPLATE_READY && t->has_pool_limits)
                        fill_pool(t, boxes);
        engine->dispatching = 0;
        if (engine->must_redispatch)
                templates_dispatch(engine);
}

static int is_unused(const struct template *t)
{
        return t->users == 0 && t->state == TEMPLATE_READY;
}

static struct template *longest_unused(struct cloche_engine *engine, uint64_t *ret_bytes)
{
        struct template *t, *found = NULL;

        *ret_bytes = 0;
        TAILQ_FOREACH (t, &engine->templates, link)
                if (is_unused(t)) {
                        *ret_bytes += t->memory_bytes;
                        if (!found || t->used_ns < found->used_ns)
                                found = t;
                }
        return found;
}

/* Return the longest unused template of the first tenant that has more of them than it may. */
static struct template *beyond_share(const struct cloche_engine *engine)
{
        struct template *t, *other, *found;

        TAILQ_FOREACH (t, &engine->templates, link) {
                unsigned count = 0;

                if (!is_unused(t))
                        continue;
                found = t;
                TAILQ_FOREACH (other, &engine->templates, link)
                        if (is_unused(other) && other->tenant == t->tenant) {
                                count++;
                                if (other->used_ns < found->used_ns)
                                        found = other;
                        }
                if (count > engine->options.templates_max)
                        return found;
        }
        return NULL;
}

/* A tenant makes a template for each image, settings and set-up that it names: without a share
 * one could take the memory budget of all. */
void templates_evict(struct cloche_engine *engine)
{
        struct template *t;
        uint64_t bytes;

        while ((t = beyond_share(engine)))
                template_free(t);
        while ((t = longest_unused(engine, &bytes)) && bytes > engine->options.templates_bytes)
                template_free(t);
}

/* A broken template is kept for a while, so that its program is not compiled again at once. One in
 * an image of the store keeps the image from being removed, so it is not kept for ever. */
static int has_expired(const struct template *t, uint64_t now_ns)
{
        uint64_t unused_ns = now_ns - t->used_ns;

        if (t->users > 0)
                return 0;
        return (t->state == TEMPLATE_BROKEN && unused_ns > POOL_IDLE_NS) ||
               (t->state == TEMPLATE_READY && t->image.name[0] && unused_ns > IMAGE_IDLE_NS);
}

static void drop_expired(struct cloche_engine *engine, uint64_t now_ns)
{
        struct template *t = TAILQ_FIRST(&engine->templates), *next;

        for (; t; t = next) {
                next = TAILQ_NEXT(t, link);
                if (has_expired(t, now_ns))
                        template_free(t);
        }
}

/* Runs forked from one base share its addresses and seeds, so code that learned them in one run can
 * use them in the next; replacing the base bounds that time. A prefix keeps its base: its caller's
 * set-up code must not run again because of age. */
static void replace_bases(struct cloche_engine *engine, uint64_t now_ns)
{
        struct template *t = TAILQ_FIRST(&engine->templates), *next;

        for (; t; t = next) {
                next = TAILQ_NEXT(t, link);
                if (t->is_retired && t->users == 0)
                        template_free(t);
                else if (!t->setup && !t->is_retired && t->state == TEMPLATE_READY && t->forks > 0 &&
                         (t->forks >= engine->options.base_forks || now_ns - t->ready_ns > BASE_AGE_NS)) {
                        template_replace(t);
                        return; /* the call may have freed others; they are checked next time */
                }
        }
}

void templates_tidy(struct cloche_engine *engine)
{
        uint64_t now_ns = clock_now_ns();
        struct template *t;

        TAILQ_FOREACH (t, &engine->templates, link)
                if (t->waiting_count == 0 && now_ns - t->used_ns > POOL_IDLE_NS) {
                        template_drop_instances(t);
                        t->has_pool_limits = 0;
                }
        templates_evict(engine);
        drop_expired(engine, now_ns);
        replace_bases(engine, now_ns);
}

void template_reuse(struct template *t, const struct keeper_box_limits *limits, struct box *box,
                    struct parent_box *parent_box)
{
        struct instance *instance;

        if (t->parent_box != parent_box || t->state != TEMPLATE_READY || !same_limits(limits, &t->pool_limits) ||
            t->instance_count >= room_of(t)) {
                (void)box_drop(box, NULL, NULL);
                parent_box_unref(parent_box);
        } else if (instance_reuse(t, limits, box, parent_box, &instance, NULL) == 0) {
                add(t, instance);
        }
}

static void start_first_run(struct template *t, struct instance *instance)
{
        struct cloche_run *run = TAILQ_FIRST(&t->waiting);

        TAILQ_REMOVE(&t->waiting, run, link);
        t->waiting_count--;
        t->engine->waiting--;
        template_take_instance(t, instance);
        TAILQ_INSERT_TAIL(&t->active, run, link);
        t->active_count++;
        t->engine->running++;
        t->crashes = 0;
        run->place = RUN_ACTIVE;
        run_start_in_instance(run, instance);
}

/* -- turns ------------------------------------------------------------------------------------------------------ */

static struct template *next_in_turn(const struct cloche_engine *engine, uint64_t after)
{
        struct template *t, *next = NULL;

        TAILQ_FOREACH (t, &engine->templates, link)
                if (t->waiting_count > 0 && t->state == TEMPLATE_READY && t->turn > after &&
                    (!next || t->turn < next->turn))
                        next = t;
        return next;
}

/* Dispatch for the least recently served template first. It keeps a free place while its instance
 * is being made; else a template whose boxes come back at once would take all places. 1: one run
 * started. */
static int dispatch_one(struct cloche_engine *engine)
{
        struct template *t = next_in_turn(engine, 0);

        for (unsigned held = 0; t && engine->running + held < engine->options.runs_max; held++) {
                struct mounts *mounts = TAILQ_FIRST(&t->waiting)->mounts;
                struct keeper_box_limits limits = limits_of_box(&TAILQ_FIRST(&t->waiting)->limits);
                struct instance *instance = find_ready(t, &limits, mounts);

                if (!mounts) {
                        t->pool_limits = limits;
                        t->has_pool_limits = 1;
                }
                if (instance) {
                        t->turn = ++engine->turns;
                        start_first_run(t, instance);
                }
                if (mounts)
                        make_mounted_instances(t, engine->options.runs_max - engine->running);
                else
                        make_instances(t, &limits);
                engine_schedule_refill(engine);
                if (instance)
                        return 1;
                t = next_in_turn(engine, t->turn);
        }
        return 0;
}

void templates_dispatch(struct cloche_engine *engine)
{
        int moved;

        if (engine->dispatching) {
                engine->must_redispatch = 1; /* called from within: the outer call goes on */
                return;
        }
        engine->dispatching = 1;
        do {
                moved = engine->must_redispatch;
                engine->must_redispatch = 0;
                moved |= dispatch_one(engine);
        } while (moved || engine->must_redispatch);
        engine->dispatching = 0;
}

void template_queue_run(struct template *t, struct cloche_run *run)
{
        t->used_ns = clock_now_ns();
        TAILQ_INSERT_TAIL(&t->waiting, run, link);
        t->waiting_count++;
        t->engine->waiting++;
        run->place = RUN_WAITING;
        if (!t->setup || template_failed_by_host(t))
                template_reset(t); /* a lack of memory, processes or time may have passed */
        if (t->state == TEMPLATE_BROKEN)
                template_fail_waiting(t, &t->error);
        template_start(t);
        templates_dispatch(t->engine);
}

/* Drop the instance made for these mounts: no other run can use it. */
static void drop_instance_of(struct template *t, const struct mounts *mounts)
{
        struct instance *instance;

        TAILQ_FOREACH (instance, &t->instances, link)
                if (mounts && instance->mounts == mounts) {
                        template_drop_instance(t, instance);
                        return;
                }
}

void template_dequeue_run(struct template *t, struct cloche_run *run)
{
        if (run->place != RUN_WAITING)
                return;
        TAILQ_REMOVE(&t->waiting, run, link);
        t->waiting_count--;
        t->engine->waiting--;
        run->place = RUN_NOWHERE;
        drop_instance_of(t, run->mounts);
}

void template_leave(struct template *t, struct cloche_run *run)
{
        template_dequeue_run(t, run);
        if (run->place == RUN_ACTIVE) {
                TAILQ_REMOVE(&t->active, run, link);
                t->active_count--;
                t->engine->running--;
        }
        run->place = RUN_NOWHERE;
        templates_dispatch(t->engine);
        engine_schedule_refill(t->engine); /* the answer leaves first */
}
