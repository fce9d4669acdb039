/* Control groups, version 1, version 2, or both at once: every controller is taken where the host has it.
 * cgroups(7), Documentation/admin-guide/cgroup-v1/ and cgroup-v2.rst; where version 2 lets us work: cgroup-home.h. */
#ifndef CLOCHE_JAIL_CGROUP_H
#define CLOCHE_JAIL_CGROUP_H

#include <cloche/cloche.h>
#include <sys/types.h>

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CPUACCT, CGROUP_FREEZER, CGROUP_CONTROLLERS };

#define CGROUP_PATH_MAX 1024
#define CGROUP_REASON_MAX 220

/* Where this keeper's boxes go: per controller a directory of ours, or none and why. Plain data: the keeper sends it to the engine. */
struct cgroup_host {
        struct cgroup_place {
                int version;                /* 0: not to be had, reason says why */
                char base[CGROUP_PATH_MAX]; /* our directory in that hierarchy */
                char reason[CGROUP_REASON_MAX];
        } places[CGROUP_CONTROLLERS];
};

/* The version 2 hierarchy as this process sees it. */
struct cgroup_unified {
        char mount_point[CGROUP_PATH_MAX]; /* "": the host mounts none */
        char own[CGROUP_PATH_MAX];         /* this process's group below it; "": the topmost */
        char controllers[512];             /* of the topmost group */
};

struct cgroup_limits {
        uint64_t memory_bytes, pids, cpu_percent; /* UINT64_MAX: none */
};

struct cgroup_usage {
        uint64_t cpu_ns, memory_peak_bytes, oom_kills, pids_peak, pids_refused;
        int cpu_known, memory_known, pids_known;
};

/* Have the service manager move this process into a group that is delegated to us.
 * Errors  CLOCHE_E_NOT_FOUND: there is no service manager to ask; others: it refused. */
typedef int (*cgroup_request_scope)(const void *data, struct cloche_err *e);

/* Find the hierarchies through /proc/self/mountinfo and /proc/self/cgroup, make our directory in each, and remove the
 * directories of keepers that were killed. Never fails: the places hold a reason for each controller that is missing.
 * request_scope, data  see above; called at most once, and only where version 2 has a controller that version 1 lacks. */
void cgroup_host_open(struct cgroup_host *host, cgroup_request_scope request_scope, const void *data);
/* Find the hierarchies in given texts and make nothing. base is the parent of our directory; of version 2, which has one
 * parent for all (cgroup_home_open), it is empty. */
void cgroup_host_find(struct cgroup_host *host, struct cgroup_unified *ret_unified, const char *mountinfo, const char *own_groups);
void cgroup_host_close(struct cgroup_host *host);

/* A box's groups, named by its id. Made, limited, entered, measured, removed.
 * cgroup_make fails where a group of that id is there already: it may hold processes of another box. */
int cgroup_make(const struct cgroup_host *host, unsigned box, const struct cgroup_limits *limits, struct cloche_err *e);
/* The files of the box's groups through which a process enters them ("tasks", version 2: "cgroup.procs"). A process
 * moved by another makes the kernel wait for a grace period (13 ms here); one that moves its only thread does not in version 1
 * (decision 0001), and does in version 2 (decision 0015). The right to move comes with the descriptor. ret_fds: CGROUP_CONTROLLERS rows, owned by the caller. */
int cgroup_open_tasks(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count, struct cloche_err *e);
/* Likewise for a child that is born in the version 2 group: those of version 1 in ret_fds, and in *ret_into_fd the directory
 * for CLONE_INTO_CGROUP (Linux 5.7), or -EBADF where version 2 has no controller of ours. */
int cgroup_open_birth(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count, int *ret_into_fd, struct cloche_err *e);
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
/* Kill everything in the groups. Most of it dies with its pid namespace; but a template, which has the entrance to a box in its hands
 * for the time of a fork, may have kept it, and may have sent processes of its own in. */
void cgroup_kill(const struct cgroup_host *host, unsigned box);
/* Kill and remove, once, without waiting.
 * Returns  0: gone; -EBUSY: a process is in there still, also a dead one for a moment: try again; other: -errno. */
int cgroup_try_remove(const struct cgroup_host *host, unsigned box);
/* The same until it succeeds, for some seconds at most. */
int cgroup_remove(const struct cgroup_host *host, unsigned box, struct cloche_err *e);

#endif
