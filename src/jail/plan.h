/* What a box is to be: filled by the keeper, read by every step of the jail. Plain data, nothing owned. */
#ifndef CLOCHE_JAIL_PLAN_H
#define CLOCHE_JAIL_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JAIL_UID 1000 /* the one user of a box, and its group */
#define JAIL_HOST_NAME "cloche"
#define JAIL_MOUNTS_MAX 8
#define JAIL_PLACES 5 /* where a guest may write: root_places */
#define JAIL_SHARED_PLACES 4 /* the first of them: of a sandbox */
#define JAIL_GROUPS_FD 6 /* of box-init in a box that shares: from here on the way into the control groups */

struct jail_plan {
        const char *image;       /* directory, or "" for the host's /usr */
        const char *runtime_dir; /* plain files copied to /run/cloche, or "" */
        const char *mounts[JAIL_MOUNTS_MAX]; /* where file systems of the engine's stand */
        size_t mount_count;
        int fuse_dir_fd; /* a directory with the node "fuse" in it */
        uint64_t disk_bytes, disk_inodes;
        uint64_t file_bytes, open_files, pids, cpu_ms;
        uint64_t data_bytes; /* RLIMIT_DATA where no control group holds memory; UINT64_MAX: none */
        int is_template; /* its interpreter has CAP_SYS_ADMIN of its user namespace, under the template's filter; when not nested it hands out its root */
        unsigned depth;  /* templates above */
        int nested;      /* beneath a template: born in a copy of its root */
        int is_sandbox;  /* has terminals, and asks a resolver on its loopback for names */
        int is_sharing;  /* born in a sandbox's namespaces, with a pid namespace and a view of the mounts of its own; nested: all namespaces its own,
                          * but its user, files and groups */
        int core_scheduling; /* it shares no processor core with others */
        const int *places_fds; /* nested and sharing: the sandbox's writable places; else NULL */
        int own_groups;      /* the child may and must drop supplementary groups (root keeper) */
        int guest_fd;   /* libcloche-guest, copied to /run/cloche for a template; -EBADF: none */
        int init_fd;    /* sealed program of PID 1 */
        int control_fd; /* becomes descriptor 3 of PID 1 */
        const int *tasks_fds; /* the way into the box's control groups (cgroup_enter) */
        size_t tasks_count;
        int birth_fd; /* its version 2 group, in which PID 1 is born (CLONE_INTO_CGROUP); -EBADF: none, or it enters by tasks_fds */
};

#endif
