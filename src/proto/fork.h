/* The keeper's request that a template forks a child into a box: one packet each, no reply (the
 * keeper reads no guest bytes; the child's first message goes to the engine). SOCK_SEQPACKET.
 * Descriptors, in this order: those of enum fork_fd, then tasks_count files of the box's control
 * groups, then with is_template the fork socket of the new template. */
#ifndef CLOCHE_PROTO_FORK_H
#define CLOCHE_PROTO_FORK_H

#include <stdint.h>
#include <sys/resource.h>

enum fork_fd {
        FORK_FD_STDIN,
        FORK_FD_STDOUT,
        FORK_FD_STDERR,
        FORK_FD_CHANNEL,
        /* Namespaces of the box. The template joins the pid namespace, for its next child. The
         * child first joins the network, which the template's user namespace owns, then the box's
         * user namespace, which owns the others. */
        FORK_FD_PID,
        FORK_FD_USER,
        FORK_FD_MOUNT,
        FORK_FD_IPC,
        FORK_FD_UTS,
        FORK_FD_CGROUP,
        FORK_FD_NET,
        FORK_FD_COUNT
};

#define FORK_TASKS_MAX 5
#define FORK_DIRECTORY_SIZE 1024 /* of the path in which a child begins */

struct fork_request {
        uint32_t id; /* the number of the child; never reused */
        uint32_t is_template;
        uint32_t tasks_count;
        uint32_t refuses_netlink; /* the child does, for good */
        uint32_t core_scheduling; /* the child shares no processor core with others, including its template */
        uint32_t uid, gid;        /* the user of the box, in it */
        uint32_t reserved;
        uint64_t rlimits[RLIM_NLIMITS]; /* by RLIMIT_…; UINT64_MAX: unchanged */
};

#endif
