/* Control groups, version 1, version 2, or both at once: every controller is used where the host
 * has it. cgroups(7), Documentation/admin-guide/cgroup-v1/ and cgroup-v2.rst. Our place in version
 * 2: home.h. */
#ifndef CLOCHE_JAIL_CGROUP_CGROUP_H
#define CLOCHE_JAIL_CGROUP_CGROUP_H

#include <cloche/error.h>
#include <sys/types.h>

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CPUACCT, CGROUP_FREEZER, CGROUP_CONTROLLERS };

#define CGROUP_PATH_MAX 1024
#define CGROUP_REASON_MAX 220

/* The groups of this keeper's boxes: per controller a directory of ours, or the reason why there is
 * none. Plain data: the keeper sends it to the engine. */
struct cgroup_host {
        struct cgroup_place {
                int version;                /* 0: unusable, see reason */
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
        uint64_t memory_bytes, pids, cpu_percent; /* UINT64_MAX: no limit */
};

struct cgroup_usage {
        uint64_t cpu_ns, memory_peak_bytes, oom_kills, pids_peak, pids_refused;
        int cpu_known, memory_known, pids_known;
};

/* The usage of this moment. */
struct cgroup_present {
        uint64_t memory_bytes, pids;
        int memory_known, pids_known;
};

enum cgroup_counter {
        CGROUP_MEMORY_PEAK,
        CGROUP_OOM_KILLS,
        CGROUP_CPU_TIME,
        CGROUP_PIDS_PEAK,
        CGROUP_PIDS_REFUSED,
        CGROUP_COUNTERS
};

/* The files of a box's counters, open. Zeroed: closed. */
struct cgroup_usage_files {
        int is_open;
        int versions[CGROUP_COUNTERS];
        int fds[CGROUP_COUNTERS]; /* negative: the host has no such file, or this process may not read it */
};

/* Request that the service manager moves this process into a group that is delegated to us.
 * Errors  CLOCHE_E_NOT_FOUND: no service manager runs; others: it refused. */
typedef int (*cgroup_request_scope)(const void *data, struct cloche_err *e);

/* Find the hierarchies through /proc/self/mountinfo and /proc/self/cgroup, make our directory in
 * each, and remove the directories of keepers that were killed. Never fails: the places hold a
 * reason for each controller that is missing.
 * request_scope, data  see above; called at most once, and only if version 2 has a controller that
 *                      version 1 lacks. */
void cgroup_host_open(struct cgroup_host *host, cgroup_request_scope request_scope, const void *data);
/* Find the hierarchies in the given texts, and make nothing. base is the parent of our directory;
 * for version 2, which has one parent for all controllers (cgroup_home_open), it is empty. */
void cgroup_host_find(struct cgroup_host *host, struct cgroup_unified *ret_unified, const char *mountinfo,
                      const char *own_groups);
void cgroup_host_close(struct cgroup_host *host);
/* Let processes die that were frozen when their keeper was killed. */
void cgroup_thaw_left(void);

/* The groups of a box, named by its id. cgroup_make fails if a group of that id exists: it may hold
 * processes of another box. */
int cgroup_make(const struct cgroup_host *host, unsigned box, struct cloche_err *e);
/* Set the limits of new groups; a failure removes the groups. */
int cgroup_set_limits(const struct cgroup_host *host, unsigned box, const struct cgroup_limits *limits,
                      struct cloche_err *e);
/* Open the files of the box's groups through which a process enters them ("tasks", version 2:
 * "cgroup.procs"). If one process moves another, the kernel waits for a grace period (13 ms here).
 * A process that moves its only thread does not wait in version 1 (decision 0001), and does in
 * version 2 (decision 0015). The descriptor carries the right to move. ret_fds: CGROUP_CONTROLLERS
 * rows, owned by the caller. */
int cgroup_open_tasks(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count,
                      struct cloche_err *e);
/* Likewise for a child that is born in the version 2 group: ret_fds has the files of version 1, and
 * *ret_into_fd the directory for CLONE_INTO_CGROUP (Linux 5.7), or -EBADF if version 2 has no
 * controller of ours. */
int cgroup_open_birth(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count, int *ret_into_fd,
                      struct cloche_err *e);
/* Likewise for the memory group alone; *ret_fd is -EBADF if there is none. */
int cgroup_open_memory(const struct cgroup_host *host, unsigned box, int *ret_fd, struct cloche_err *e);
/* Likewise for the group that holds its processor share. */
int cgroup_open_processor(const struct cgroup_host *host, unsigned box, int *ret_fd, struct cloche_err *e);
int cgroup_enter(const int *tasks_fds, size_t count, struct cloche_err *e);
/* Change the limits of a live box; 0 keeps a limit. Memory is changed only if a group holds it at
 * all; for the others a missing controller is CLOCHE_E_GUARD_MISSING.
 * CLOCHE_E_INVALID_ARGUMENT: the box uses more memory, in pages that cannot be reclaimed; then
 * nothing was changed. */
int cgroup_limit(const struct cgroup_host *host, unsigned box, const struct cgroup_limits *limits,
                 struct cloche_err *e);
void cgroup_read_usage(const struct cgroup_host *host, unsigned box, struct cgroup_usage *ret);
void cgroup_read_present(const struct cgroup_host *host, unsigned box, struct cgroup_present *ret);
/* The same as cgroup_read_usage in two parts: to read the counters of one box again and again.
 * Returns  0, also if some files cannot be read; -EMFILE, -ENFILE, -ENOMEM: nothing is open. */
int cgroup_usage_open(const struct cgroup_host *host, unsigned box, struct cgroup_usage_files *ret);
void cgroup_usage_read(const struct cgroup_usage_files *files, struct cgroup_usage *ret);
void cgroup_usage_close(struct cgroup_usage_files *files);
/* Restart the measurement of the memory peak; version 2 cannot. */
void cgroup_reset_peak(const struct cgroup_host *host, unsigned box);
/* Take one of our own processes out of the group that freezes, or put it back: a guest that waits
 * in a FUSE request for a frozen server cannot be frozen itself (fs/fuse/dev.c,
 * request_wait_answer). Only where version 2 freezes: in version 1 the process is in the groups of
 * memory and processor alone.
 * Returns  0, also if the process has ended; -errno. */
int cgroup_set_aside(const struct cgroup_host *host, unsigned box, pid_t pid, int is_aside);
/* Request that all processes in the groups freeze, and tell whether they have: version 1 needs the
 * request again until then (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst), version 2
 * (Linux 5.2) takes it.
 * Returns  1: all are frozen; 0: not yet; -CLOCHE_E_GUARD_MISSING: no group of ours freezes. */
int cgroup_freeze(const struct cgroup_host *host, unsigned box, struct cloche_err *e);
int cgroup_thaw(const struct cgroup_host *host, unsigned box, struct cloche_err *e);
/* Kill all processes in the groups. Most of them die with their pid namespace. But a template holds
 * the entrance to a box during a fork: it may have kept it, and may have moved its own processes
 * in. */
void cgroup_kill(const struct cgroup_host *host, unsigned box);
/* Kill and remove, once, without waiting.
 * Returns  0: removed; -EBUSY: a process is still in there (also a dead one for a moment), try
 *          again; other: -errno. */
int cgroup_try_remove(const struct cgroup_host *host, unsigned box);
/* The same until it succeeds, for some seconds at most. */
int cgroup_remove(const struct cgroup_host *host, unsigned box, struct cloche_err *e);

#endif
