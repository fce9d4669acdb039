/* Exit of an idle daemon. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "idle.h"
#include "on-demand.h"

#include "sandbox/core/sandbox.h"

#define MS_NS UINT64_C(1000000)

/* Saved sandboxes do not count: the next request for one starts a daemon. */
static int has_work(const struct daemon *d)
{
        return d->connection_count > 0 || d->prefixes_starting > 0 || !TAILQ_EMPTY(&d->jobs) ||
               !TAILQ_EMPTY(&d->syncs) || !TAILQ_EMPTY(&d->sandbox_jobs) || sandboxes_count(d->sandboxes).running > 0;
}

void idle_sweep(struct daemon *d, uint64_t now_ns)
{
        if (!d->options.exit_when_idle_ms || d->state != DAEMON_RUNNING)
                return;
        if (has_work(d))
                d->idle_since_ns = 0;
        else if (!d->idle_since_ns)
                d->idle_since_ns = now_ns;
        else if (now_ns - d->idle_since_ns >= d->options.exit_when_idle_ms * MS_NS && on_demand_lock(&d->options))
                daemon_stop(d, 0, "idle");
}
