/* Pools of running sandboxes, each with a shell: a request for one with the usual options gets
 * it at once. One pool has the engine's own image, the others an image of the store, read-only,
 * with a writable root or with a root of its own: the last one of which two such sandboxes in
 * sequence were requested. A pooled sandbox keeps its image from being
 * removed, so a single sandbox of an image fills no pool. They are made after a delay, so that
 * they do not slow the current request, and only while new sandboxes are being requested. Runs
 * in: cloched-engine, on its loop, with the rights of the daemon's user. */
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

        return s->state == SANDBOX_RUNNING && s->plan == SANDBOX_STAYS && session && session->state == SHELL_IDLE;
}

static unsigned pool_of(const struct sandbox *s)
{
        if (!s->image.name[0])
                return POOL_OWN;
        return s->has_root ? POOL_ROOT : s->has_writable_root ? POOL_WRITABLE : POOL_STORE;
}

static int is_of(const struct sandbox *s, unsigned pool)
{
        return pool_of(s) == pool && image_equals(&s->image, &s->all->pools[pool].image);
}

/* Stop the ready ones; the others stop once they run. */
static void empty(struct sandboxes *all, unsigned pool)
{
        struct sandbox *s;

        all->pools[pool].is_wanted = 0;
        TAILQ_FOREACH (s, &all->pool, link)
                if (is_of(s, pool))
                        sandbox_stop(s, 0);
}

/* Note the request. False: the pool had another image until now. */
static int want(struct sandboxes *all, unsigned number, const struct image *image)
{
        struct sandbox_pool *pool = &all->pools[number];
        int is_same = image_equals(&pool->image, image);

        pool->wanted_ns = clock_now_ns();
        if (!is_same) {
                empty(all, number);
                image_drop(&pool->image);
                pool->image = *image;
                image_hold(&pool->image);
        }
        pool->is_wanted = is_same;
        if (is_same)
                uv_timer_start(all->refill_timer, on_refill, REFILL_AFTER_MS, 0);
        return is_same;
}

struct sandbox *sandbox_pool_take(struct sandboxes *all, const struct image *image, unsigned pool, int64_t principal,
                                  const char *name)
{
        struct sandbox *s;

        image = image ? image : &all->pools[POOL_OWN].image;
        if (!want(all, pool, image))
                return NULL;
        TAILQ_FOREACH (s, &all->pool, link)
                if (is_of(s, pool) && is_ready(s))
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
                if (!is_of(s, number))
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
        s->image = pool->image;
        image_hold(&s->image);
        s->has_root = number == POOL_ROOT;
        s->has_writable_root = number >= POOL_WRITABLE;
        s->is_pooled = 1;
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

        if (session)
                shell_start(session);
        uv_timer_start(s->all->refill_timer, on_refill, REFILL_AFTER_MS, 0);
}

void sandbox_pool_failed(struct sandbox *s)
{
        const unsigned pool = pool_of(s);

        s->is_deleted = 1;
        if (is_of(s, pool))
                s->all->pools[pool].is_wanted = 0; /* until the next request for a sandbox, which gets the error */
}

void sandbox_pool_tidy(struct sandboxes *all, uint64_t now_ns)
{
        for (unsigned i = 0; i < POOLS; i++)
                if (now_ns - all->pools[i].wanted_ns >= KEPT_NS)
                        empty(all, i);
}

void sandbox_pool_init(struct sandboxes *all)
{
        all->pools[POOL_OWN].image.settings = all->engine->own_settings;
        image_hold(&all->pools[POOL_OWN].image);
}

void sandbox_pool_done(struct sandboxes *all)
{
        for (int i = 0; i < POOLS; i++)
                image_drop(&all->pools[i].image);
}
