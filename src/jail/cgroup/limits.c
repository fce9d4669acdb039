/* Limits of a box, written to its groups. Runs in: the keeper. */
#include "internal.h"

#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define CPU_PERIOD_US 100000

static const char *number_or(char *ret, size_t size, uint64_t value, const char *none)
{
        snprintf(ret, size, value == UINT64_MAX ? "%s" : "%s%" PRIu64, value == UINT64_MAX ? none : "", value);
        return ret;
}

static int limit_memory(const struct cgroup_place *place, unsigned box, uint64_t limit_bytes)
{
        char text[32];
        int r;

        if (place->version == 1) {
                r = cgroup_write_box(place, box, "memory.limit_in_bytes",
                                     number_or(text, sizeof(text), limit_bytes, "-1"));
                /* Memory and swap together; the file is absent where swap is not accounted. */
                if (r == 0 && cgroup_write_box(place, box, "memory.memsw.limit_in_bytes", text) == -ENOENT)
                        r = cgroup_write_box(place, box, "memory.swappiness", "0");
                return r;
        }
        r = cgroup_write_box(place, box, "memory.max", number_or(text, sizeof(text), limit_bytes, "max"));
        if (r == 0 && limit_bytes != UINT64_MAX) {
                r = cgroup_write_box(place, box, "memory.swap.max", "0");
                r = r == -ENOENT ? 0 : r; /* a kernel without swap */
        }
        return r;
}

static int limit_pids(const struct cgroup_place *place, unsigned box, uint64_t limit)
{
        char text[32];

        return cgroup_write_box(place, box, "pids.max", number_or(text, sizeof(text), limit, "max"));
}

static int limit_cpu(const struct cgroup_place *place, unsigned box, uint64_t percent)
{
        char text[64], quota[32];
        uint64_t quota_us = percent == UINT64_MAX ? percent : percent * (CPU_PERIOD_US / 100);

        if (place->version == 2) {
                number_or(quota, sizeof(quota), quota_us, "max");
                snprintf(text, sizeof(text), "%s %d", quota, CPU_PERIOD_US);
                return cgroup_write_box(place, box, "cpu.max", text);
        }
        return cgroup_write_box(place, box, "cpu.cfs_quota_us", number_or(text, sizeof(text), quota_us, "-1"));
}

int cgroup_set_limit(const struct cgroup_host *host, int controller, unsigned box, const struct cgroup_limits *limits)
{
        const struct cgroup_place *place = &host->places[controller];

        switch ((enum cgroup_controller)controller) {
        case CGROUP_MEMORY:
                return limit_memory(place, box, limits->memory_bytes);
        case CGROUP_PIDS:
                return limit_pids(place, box, limits->pids);
        case CGROUP_CPU:
                return limit_cpu(place, box, limits->cpu_percent);
        case CGROUP_CPUACCT:
        case CGROUP_FREEZER:
        case CGROUP_CONTROLLERS:
                break;
        }
        return 0;
}

/* -- changing the limits of a live box ------------------------------------------------------------------------ */

static uint64_t used_memory(const struct cgroup_place *place, unsigned box)
{
        uint64_t used_bytes = 0;

        (void)cgroup_read_number(place, box, place->version == 1 ? "memory.usage_in_bytes" : "memory.current",
                                 &used_bytes);
        return used_bytes;
}

/* The limit with swap may never be the lower one of the two, so the order of the writes depends on
 * the direction. The file is absent where swap is not accounted. */
static int change_memory_1(const struct cgroup_place *place, unsigned box, uint64_t limit_bytes)
{
        static const char *const memory = "memory.limit_in_bytes", *const with_swap = "memory.memsw.limit_in_bytes";
        uint64_t before_bytes = 0;
        char text[32];
        int r = cgroup_read_number(place, box, memory, &before_bytes), is_raised;

        if (r < 0)
                return r;
        is_raised = limit_bytes >= before_bytes;
        number_or(text, sizeof(text), limit_bytes, "-1");
        r = cgroup_write_box(place, box, is_raised ? with_swap : memory, text);
        if (r == 0 || (is_raised && r == -ENOENT))
                r = cgroup_write_box(place, box, is_raised ? memory : with_swap, text);
        if (r == -ENOENT)
                return 0;
        if (r < 0 && !is_raised) {
                snprintf(text, sizeof(text), "%" PRIu64, before_bytes);
                (void)cgroup_write_box(place, box, memory, text);
        }
        return r;
}

/* Version 2 would kill until the limit holds. So we reclaim pages first (memory.reclaim, Linux
 * 5.19), and then compare. */
static int change_memory_2(const struct cgroup_place *place, unsigned box, uint64_t limit_bytes)
{
        uint64_t used_bytes = used_memory(place, box);
        char text[32];

        if (used_bytes > limit_bytes) {
                snprintf(text, sizeof(text), "%" PRIu64, used_bytes - limit_bytes);
                (void)cgroup_write_box(place, box, "memory.reclaim", text);
        }
        return used_memory(place, box) > limit_bytes ? -EBUSY : limit_memory(place, box, limit_bytes);
}

static int change_memory(const struct cgroup_place *place, unsigned box, uint64_t limit_bytes, struct cloche_err *e)
{
        int r = place->version == 1   ? change_memory_1(place, box, limit_bytes)
                : place->version == 2 ? change_memory_2(place, box, limit_bytes)
                                      : 0;

        if (r == -EBUSY)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "memory_bytes is %" PRIu64 ", but the box uses %" PRIu64
                               " bytes that cannot be taken from it",
                               limit_bytes, used_memory(place, box));
        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "set the memory limit") : 0;
}

static int change(const struct cgroup_host *host, int controller, unsigned box, uint64_t value,
                  const struct cgroup_limits *limits, struct cloche_err *e)
{
        int r;

        if (value == 0)
                return 0;
        if (!host->places[controller].version)
                return err_set(e, CLOCHE_E_GUARD_MISSING, "limit %s: %s", cgroup_controller_names[controller],
                               host->places[controller].reason);
        r = cgroup_set_limit(host, controller, box, limits);
        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "set the limit of the %s group",
                              cgroup_controller_names[controller])
                     : 0;
}

int cgroup_limit(const struct cgroup_host *host, unsigned box, const struct cgroup_limits *limits, struct cloche_err *e)
{
        /* The box may refuse its memory limit, so this comes first. */
        int r = limits->memory_bytes ? change_memory(&host->places[CGROUP_MEMORY], box, limits->memory_bytes, e) : 0;

        if (r == 0)
                r = change(host, CGROUP_PIDS, box, limits->pids, limits, e);
        return r < 0 ? r : change(host, CGROUP_CPU, box, limits->cpu_percent, limits, e);
}
