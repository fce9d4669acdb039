/* The privileged door: requests of the engine to the keeper, answers back. SOCK_SEQPACKET, one packet each, the answer
 * carries the request's type and serial. A request that waits for another process is answered when that is ready
 * (pending.h), a drop when the box is gone, everything else in turn. Plain values without pointers or lengths to follow;
 * the keeper checks size, range and terminator of every field before use (request.c), because the engine parses hostile
 * bytes. */
#ifndef CLOCHE_KEEPER_PROTOCOL_H
#define CLOCHE_KEEPER_PROTOCOL_H

#include "jail/cgroup.h"

#include <cloche/cloche.h>
#include <stddef.h>

#define KEEPER_PATH_MAX 4096
#define KEEPER_BOXES_MAX 4096
/* Words behind box-init's path. */
#define KEEPER_CORE_SCHEDULING "--core-scheduling" /* each box is to have a cookie of its own */
#define KEEPER_IMAGE "--image="                   /* the directory that boxes are made of; without it the host's /usr */
#define KEEPER_RUNTIMES "--runtimes="             /* the directory in which those of boxes are; without it they have none */
#define KEEPER_NO_BOX UINT32_MAX
#define KEEPER_MOUNTS_MAX 8 /* of one box */
#define KEEPER_TARGET_MAX 256
#define KEEPER_ROOTS_MAX 32 /* directories of the host beneath which mounts are permitted */
/* Of a request without a spec or a service, and of an answer other than to KEEPER_HELLO, this much is sent: sockets hold a few
 * hundred of these, and a few dozen whole ones. */
#define KEEPER_REQUEST_HEAD offsetof(struct keeper_request, spec)
#define KEEPER_ANSWER_HEAD offsetof(struct keeper_answer, guards)
#define KEEPER_FORK_FDS 5 /* of a KEEPER_BOX_FORK: 0, 1, 2, the channel, and for a template its fork socket */

enum keeper_op {
#define KEEPER_REQUEST(symbol, handler, when, doc) KEEPER_##symbol,
#include <cloche/keeper.def>
#undef KEEPER_REQUEST
        KEEPER_OP_COUNT
};

/* Limits the kernel holds; UINT64_MAX: none. */
struct keeper_box_limits {
        uint64_t memory_bytes, pids, cpu_percent, cpu_ms, disk_bytes, disk_inodes, file_bytes, open_files;
};

struct keeper_box_spec {
        struct keeper_box_limits limits;
        uint32_t optional_guards;          /* as in struct cloche_engine_options */
        uint32_t parent;                   /* the template's box this one is beneath and shares the root of, or KEEPER_NO_BOX */
        uint32_t is_template;              /* boxes may be made beneath it */
        uint32_t is_sandbox;               /* has terminals (devpts) and a resolver in resolv.conf; boxes may share with it */
        uint32_t shared_with;              /* a sandbox's box whose files, network, ids and groups this one has, in a pid namespace of its own; or KEEPER_NO_BOX.
                                            * With a parent its writable places, user and groups; nothing may be forked into it before its PID 1 has answered something */
        uint32_t mount_count;              /* none of a template */
        uint32_t file_mounts;              /* a bit each, by number: it is one file, and so is its place */
        char mounts[KEEPER_MOUNTS_MAX][KEEPER_TARGET_MAX]; /* where in the box file systems stand that a KEEPER_SERVE each is to serve */
        char image[KEEPER_PATH_MAX];       /* the one the keeper was started with, "": the host's /usr; with a parent: "" */
        char runtime_dir[KEEPER_PATH_MAX]; /* in the directory the keeper was started with; its plain files are copied to /run/cloche in the box; "": none, or the parent's */
};

/* A program of ours that works on a directory of the host, without privilege, as its owner. When a unix socket comes as one more
 * descriptor, root's keeper starts it as the user who connected that socket, unless that is root: a directory that he may not open is not mounted. */
enum keeper_service {
        KEEPER_SERVICE_MOUNT, /* cloche-fs, for a mount of a box; fds: its control socket, and perhaps a caller's */
        KEEPER_SERVICE_SYNC,  /* cloche-sync; fds: the directory of contents, its control socket, and perhaps a caller's */
        KEEPER_SERVICE_NET,   /* cloche-gate, for the network of a sandbox's box; fds: its control socket */
        KEEPER_SERVICE_COUNT
};

struct keeper_service_spec {
        uint32_t service;
        uint32_t mount; /* KEEPER_SERVICE_MOUNT: which of the box */
        uint32_t root;  /* which of the directories the keeper was started with; path is beneath it */
        uint32_t is_written; /* 0 or 1: a caller must be allowed to write to the directory */
        char path[KEEPER_PATH_MAX]; /* relative, "" or "." for the root itself */
};

struct keeper_request {
        uint32_t op;
        uint32_t serial;
        uint32_t box;
        uint32_t reserved;
        union {
                struct keeper_box_spec spec; /* KEEPER_BOX_MAKE; KEEPER_BOX_LIMIT: limits.memory_bytes, pids and cpu_percent, 0 for one that stays as it is */
                struct keeper_service_spec service; /* KEEPER_SERVE */
        };
};

static inline size_t keeper_request_size(uint32_t op)
{
        return op == KEEPER_BOX_MAKE || op == KEEPER_BOX_LIMIT ? sizeof(struct keeper_request)
               : op == KEEPER_SERVE                            ? KEEPER_REQUEST_HEAD + sizeof(struct keeper_service_spec)
                                                               : KEEPER_REQUEST_HEAD;
}

struct keeper_usage {
        uint64_t cpu_ns;            /* 0 with cpu_known 0 */
        uint64_t memory_peak_bytes; /* likewise memory_known */
        uint64_t oom_kills;         /* processes of the box killed for want of memory */
        uint64_t pids_peak;         /* 0 where the kernel does not count it */
        uint64_t pids_refused;      /* forks refused by the limit */
        uint32_t cpu_known, memory_known, pids_known, reserved;
};

struct keeper_guard {
        uint32_t state; /* enum cloche_guard_state */
        char reason[CGROUP_REASON_MAX];
};

struct keeper_answer {
        uint32_t op;
        uint32_t serial;
        uint32_t box;
        uint32_t reserved;
        struct cloche_err err; /* code 0: done */
        struct keeper_usage usage;
        /* KEEPER_HELLO only. */
        struct keeper_guard guards[CLOCHE_GUARD_COUNT];
        struct cgroup_host groups; /* the engine reads usage there by itself */
};

#endif
