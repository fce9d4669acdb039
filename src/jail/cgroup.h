/* Control groups, version 1, version 2, or both at once: every controller is taken where the host has it.
 * cgroups(7), Documentation/admin-guide/cgroup-v1/ and cgroup-v2.rst. */
#ifndef CLOCHE_JAIL_CGROUP_H
#define CLOCHE_JAIL_CGROUP_H

#include <cloche/cloche.h>
#include <sys/types.h>

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CPUACCT, CGROUP_FREEZER, CGROUP_CONTROLLERS };

#define CGROUP_PATH_MAX 1024

/* Where this keeper's boxes go: per controller a directory of ours, or none and why. */
struct cgroup_host {
        struct cgroup_place {
                int version;                /* 0: not to be had, reason says why */
                char base[CGROUP_PATH_MAX]; /* our directory in that hierarchy */
                char reason[120];
        } places[CGROUP_CONTROLLERS];
};

struct cgroup_limits {
        uint64_t memory_bytes, pids, cpu_percent; /* UINT64_MAX: none */
};

struct cgroup_usage {
        uint64_t cpu_ns, memory_peak_bytes, oom_kills, pids_peak, pids_refused;
        int cpu_known, memory_known, pids_known;
};

/* Find the hierarchies through /proc/self/mountinfo and /proc/self/cgroup, make our directory in each, and remove what
 * keepers that were killed left behind. Never fails: what cannot be had is said in the places. */
void cgroup_host_open(struct cgroup_host *host);
/* The same from given texts and without making anything, for tests. */
void cgroup_host_find(struct cgroup_host *host, const char *mountinfo, const char *own_groups);
/* The same groups, made by another process: for cgroup_read_usage only. Reading them takes no privilege. */
void cgroup_host_watch(struct cgroup_host *host, pid_t keeper);
void cgroup_host_close(struct cgroup_host *host);

/* A box's groups, named by its id. Made, limited, entered, measured, removed. */
int cgroup_make(const struct cgroup_host *host, unsigned box, const struct cgroup_limits *limits, struct cloche_err *e);
/* The files of the box's groups through which a process enters them ("tasks", version 2: "cgroup.procs"). A process
 * moved by another makes the kernel wait for a grace period (13 ms here), one that moves its only thread does not;
 * the right to do so comes with the descriptor. ret_fds: CGROUP_CONTROLLERS rows, owned by the caller. */
int cgroup_open_tasks(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count, struct cloche_err *e);
/* That of the memory group alone; -EBADF in *ret_fd where there is none. */
int cgroup_open_memory(const struct cgroup_host *host, unsigned box, int *ret_fd, struct cloche_err *e);
/* Likewise that by which its processor share is held. */
int cgroup_open_processor(const struct cgroup_host *host, unsigned box, int *ret_fd, struct cloche_err *e);
int cgroup_enter(const int *tasks_fds, size_t count, struct cloche_err *e);
/* Other limits for a living box; 0: as it is. Memory only where a group holds it at all, the others are CLOCHE_E_GUARD_MISSING without theirs.
 * CLOCHE_E_INVALID_ARGUMENT: more memory is used, by pages that cannot be taken back; then nothing was changed. */
int cgroup_limit(const struct cgroup_host *host, unsigned box, const struct cgroup_limits *limits, struct cloche_err *e);
void cgroup_read_usage(const struct cgroup_host *host, unsigned box, struct cgroup_usage *ret);
/* The next reading of the memory peak counts from now; version 2 cannot. */
void cgroup_forget_peak(const struct cgroup_host *host, unsigned box);
int cgroup_freeze(const struct cgroup_host *host, unsigned box, int frozen, struct cloche_err *e);
/* Kill what is in the groups (processes that a fork bomb keeps making die with their pid namespace already). */
void cgroup_kill(const struct cgroup_host *host, unsigned box);
int cgroup_remove(const struct cgroup_host *host, unsigned box, struct cloche_err *e);

#endif
