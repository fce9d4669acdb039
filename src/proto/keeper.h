/* The requests of the engine to the keeper, and the answers. SOCK_SEQPACKET, one packet each; the
 * answer carries the request's type and serial. A request that waits for another process is
 * answered when that is ready (pending.h), a drop when the box is gone, everything else in turn.
 * Plain values without pointers, and no variable lengths: the keeper checks size, range and
 * terminator of every field before use (request.c), because the engine parses hostile bytes. */
#ifndef CLOCHE_PROTO_KEEPER_H
#define CLOCHE_PROTO_KEEPER_H

#include "jail/cgroup/cgroup.h"
#include "jail/user.h"

#include <cloche/guards.h>
#include <stddef.h>
#include <string.h>

#define KEEPER_PATH_MAX 4096
#define KEEPER_BOXES_MAX 4096
/* Arguments after box-init's path. */
#define KEEPER_CORE_SCHEDULING "--core-scheduling" /* each box shall have its own cookie */
#define KEEPER_IMAGE "--image="                    /* the directory that boxes are made of; default: the host's /usr */
#define KEEPER_TREES "--trees="                    /* the directory of unpacked images; default: none */
#define KEEPER_IMAGES_WRITTEN "--images-written"   /* programs of the image store may change it */
#define KEEPER_TREE_PREFIX "sha256-"
#define KEEPER_TREE_DIGITS 64
#define KEEPER_TREE_LISTING ".list" /* beside each tree: its modification time is that of the last use */
#define KEEPER_TREE_SIZE (sizeof(KEEPER_TREE_PREFIX) + KEEPER_TREE_DIGITS) /* with its 0 */
#define KEEPER_VOLUMES "--volumes=" /* the directory of volumes, made at first use; default: none */
#define KEEPER_VOLUME_ID_SIZE 33    /* of 32 digits in lower case, with its 0 */
#define KEEPER_VOLUMES_MAX 1024     /* at work or open at one time */
#define KEEPER_VOLUME_BYTES_MIN (UINT64_C(16) << 20)
#define KEEPER_VOLUME_BYTES_MAX (UINT64_C(16) << 40)
#define KEEPER_SCRATCH_ENTRIES_MAX UINT64_C(1000000000)
#define KEEPER_RUNTIMES "--runtimes=" /* the directory of the runtimes of boxes; default: no runtimes */
#define KEEPER_NO_BOX UINT32_MAX
#define KEEPER_MOUNTS_MAX 8 /* of one box */
#define KEEPER_TARGET_MAX 256
#define KEEPER_ROOTS_MAX 32           /* directories of the host beneath which mounts are permitted */
#define KEEPER_CALLER_GROUPS_MAX 1024 /* supplementary groups of a user whose rights count for a mount */
/* A request without a spec or a service, and an answer other than to KEEPER_HELLO, has only this
 * size: sockets hold a few hundred of these, and a few dozen full-size ones. */
#define KEEPER_REQUEST_HEAD offsetof(struct keeper_request, spec)
#define KEEPER_ANSWER_HEAD offsetof(struct keeper_answer, guards)
#define KEEPER_HOST_NAME_SIZE 64
#define KEEPER_BOOT_ID_SIZE 37 /* as of the kernel, with its 0 */
#define KEEPER_FORK_FDS 5      /* for KEEPER_BOX_FORK: 0, 1, 2, the channel, and for a template its fork socket */

enum keeper_op {
#define KEEPER_REQUEST(symbol, handler, when, doc) KEEPER_##symbol,
#include <cloche/keeper.def>
#undef KEEPER_REQUEST
        KEEPER_OP_COUNT
};

/* Limits that the kernel enforces; UINT64_MAX: none. */
struct keeper_box_limits {
        uint64_t memory_bytes, pids, cpu_percent, cpu_ms, disk_bytes, disk_inodes, file_bytes, open_files;
};

