/* The plan of a box: filled by the keeper, read by every step of the jail. Plain data, nothing
 * owned. */
#ifndef CLOCHE_JAIL_ROOT_PLAN_H
#define CLOCHE_JAIL_ROOT_PLAN_H

#include "jail/user.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The upper directories of a writable root, read-only; an archive has their members below this
 * name. */
#define JAIL_CHANGES "run/.changes"
#define JAIL_BIN "run/bin" /* our programs in the PATH of a box with a root of its own */
#define JAIL_HOST_NAME "cloche"
#define JAIL_HOSTS_SIZE 160 /* of the file with a host name of at most 64 bytes */
#define JAIL_MOUNTS_MAX 8
#define JAIL_PLACES 5        /* writable places of a guest: root_places */
#define JAIL_SHARED_PLACES 4 /* the places of a sandbox: the first of these */
#define JAIL_GROUPS_FD 6     /* descriptors of the control groups in box-init of a sharing box, from here on */
#define JAIL_LEASE_FD 6      /* descriptor of the lease of ids in box-init of another box (jail/ids.h) */

struct jail_plan {
        const char *trees;                   /* directory in which image is a name; NULL: image is a path */
        const char *image;                   /* directory, or "" for the host's /usr */
        struct jail_user user;               /* beneath a template: only its ids count */
        const char *runtime_dir;             /* plain files copied to /run/cloche, or "" */
        int runtime_fd;                      /* that directory, of a sharing box; -EBADF: none */
        const char *mounts[JAIL_MOUNTS_MAX]; /* mount points of the engine's file systems */
        size_t mount_count;
        unsigned file_mounts; /* a bit each: it is a file, not a directory */
        int fuse_dir_fd;      /* a directory with the node "fuse" in it */
        const int *mount_fds; /* made by the keeper, and only attached; NULL: the box makes them */
        uint64_t disk_bytes, disk_inodes;
        uint64_t rlimits[RLIM_NLIMITS]; /* by RLIMIT_…; UINT64_MAX: none but those that every box has */
        int is_template; /* its interpreter has CAP_SYS_ADMIN of its user namespace, under the template's filter; if not
                            nested, it sends its root to the keeper */
        unsigned depth;  /* templates above */
        int nested;      /* beneath a template: born in a copy of its root */
        int has_writable_root; /* of a sandbox: an overlay on each directory of its image */
        int takes_image;       /* root's keeper sends image_fd when the box's user is known, with its owners mapped */
        int image_fd;          /* a mount of the image that the keeper sent, or -EBADF */
        int has_root;          /* of a sandbox: its user is 0 of 65,536 ids, with the rights of caps_keep_root */
        int init_is_roots;     /* the files in /proc of its PID 1 belong to this user, not to root of the host */
        int lease_fd;          /* of these ids; -EBADF: no such box, or a sharing one */
        int sudo_fd;           /* cloche-sudo, for the PATH of a box with root; -EBADF: none */
        const char *host_name, *boot_id; /* boot_id "": none is shown */
        int files_fd;        /* the mount of an ext4 in which all its files are, with the quota; -EBADF: in memory */
        int is_sandbox;      /* has terminals, and sends DNS queries to its loopback */
        int is_sharing;      /* born in a sandbox's namespaces, except for pid and mount namespaces; if
                              * nested: has its own namespaces, but the user, files and groups of the
                              * sandbox */
        int core_scheduling; /* it shares no processor core with others */
        int layers_fd; /* nested and sharing: the overlays of the sandbox's writable root (root_take_layers), or -EBADF
                        */
        const int *places_fds; /* nested and sharing: the sandbox's writable places; else NULL */
        int own_groups;        /* the child may and must drop supplementary groups (root keeper) */
        int guest_fd;          /* libcloche-guest, copied to /run/cloche of a template; -EBADF: none */
        int init_fd;           /* sealed program of PID 1 */
        int control_fd;        /* becomes descriptor 3 of PID 1 */
        const int *tasks_fds;  /* files through which it enters its control groups (cgroup_enter) */
        size_t tasks_count;
        int birth_fd; /* its version 2 group, in which PID 1 is born (CLONE_INTO_CGROUP); -EBADF: none, or it enters by
                         tasks_fds */
};

#endif
