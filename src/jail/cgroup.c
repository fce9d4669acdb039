/* One box's groups: made, entered, measured, frozen, removed. */
#include "cgroup-internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define REMOVE_PATIENCE_NS UINT64_C(5000000000)

int cgroup_make(const struct cgroup_host *host, unsigned box, const struct cgroup_limits *limits, struct cloche_err *e)
{
        char path[CGROUP_PATH_MAX + 64];

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                const struct cgroup_place *place = &host->places[c];
                int r;

                if (!place->version)
                        continue;
                r = cgroup_box_path(path, sizeof(path), place, box, NULL);
                /* Controllers mounted together, and all of version 2, share one directory. */
                if (r == 0 && mkdir(path, 0755) < 0 && errno != EEXIST)
                        r = -errno;
                if (r == 0)
                        r = cgroup_set_limit(host, c, box, limits);
                if (r < 0) {
                        (void)cgroup_remove(host, box, NULL);
                        return err_os(e, CLOCHE_E_CGROUP, -r, "set up the %s group", cgroup_controller_names[c]);
                }
        }
        return 0;
}

/* Controllers mounted together, and all of version 2, share one directory. */
static int is_repeated(const struct cgroup_host *host, int controller)
{
        for (int c = 0; c < controller; c++)
                if (host->places[c].version && strcmp(host->places[c].base, host->places[controller].base) == 0)
                        return 1;
        return 0;
}

int cgroup_open_tasks(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count, struct cloche_err *e)
{
        char path[CGROUP_PATH_MAX + 64];
        size_t count = 0;

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                const struct cgroup_place *place = &host->places[c];
                int r;

                if (!place->version || is_repeated(host, c))
                        continue;
                r = cgroup_box_path(path, sizeof(path), place, box, place->version == 1 ? "tasks" : "cgroup.procs");
                if (r == 0) {
                        ret_fds[count] = open(path, O_WRONLY | O_CLOEXEC);
                        r = ret_fds[count] < 0 ? -errno : 0;
                }
                if (r < 0) {
                        while (count > 0)
                                fd_close(&ret_fds[--count]);
                        return err_os(e, CLOCHE_E_CGROUP, -r, "open the %s group", cgroup_controller_names[c]);
                }
                count++;
        }
        *ret_count = count;
        return 0;
}

static int open_one(const struct cgroup_host *host, unsigned box, enum cgroup_controller controller, int *ret_fd, struct cloche_err *e)
{
        const struct cgroup_place *place = &host->places[controller];
        char path[CGROUP_PATH_MAX + 64];
        int r;

        *ret_fd = -EBADF;
        if (!place->version)
                return 0;
        r = cgroup_box_path(path, sizeof(path), place, box, place->version == 1 ? "tasks" : "cgroup.procs");
        if (r == 0)
                *ret_fd = open(path, O_WRONLY | O_CLOEXEC);
        return *ret_fd < 0 ? err_os(e, CLOCHE_E_CGROUP, r < 0 ? -r : errno, "open the %s group", controller == CGROUP_MEMORY ? "memory" : "processor") : 0;
}

int cgroup_open_memory(const struct cgroup_host *host, unsigned box, int *ret_fd, struct cloche_err *e)
{
        return open_one(host, box, CGROUP_MEMORY, ret_fd, e);
}

int cgroup_open_processor(const struct cgroup_host *host, unsigned box, int *ret_fd, struct cloche_err *e)
{
        return open_one(host, box, CGROUP_CPU, ret_fd, e);
}

int cgroup_enter(const int *tasks_fds, size_t count, struct cloche_err *e)
{
        for (size_t i = 0; i < count; i++) {
                int r = fd_write_full(tasks_fds[i], "0", 1);

                if (r < 0)
                        return err_os(e, CLOCHE_E_CGROUP, -r, "enter the box's groups");
        }
        return 0;
}

/* -- what it used --------------------------------------------------------------------------------------------- */

