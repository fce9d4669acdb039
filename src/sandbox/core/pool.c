/* The pool of running sandboxes, each with a shell: a request for one with the usual options gets
 * it at once. They are made after a delay, so that they do not slow the current request, and only
 * while new sandboxes are being requested. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "sandbox/session/session.h"
#include "sandbox/session/shell.h"

#include "base/clock.h"

#include <string.h>

#define POOL_MAX 2
#define REFILL_AFTER_MS 20
#define KEPT_NS UINT64_C(60000000000) /* without requests for new sandboxes */

static void on_refill(uv_timer_t *timer)
{
        sandbox_pool_fill(timer->data);
}

static int is_ready(const struct sandbox *s)
{
        const struct session *session = TAILQ_FIRST(&s->sessions);

        return s->state == SANDBOX_RUNNING && session && session->state == SHELL_IDLE;
}

struct sandbox *sandbox_pool_take(struct sandboxes *all, int64_t principal, const char *name)
{
        struct sandbox *s;

        all->wants_pool = 1;
        all->made_ns = clock_now_ns();
        uv_timer_start(all->refill_timer, on_refill, REFILL_AFTER_MS, 0);
        TAILQ_FOREACH (s, &all->pool, link)
                if (is_ready(s))
                        break;
        if (!s)
                return NULL;
        TAILQ_REMOVE(&all->pool, s, link);
        all->pool_count--;
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
void sandbox_pool_fill(struct sandboxes *all)
{
        struct sandbox *s;

        TAILQ_FOREACH (s, &all->pool, link)
                if (!is_ready(s))
                        return;
        if (!all->wants_pool || all->is_stopping || all->pool_count >= POOL_MAX)
                return;
        s = sandbox_alloc(all, NULL);
        if (!s)
                return;
        s->is_pooled = 1;
        all->pool_count++;
        TAILQ_INSERT_TAIL(&all->pool, s, link);
        sandbox_start(s);
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
        s->is_deleted = 1;
        s->all->wants_pool = 0; /* until the next request for a sandbox, which gets the error */
}

void sandbox_pool_tidy(struct sandboxes *all, uint64_t now_ns)
{
        struct sandbox *s;

        if (now_ns - all->made_ns < KEPT_NS)
                return;
        all->wants_pool = 0;
        TAILQ_FOREACH (s, &all->pool, link)
                sandbox_stop(s, 0);
}