struct keeper_box_spec {
        struct keeper_box_limits limits;
        uint32_t optional_guards;   /* see struct cloche_engine_options */
        uint32_t parent;            /* the box of the template above, whose root is shared, or KEEPER_NO_BOX */
        uint32_t is_template;       /* boxes may be made beneath it */
        uint32_t is_sandbox;        /* has terminals (devpts) and a resolver in resolv.conf; boxes may share with it */
        uint32_t shared_with;       /* a sandbox's box whose files, network, ids and groups
                                     * this one shares, in its own pid namespace; or
                                     * KEEPER_NO_BOX. With a parent it shares writable
                                     * places, user and groups, and its PID 1 must have
                                     * answered a request before a fork into it */
        uint32_t has_writable_root; /* a sandbox's: the directories of its tree can be changed, in its quota */
        uint32_t has_root;          /* such a sandbox's: its programs are root of 65,536 ids; those of boxes that share
                                       with it too */
        struct jail_user user;  /* as the box shows it; all 0 in a box with a parent, or that shares: it has theirs */
        uint32_t mount_count;   /* 0 for a template */
        uint32_t file_mounts;   /* a bit for each mount that is one file, by its number */
        uint32_t volume_mounts; /* likewise, that is an open volume; of a sandbox's box only */
        uint32_t read_only;     /* likewise, that is one of these and cannot be written to */
        char mounts[KEEPER_MOUNTS_MAX][KEEPER_TARGET_MAX]; /* mount points in the box; each that is no volume is to be
                                                              served by a KEEPER_SERVE */
        char volumes[KEEPER_MOUNTS_MAX][KEEPER_VOLUME_ID_SIZE]; /* of the mounts that are volumes */
        char scratch[KEEPER_VOLUME_ID_SIZE];   /* with has_writable_root: the scratch volume in which all its files are;
                                                  "": they are in memory */
        char image[KEEPER_PATH_MAX];           /* the keeper's image, "": the host's /usr; or a name in its directory of
                                                  trees (keeper_is_tree); with a parent: "" */
        char host_name[KEEPER_HOST_NAME_SIZE]; /* of a sandbox's box; "": the usual one. Boxes that share have it too */
        char boot_id[KEEPER_BOOT_ID_SIZE];     /* likewise, in place of the kernel's; "": none is shown */
        char runtime_dir[KEEPER_PATH_MAX];     /* in the keeper's directory of runtimes; its plain files are copied to
                                                  /run/cloche in the box; "": none, or the parent's */
};

/* One of our programs that works on a directory of the host, without privilege, as its owner. If a
 * unix socket is sent as one more descriptor, root's keeper starts it as the user who connected
 * that socket, unless that is root: a directory that this user may not open is not mounted. */
enum keeper_service {
        KEEPER_SERVICE_MOUNT, /* cloche-fs, for a mount of a box; fds: its control socket, and optionally a caller's */
        KEEPER_SERVICE_SYNC,  /* cloche-sync; fds: the directory of contents, its control socket, and optionally a
                                 caller's */
        KEEPER_SERVICE_NET,   /* cloche-egress, for the network of a sandbox's box; fds: its control socket */
        /* cloche-image, for the store that the directory of trees is in, as the keeper's
         * user; fds: the source of an import or /dev/null, and its control socket. is_written
         * 0: it can change nothing. */
        KEEPER_SERVICE_IMAGES,
        KEEPER_SERVICE_COUNT
};

struct keeper_service_spec {
        uint32_t service;
        uint32_t mount;             /* KEEPER_SERVICE_MOUNT: index in the box */
        uint32_t root;              /* index of a directory on the keeper's command line; path is beneath it */
        uint32_t is_written;        /* 0 or 1: a caller must be allowed to write to the directory */
        char path[KEEPER_PATH_MAX]; /* relative, "" or "." for the root itself */
};