static void read_memory(const struct cgroup_place *place, unsigned box, struct cgroup_usage *ret)
{
        if (place->version == 1) {
                ret->memory_known = cgroup_read_number(place, box, "memory.max_usage_in_bytes", NULL, &ret->memory_peak_bytes) == 0;
                (void)cgroup_read_number(place, box, "memory.oom_control", "oom_kill", &ret->oom_kills);
        } else if (place->version == 2) {
                ret->memory_known = cgroup_read_number(place, box, "memory.peak", NULL, &ret->memory_peak_bytes) == 0;
                (void)cgroup_read_number(place, box, "memory.events", "oom_kill", &ret->oom_kills);
        }
}

void cgroup_read_usage(const struct cgroup_host *host, unsigned box, struct cgroup_usage *ret)
{
        const struct cgroup_place *cpu = &host->places[CGROUP_CPUACCT], *pids = &host->places[CGROUP_PIDS];

        *ret = (struct cgroup_usage){0};
        read_memory(&host->places[CGROUP_MEMORY], box, ret);
        if (cpu->version == 1) {
                ret->cpu_known = cgroup_read_number(cpu, box, "cpuacct.usage", NULL, &ret->cpu_ns) == 0;
        } else if (cpu->version == 2) {
                ret->cpu_known = cgroup_read_number(cpu, box, "cpu.stat", "usage_usec", &ret->cpu_ns) == 0;
                ret->cpu_ns *= 1000;
        }
        if (pids->version) {
                ret->pids_known = cgroup_read_number(pids, box, "pids.peak", NULL, &ret->pids_peak) == 0;
                (void)cgroup_read_number(pids, box, "pids.events", "max", &ret->pids_refused);
        }
}

void cgroup_forget_peak(const struct cgroup_host *host, unsigned box)
{
        if (host->places[CGROUP_MEMORY].version == 1)
                (void)cgroup_write_box(&host->places[CGROUP_MEMORY], box, "memory.max_usage_in_bytes", "0");
}

int cgroup_freeze(const struct cgroup_host *host, unsigned box, int frozen, struct cloche_err *e)
{
        const struct cgroup_place *place = &host->places[CGROUP_FREEZER];
        int r;

        if (!place->version)
                return err_set(e, CLOCHE_E_GUARD_MISSING, "freeze: %s", place->reason);
        if (place->version == 1)
                r = cgroup_write_box(place, box, "freezer.state", frozen ? "FROZEN" : "THAWED");
        else
                r = cgroup_write_box(place, box, "cgroup.freeze", frozen ? "1" : "0");
        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "%s the box", frozen ? "freeze" : "thaw") : 0;
}

void cgroup_kill(const struct cgroup_host *host, unsigned box)
{
        const struct cgroup_place *freezer = &host->places[CGROUP_FREEZER];

        /* A frozen task of version 1 takes no signal, not even SIGKILL, until it is thawed. */
        if (freezer->version == 1)
                (void)cgroup_write_box(freezer, box, "freezer.state", "THAWED");
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version == 2)
                        (void)cgroup_write_box(&host->places[c], box, "cgroup.kill", "1"); /* Linux 5.14 */
}

static int remove_patiently(const char *path)
{
        uint64_t deadline_ns = clock_now_ns() + REMOVE_PATIENCE_NS;

        /* A dead task leaves its group a moment after it was waited for. */
        while (rmdir(path) < 0) {
                if (errno == ENOENT)
                        return 0;
                if (errno != EBUSY || clock_now_ns() > deadline_ns)
                        return -errno;
                usleep(500);
        }
        return 0;
}

int cgroup_remove(const struct cgroup_host *host, unsigned box, struct cloche_err *e)
{
        char path[CGROUP_PATH_MAX + 64];
        int result = 0;

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                int r;

                if (!host->places[c].version)
                        continue;
                r = cgroup_box_path(path, sizeof(path), &host->places[c], box, NULL);
                if (r == 0)
                        r = remove_patiently(path);
                if (r < 0)
                        result = err_os(e, CLOCHE_E_CGROUP, -r, "remove the %s group", cgroup_controller_names[c]);
        }
        return result;
}
