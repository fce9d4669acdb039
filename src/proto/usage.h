/* The counters of a group, for the keeper's answers, and for the engine, which may read the same
 * groups itself. */
#ifndef CLOCHE_PROTO_USAGE_H
#define CLOCHE_PROTO_USAGE_H

#include "jail/cgroup/cgroup.h"
#include "keeper.h"

static inline struct keeper_usage usage_convert(const struct cgroup_usage *usage)
{
        return (struct keeper_usage){
                .cpu_ns = usage->cpu_ns,
                .memory_peak_bytes = usage->memory_peak_bytes,
                .oom_kills = usage->oom_kills,
                .pids_peak = usage->pids_peak,
                .pids_refused = usage->pids_refused,
                .cpu_known = (uint32_t)usage->cpu_known,
                .memory_known = (uint32_t)usage->memory_known,
                .pids_known = (uint32_t)usage->pids_known,
        };
}

static inline struct keeper_usage usage_read(const struct cgroup_host *groups, uint32_t box)
{
        struct cgroup_usage usage;

        cgroup_read_usage(groups, box, &usage);
        return usage_convert(&usage);
}

#endif
