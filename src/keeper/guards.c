/* The guards that this host gives. Runs in: the keeper, at its start. */
#include "guards.h"

#include "jail/core-scheduling.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void set(struct keeper_state *keeper, enum cloche_guard guard, enum cloche_guard_state state, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

static void set(struct keeper_state *keeper, enum cloche_guard guard, enum cloche_guard_state state, const char *format,
                ...)
{
        struct keeper_guard *row = &keeper->guards[guard];
        va_list ap;

        row->state = state;
        va_start(ap, format);
        vsnprintf(row->reason, sizeof(row->reason), format, ap);
        va_end(ap);
}

static void need_kernel_file(struct keeper_state *keeper, enum cloche_guard guard, const char *file)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/ns/%s", file);
        if (access(path, F_OK) < 0)
                set(keeper, guard, CLOCHE_GUARD_ABSENT, "this kernel has no %s namespaces", file);
}

static void need_controller(struct keeper_state *keeper, enum cloche_guard guard, enum cgroup_controller controller,
                            enum cloche_guard_state otherwise, const char *instead)
{
        const struct cgroup_place *place = &keeper->cgroups.places[controller];

        if (!place->version)
                set(keeper, guard, otherwise, "%s%s", instead, place->reason);
}

static void need_core_scheduling(struct keeper_state *keeper)
{
        uint64_t cookie;
        int r = keeper->wants_core_scheduling ? core_scheduling_read(&cookie) : 0;

        if (!keeper->wants_core_scheduling)
                set(keeper, CLOCHE_GUARD_CORE_SCHEDULING, CLOCHE_GUARD_OFF, "not requested (--core-scheduling)");
        else if (r < 0)
                set(keeper, CLOCHE_GUARD_CORE_SCHEDULING, CLOCHE_GUARD_ABSENT, "%s", core_scheduling_reason(-r));
}

void guards_fill(struct keeper_state *keeper)
{
        static const struct {
                enum cloche_guard guard;
                const char *file;
        } namespaces[] = {
                {CLOCHE_GUARD_USER_NAMESPACE, "user"}, {CLOCHE_GUARD_PID_NAMESPACE, "pid"},
                {CLOCHE_GUARD_MOUNT_NAMESPACE, "mnt"}, {CLOCHE_GUARD_IPC_NAMESPACE, "ipc"},
                {CLOCHE_GUARD_UTS_NAMESPACE, "uts"},   {CLOCHE_GUARD_CGROUP_NAMESPACE, "cgroup"},
                {CLOCHE_GUARD_NET_NAMESPACE, "net"},
        };

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                set(keeper, (enum cloche_guard)g, CLOCHE_GUARD_ENFORCED, "%s", "");
        for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++)
                need_kernel_file(keeper, namespaces[i].guard, namespaces[i].file);
        need_controller(keeper, CLOCHE_GUARD_MEMORY, CGROUP_MEMORY, CLOCHE_GUARD_DEGRADED,
                        "each process alone, by RLIMIT_DATA: ");
        need_controller(keeper, CLOCHE_GUARD_PIDS, CGROUP_PIDS, CLOCHE_GUARD_DEGRADED, "by RLIMIT_NPROC: ");
        need_controller(keeper, CLOCHE_GUARD_CPU, CGROUP_CPUACCT, CLOCHE_GUARD_DEGRADED,
                        "each process alone, by RLIMIT_CPU: ");
        if (keeper->cgroups.places[CGROUP_CPUACCT].version)
                need_controller(keeper, CLOCHE_GUARD_CPU, CGROUP_CPU, CLOCHE_GUARD_DEGRADED,
                                "time is measured, share not bounded: ");
        need_controller(keeper, CLOCHE_GUARD_FREEZER, CGROUP_FREEZER, CLOCHE_GUARD_DEGRADED,
                        "killed as a whole, not frozen: ");
        need_core_scheduling(keeper);
        if (keeper->is_root)
                return;
        if (geteuid() == 0)
                set(keeper, CLOCHE_GUARD_PRIVATE_UID, CLOCHE_GUARD_DEGRADED,
                    "this user namespace maps too few users: a box runs as its root");
        else
                set(keeper, CLOCHE_GUARD_PRIVATE_UID, CLOCHE_GUARD_DEGRADED,
                    "without root a box runs as the host user %u who started it", (unsigned)geteuid());
}
