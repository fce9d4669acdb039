/* Pools of running sandboxes, each with a shell: a request for one of the same kind gets it at
 * once. One pool has the engine's own image and the usual options. Each of the others has the
 * kind of which two sandboxes in sequence were last requested: of an image of the store, with
 * variables or a network of its own, with a writable root, or with a root of its own. A pooled
 * sandbox keeps its image from being removed, so a single sandbox of an image fills no pool.
 * They are made after a delay, so that they do not slow the current request, and only while new
 * sandboxes are being requested. The start and ready commands of an image have run in them, for
 * the caller whose request they are made for, and for no other (decision 0059). Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox/life/startup.h"
#include "sandbox/session/session.h"
#include "sandbox/session/shell.h"

#include "base/clock.h"

#include <string.h>

#define POOL_MAX 2 /* of each image */
#define REFILL_AFTER_MS 20
#define KEPT_NS UINT64_C(60000000000) /* without requests for new sandboxes */

static void on_refill(uv_timer_t *timer)
{
        sandbox_pool_fill(timer->data);
}

static int is_ready(const struct sandbox *s)
{
        const struct session *session = TAILQ_FIRST(&s->sessions);

        return s->state == SANDBOX_RUNNING && s->plan == SANDBOX_STAYS && sandbox_startup_is_over(s) && session &&
               session->state == SHELL_IDLE;
}

/* Stop the ready ones; the others stop once they run. */
static void empty(struct sandboxes *all, unsigned pool)
{
        struct sandbox *s;

        all->pools[pool].is_wanted = 0;
        TAILQ_FOREACH (s, &all->pool, link)
                if (s->pool == pool) {
                        s->pool = POOLS;
                        sandbox_stop(s, 0);
                }
}

static int is_same(const json_t *one, const json_t *other)
{
        return one == other || json_equal(one, other);
}

static int is_kind(const struct sandbox_kind *one, const struct sandbox_kind *other)
{
        return image_equals(&one->image, &other->image) && is_same(one->env, other->env) &&
               is_same(one->network, other->network) && one->principal == other->principal &&
               one->has_root == other->has_root && one->has_writable_root == other->has_writable_root;
}

static void kind_drop(struct sandbox_kind *kind)
{
        image_drop(&kind->image);
        json_decref(kind->env);
        json_decref(kind->network);
}

static void kind_copy(struct sandbox_kind *to, const struct sandbox_kind *from)
{
        *to = *from;
        image_hold(&to->image);
        json_incref(to->env);
        json_incref(to->network);
}

/* Note the request. False: the pool had another kind until now. */
static int want(struct sandboxes *all, unsigned number, const struct sandbox_kind *kind)
{
        struct sandbox_pool *pool = &all->pools[number];

        pool->wanted_ns = clock_now_ns();
        pool->is_wanted = is_kind(&pool->kind, kind);
        if (pool->is_wanted) {
                uv_timer_start(all->refill_timer, on_refill, REFILL_AFTER_MS, 0);
        } else {
                empty(all, number);
                kind_drop(&pool->kind);
                kind_copy(&pool->kind, kind);
        }
        return pool->is_wanted;
}

struct sandbox *sandbox_pool_take(struct sandboxes *all, const struct sandbox_kind *kind, unsigned pool,
                                  int64_t principal, const char *name)
{
        struct sandbox_kind own = {.image.settings = all->engine->own_settings};
        struct sandbox *s;

        own.principal = image_has_commands(&own.image) ? principal : 0;
        if (!want(all, pool, kind ? kind : &own))
                return NULL;
        TAILQ_FOREACH (s, &all->pool, link)
                if (s->pool == pool && is_ready(s))
                        break;
        if (!s)
                return NULL;
        TAILQ_REMOVE(&all->pool, s, link);
        s->is_pooled = 0;
        s->principal = principal;
        strcpy(s->name, name);
        s->created_ms = clock_real_ms();
        s->kept_ns = clock_now_ns();
        TAILQ_FIRST(&s->sessions)->created_ms = s->created_ms;
        sandbox_touch(s);
        TAILQ_INSERT_TAIL(&all->list, s, link);
        return s;
}

/* Count the pooled ones among the running. */
unsigned sandbox_pool_running(const struct sandboxes *all)
{
        const struct sandbox *s;
        unsigned count = 0;

        TAILQ_FOREACH (s, &all->pool, link)
                count += s->state != SANDBOX_STOPPED;
        return count;
}

/* Make one at a time, which leaves the processors to requests in between. */
static void fill(struct sandboxes *all, unsigned number)
{
        struct sandbox_pool *pool = &all->pools[number];
        struct sandbox *s;
        unsigned count = 0;

        TAILQ_FOREACH (s, &all->pool, link) {
                if (s->pool != number)
                        continue;
                if (!is_ready(s))
                        return;
                count++;
        }
        if (!pool->is_wanted || all->is_stopping || count >= POOL_MAX)
                return;
        s = sandbox_alloc(all, NULL);
        if (!s)
                return;
        image_drop(&s->image);
        s->image = pool->kind.image;
        image_hold(&s->image);
        sandbox_replace(&s->env, pool->kind.env);
        sandbox_replace(&s->network_policy, pool->kind.network);
        s->has_root = pool->kind.has_root;
        s->has_writable_root = pool->kind.has_writable_root;
        s->is_pooled = 1;
        s->pool = number;
        TAILQ_INSERT_TAIL(&all->pool, s, link);
        sandbox_start(s);
}

/* An image without bash has sandboxes that are never ready: they are in the way of no other
 * image. */
void sandbox_pool_fill(struct sandboxes *all)
{
        for (unsigned i = 0; i < POOLS; i++)
                fill(all, i);
}

void sandbox_pool_started(struct sandbox *s)
{
        struct session *session = session_find(s, DEFAULT_SESSION, NULL);

        if (session && session->state == SHELL_NONE) /* the commands of the image may have started it */
                shell_start(session);
        uv_timer_start(s->all->refill_timer, on_refill, REFILL_AFTER_MS, 0);
}

void sandbox_pool_failed(struct sandbox *s)
{
        s->is_deleted = 1;
        if (s->pool < POOLS)
                s->all->pools[s->pool].is_wanted = 0; /* until the next request for a sandbox, which gets the error */
}

void sandbox_pool_tidy(struct sandboxes *all, uint64_t now_ns)
{
        for (unsigned i = 0; i < POOLS; i++)
                if (now_ns - all->pools[i].wanted_ns >= KEPT_NS)
                        empty(all, i);
}

void sandbox_pool_init(struct sandboxes *all)
{
        struct image *own = &all->pools[POOL_OWN].kind.image;

        own->settings = all->engine->own_settings;
        image_hold(own);
}

void sandbox_pool_done(struct sandboxes *all)
{
        for (int i = 0; i < POOLS; i++)
                kind_drop(&all->pools[i].kind);
}