enum keeper_volume_action {
        KEEPER_VOLUME_MAKE,
        KEEPER_VOLUME_OPEN, /* mount it, for boxes that name it; one that is open is only measured */
        KEEPER_VOLUME_CLOSE,
        KEEPER_VOLUME_REMOVE,  /* one that is not there is no error */
        KEEPER_VOLUME_SCRATCH, /* make one without a name and open it, for one box; its last user's end frees its bytes
                                */
        KEEPER_VOLUME_ACTIONS
};

struct keeper_volume_spec {
        uint32_t action;
        uint32_t reserved;
        uint64_t size_bytes; /* KEEPER_VOLUME_MAKE: of its image; KEEPER_VOLUME_SCRATCH: of its files; else 0 */
        uint64_t entries;    /* KEEPER_VOLUME_SCRATCH: files and directories; else 0 */
        char id[KEEPER_VOLUME_ID_SIZE];
};

/* The usage of an open volume. */
struct keeper_volume_usage {
        uint64_t bytes, used_bytes, entries, used_entries;
};

struct keeper_request {
        uint32_t op;
        uint32_t serial;
        uint32_t box;
        uint32_t reserved;
        union {
                struct keeper_box_spec spec;        /* KEEPER_BOX_MAKE; KEEPER_BOX_LIMIT: limits.memory_bytes, pids and
                                                       cpu_percent, 0 keeps a limit */
                struct keeper_service_spec service; /* KEEPER_SERVE */
                struct keeper_volume_spec volume;   /* KEEPER_VOLUME */
        };
};

/* True for sha256- and 64 digits in lower case: names of unpacked images have no other form. */
static inline int keeper_is_tree(const char *name)
{
        const char *digits = name + sizeof(KEEPER_TREE_PREFIX) - 1;

        return strncmp(name, KEEPER_TREE_PREFIX, sizeof(KEEPER_TREE_PREFIX) - 1) == 0 &&
               strspn(digits, "0123456789abcdef") == KEEPER_TREE_DIGITS && digits[KEEPER_TREE_DIGITS] == '\0';
}

static inline int keeper_is_volume(const char *id)
{
        return id[KEEPER_VOLUME_ID_SIZE - 1] == '\0' && strspn(id, "0123456789abcdef") == KEEPER_VOLUME_ID_SIZE - 1;
}

static inline size_t keeper_request_size(uint32_t op)
{
        return op == KEEPER_BOX_MAKE || op == KEEPER_BOX_LIMIT ? sizeof(struct keeper_request)
               : op == KEEPER_SERVE  ? KEEPER_REQUEST_HEAD + sizeof(struct keeper_service_spec)
               : op == KEEPER_VOLUME ? KEEPER_REQUEST_HEAD + sizeof(struct keeper_volume_spec)
                                     : KEEPER_REQUEST_HEAD;
}

struct keeper_usage {
        uint64_t cpu_ns;            /* 0 if cpu_known is 0 */
        uint64_t memory_peak_bytes; /* likewise memory_known */
        uint64_t oom_kills;         /* processes of the box killed because its memory was full */
        uint64_t pids_peak;         /* 0 if the kernel does not count it */
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
        uint32_t mount_user; /* KEEPER_BOX_MAKE: the host's user that the mounts show as owner; 0: the box's own user */
        struct cloche_err err; /* code 0: done */
        struct keeper_usage usage;
        uint32_t is_frozen, reserved;      /* KEEPER_BOX_FREEZE */
        struct keeper_volume_usage volume; /* KEEPER_VOLUME_OPEN, KEEPER_VOLUME_SCRATCH */
        /* For KEEPER_HELLO only. */
        struct keeper_guard guards[CLOCHE_GUARD_COUNT];
        struct cgroup_host groups;                         /* the engine reads the usage from there itself */
        uint32_t memory_has_attributes, reserved_of_hello; /* tmpfs has user attributes: layers may lie in memory */
};

#endif
