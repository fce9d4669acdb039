/* The pool of running sandboxes, each with a shell: a request for one with the usual options gets
 * it at once. They are made after a delay, so that they do not slow the current request, and only
 * while new sandboxes are being requested. */
#include "sandbox/session/shell.h"

#include "base/clock.h"

#include <string.h>

#define SPARES 2
#define REFILL_AFTER_MS 20
#define KEPT_NS UINT64_C(60000000000) /* without requests for new sandboxes */

static void on_refill(uv_timer_t *timer)
{
        spares_fill(timer->data);
}

static int is_ready(const struct sandbox *s)
{
        const struct session *session = TAILQ_FIRST(&s->sessions);

        return s->state == SANDBOX_RUNNING && session && session->state == SHELL_IDLE;
}

struct sandbox *spare_take(struct sandboxes *all, int64_t principal, const char *name)
{
        struct sandbox *s;

        all->wants_spares = 1;
        all->made_ns = clock_now_ns();
        uv_timer_start(all->refill_timer, on_refill, REFILL_AFTER_MS, 0);
        TAILQ_FOREACH (s, &all->spares, link)
                if (is_ready(s))
                        break;
        if (!s)
                return NULL;
        TAILQ_REMOVE(&all->spares, s, link);
        all->spare_count--;
        s->is_spare = 0;
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
unsigned spares_running(const struct sandboxes *all)
{
        const struct sandbox *s;
        unsigned count = 0;

        TAILQ_FOREACH (s, &all->spares, link)
                count += s->state != SANDBOX_STOPPED;
        return count;
}

/* Make one at a time, which leaves the processors to requests in between. */
void spares_fill(struct sandboxes *all)
{
        struct sandbox *s;

        TAILQ_FOREACH (s, &all->spares, link)
                if (!is_ready(s))
                        return;
        if (!all->wants_spares || all->is_stopping || all->spare_count >= SPARES)
                return;
        s = sandbox_alloc(all, NULL);
        if (!s)
                return;
        s->is_spare = 1;
        all->spare_count++;
        TAILQ_INSERT_TAIL(&all->spares, s, link);
        sandbox_start(s);
}

void spare_runs(struct sandbox *s)
{
        struct session *session = session_find(s, DEFAULT_SESSION, NULL);

        if (session)
                shell_start(session);
        uv_timer_start(s->all->refill_timer, on_refill, REFILL_AFTER_MS, 0);
}

void spare_failed(struct sandbox *s)
{
        s->is_deleted = 1;
        s->all->wants_spares = 0; /* until the next request for a sandbox, which gets the error */
}

void spares_tidy(struct sandboxes *all, uint64_t now_ns)
{
        struct sandbox *s;

        if (now_ns - all->made_ns < KEPT_NS)
                return;
        all->wants_spares = 0;
        TAILQ_FOREACH (s, &all->spares, link)
                sandbox_stop(s, 0);
}
