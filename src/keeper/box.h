/* The keeper's boxes: made, forked into, measured, frozen, dropped. */
#ifndef CLOCHE_KEEPER_BOX_H
#define CLOCHE_KEEPER_BOX_H

#include "caller.h"
#include "jail/cgroup/cgroup.h"
#include "jail/ids.h"
#include "jail/root/plan.h"
#include "jail/subids.h"
#include "jail/userns.h"
#include "passthrough.h"
#include "pending.h"
#include "proto/keeper.h"
#include "volume.h"

#include <sys/types.h>

#define KEEPER_SYNCS_MAX 64 /* at the same time */
#define KEEPER_IMAGE_PROGRAMS_MAX 8
#define KEEPER_IMAGE_READERS 2 /* of these: none that writes, which may undo work for long after its client left */

enum box_state {
        BOX_FREE,
        BOX_STARTING, /* its PID 1 is being made (box-make.c) */
        BOX_LIVING,
        BOX_DYING,   /* killed, not yet reaped */
        BOX_LEAVING, /* reaped; its number stays taken until its groups are removed */
        BOX_STATES
};

struct box {
        enum box_state state; /* set by box_set_state */
        pid_t init_pid;       /* 0: none yet */
        int init_pidfd;
        uint32_t parent; /* KEEPER_NO_BOX */
        int is_sandbox, is_frozen;
        int has_writable_root, has_root;
        struct ids_lease ids; /* of one with root that root's keeper has made; without: fd is -EBADF */
        uint32_t shared_with; /* the sandbox's box whose control groups this one uses, or KEEPER_NO_BOX; with a parent
                                 also its user and files */
        char host_name[KEEPER_HOST_NAME_SIZE],
                boot_id[KEEPER_BOOT_ID_SIZE]; /* "": none; a sharing box has the sandbox's */
        int has_lost_sandbox; /* the sandbox was dropped; this box is dead too, and keeps its number until its own drop
                               */
        uint64_t leaves_since_ns;
        uint32_t drop_serial;           /* of the drop request; 0: answered, or none */
        struct keeper_usage last_usage; /* when it was reaped */
        struct keeper_box_limits limits;
        struct jail_user user; /* as the box shows it */
        int tree_fd;           /* its image from the store, locked against removal (flock(2)); -EBADF: another */
        /* For a template only. */
        int is_template;
        int fork_fd;         /* for sending struct fork_request */
        int user_fd, pid_fd; /* namespaces; the pid namespace of its init's children */
        int root_fd;         /* mount namespace with the built root; -EBADF when nested: the root of root_box is used */
        uint32_t root_box;
        unsigned depth; /* number of templates above */
        /* The network of the next box beneath it. No process was in it but the helper that made
         * it. */
        int network_fd;         /* -EBADF: there is none */
        int is_next_begun;      /* by the helper of a box that is being made */
        int next_network_fd;    /* receives it from the helper; -EBADF: none is being made */
        pid_t next_network_pid; /* the helper */
        /* Its mounts: the connections until they are served, then the servers. */
        uint32_t mount_count;
        int fuse_fds[KEEPER_MOUNTS_MAX];
        char (*mount_targets)[KEEPER_TARGET_MAX]; /* of a sandbox that has mounts; or NULL */
        pid_t server_pids[KEEPER_MOUNTS_MAX];     /* 0: none */
        struct passthrough passthroughs[KEEPER_MOUNTS_MAX];
        pid_t egress_pid; /* of its network; 0: none */
};

struct keeper_state {
        struct cgroup_host cgroups;
        int init_program_fd;
        int guest_fd;         /* libcloche-guest, or -EBADF: no templates can be made */
        int sudo_fd;          /* cloche-sudo, or -errno */
        int proc_fd;          /* the host's /proc */
        int own_pid_fd;       /* our pid namespace */
        int is_root;          /* can give each box its own host user */
        struct subids subids; /* an ordinary user's, of the last request for root */
        int wants_core_scheduling;
        const char *image, *runtimes; /* the only image of boxes that is no tree: a directory or ""; the directory of
                                         runtimes or NULL */
        const char *trees;            /* the directory of unpacked images, or NULL */
        int images_are_written;       /* cloche-image may change the store that trees is in */
        const char *volumes_dir;      /* or NULL */
        struct volume volumes[KEEPER_VOLUMES_MAX];
        int fs_program_fd, sync_program_fd, egress_program_fd; /* cloche-fs, cloche-sync, cloche-egress, or -errno */
        int image_program_fd;                                  /* cloche-image, likewise */
        int passthrough_fd; /* epoll(7) of the servers' passthrough sockets; -errno: an ordinary user's keeper has none
                             */
        int fuse_dir_fd;    /* a directory with a device "fuse" that boxes may open, or -errno */
        struct keeper_root roots[KEEPER_ROOTS_MAX];
        uint32_t root_count;
        pid_t sync_pids[KEEPER_SYNCS_MAX]; /* 0: free */
        pid_t image_pids[KEEPER_IMAGE_PROGRAMS_MAX];
        struct keeper_guard guards[CLOCHE_GUARD_COUNT];
        uint32_t dying, leaving;     /* number of boxes in these states */
        uint32_t making_networks;    /* number of boxes with a next_network_fd */
        int has_ahead, wants_ahead;  /* the groups of the box ahead exist; are to be made */
        uint32_t box_ahead;          /* a free row, for the next box with groups of its own */
        struct pending_list pending; /* requests */
        struct box boxes[KEEPER_BOXES_MAX];
};

/* keeper.c: send an answer. If it reports a new box, the pidfd of its PID 1 comes first. fds: two,
 * -EBADF for none; borrowed. Returns 0 or -errno. */
int keeper_answer(struct keeper_state *keeper, const struct keeper_answer *answer, const int fds[2]);

/* box-make.c: begin to make a box. The answer to the request with this serial comes later, with the
 * control socket of its PID 1, and for a template its fork socket. */
int box_make(struct keeper_state *keeper, const struct keeper_box_spec *spec, uint32_t serial, struct cloche_err *e);
/* The transition must be legal. Counts the boxes that are dying or leaving. */
void box_set_state(struct keeper_state *keeper, struct box *row, enum box_state state);
/* Make the groups of the next box, while no request waits. No process was in them, and they have no
 * limits yet. A failure is no error: the next box makes its own groups. */
void box_make_groups_ahead(struct keeper_state *keeper);
void box_remove_groups_ahead(struct keeper_state *keeper);
/* Undo a box that is being made: it dies, or leaves at once if it has no PID 1. */
void box_undo(struct keeper_state *keeper, uint32_t box);
/* For box-fork.c. *ret_fd is owned by the caller. */
int box_open_namespace(const struct keeper_state *keeper, pid_t pid, const char *name, int *ret_fd,
                       struct cloche_err *e);
/* The resource limits of a box's processes, by RLIMIT_…; UINT64_MAX: unchanged. */
void box_rlimits(const struct keeper_state *keeper, int is_sandbox, uint32_t shared_with,
                 const struct keeper_box_limits *limits, uint64_t ret[RLIM_NLIMITS]);
/* box-fork.c. id: the template's name for the child. fds: KEEPER_FORK_FDS rows, the last -EBADF
 * unless the box is a template's; borrowed. */
int box_fork(struct keeper_state *keeper, uint32_t box, uint32_t id, const int *fds, struct cloche_err *e);
/* Return NULL, with an error, if the box does not exist or is dying. box_find also fails if it has
 * lost its sandbox. */
struct box *box_find_living(struct keeper_state *keeper, uint32_t box, struct cloche_err *e);
struct box *box_find(struct keeper_state *keeper, uint32_t box, struct cloche_err *e);
/* Return the user under whom a box's user namespace is made; called by a root keeper. */
uid_t box_owner(uint32_t box);
/* Return the guest's user on the host, if the keeper is root; a sharing box has the sandbox's. In
 * a box with a root of its own that user is the root. */
uid_t box_user(const struct keeper_state *keeper, const struct box *row);
/* Set memory_bytes, pids and cpu_percent; 0 keeps a limit. */
int box_limit(struct keeper_state *keeper, uint32_t box, const struct keeper_box_limits *limits, struct cloche_err *e);
/* Freeze or thaw the processes of a box that has groups of its own, but not the programs that serve
 * it. box_freeze does not wait: 1: all are frozen; 0: not yet, call it again.
 * CLOCHE_E_GUARD_MISSING: the host has no group that freezes.
 * */
int box_freeze(struct keeper_state *keeper, uint32_t box, struct cloche_err *e);
int box_thaw(struct keeper_state *keeper, uint32_t box, struct cloche_err *e);
void box_usage(struct keeper_state *keeper, uint32_t box, struct keeper_usage *ret);
/* Kill all processes of the box. They are gone when init_pidfd polls readable: the kernel reaps PID
 * 1 last. A template that does not reap its children delays that; the keeper serves others
 * meanwhile. */
int keeper_box_kill(struct keeper_state *keeper, uint32_t box, uint32_t serial, struct cloche_err *e);
/* Reap the box once init_pidfd polls readable; then it leaves. */
void box_reap(struct keeper_state *keeper, uint32_t box);
/* Try to remove the groups of a leaving box, without waiting. 1: they are gone, and the row is
 * free; 0: a process is still in them, try again. A template may have kept their descriptors and
 * may send its own processes in: these are killed each time, and delay only that box. */
int box_leave(struct keeper_state *keeper, uint32_t box);

/* sources.c */
/* Check that the box may be made of the image and the runtime that it names. */
int sources_check(const struct keeper_state *keeper, const struct keeper_box_spec *spec, struct cloche_err *e);
/* Make a copy of the mount of a box's tree in which the image's owners are those of this range.
 * In a helper, for a user namespace that says so has to be made. *ret_fd: owned by the caller. */
int sources_map_tree(const struct keeper_state *keeper, int tree_fd, const struct userns_range *range, int *ret_fd,
                     struct cloche_err *e);
/* Make a user namespace with this range. */
int sources_make_map(const struct keeper_state *keeper, const struct userns_range *range, int *ret_fd,
                     struct cloche_err *e);
/* Make a copy of an image in which its owners are as in the user namespace of a process.
 * File systems that cannot do it (Linux 5.19, ext4, xfs, btrfs, tmpfs from 6.3 on) show the
 * owners of the host, nobody; for a writable root that is an error. */
int sources_map_user(const struct keeper_state *keeper, int tree_fd, pid_t pid, int is_writable, int *ret_fd,
                     struct cloche_err *e);
/* Open and lock an image that is a tree. *ret_fd is owned by the caller, and untouched for other
 * images. */
int sources_open_tree(const struct keeper_state *keeper, const struct keeper_box_spec *spec, int *ret_fd,
                      struct cloche_err *e);

/* Fail unless only the keeper's user can reach into the directory. kind: of its
 * content, for the message. */
int sources_check_private(int fd, const char *kind, const char *path, struct cloche_err *e);

/* Open the store that the directory of trees is in. *ret_fd is owned by the caller. */
int sources_open_store(const struct keeper_state *keeper, int *ret_fd, struct cloche_err *e);

/* serve.c */
/* Open another program in path's directory: the descriptor, or -errno. */
int serve_open_beside(const char *path, const char *name, int flags);
/* Set up the needs of mounts: programs beside init_path, the device, the permitted directories.
 * Only a directory that fails is an error: without the rest there are no mounts. */
int serve_set_up(struct keeper_state *keeper, const char *init_path, char *const *roots, size_t count,
                 struct cloche_err *e);
/* A request to start a program. fds: the control socket; for a sync the directory of contents
 * before it, for the image store the source of an import. caller_fd: the socket of the user
 * whose rights count, or -EBADF. Borrowed. box: KEEPER_NO_BOX for a sync and for the image
 * store. serial: of the request, which is answered when the program runs. */
struct serve_order {
        const struct keeper_service_spec *spec;
        const int *fds;
        int caller_fd;
        uint32_t box, serial;
};
int serve_mount(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e);
int serve_sync(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e);
int serve_images(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e);
int serve_net(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e);
/* Kill the servers of a box: a guest that is blocked in a call of a mount does not die before its
 * server replies or ends. */
void serve_kill(struct box *box);
void serve_reap(struct box *box);
/* Serve at most one packet of each server, without waiting. Call it when passthrough_fd polls
 * readable. */
void serve_passthroughs(struct keeper_state *keeper);
void serve_close_passthroughs(struct keeper_state *keeper, struct box *box);
/* Reap syncs that have ended. is_end: wait for all of them up to ten seconds, then kill them. */
void serve_reap_syncs(struct keeper_state *keeper, int is_end);

/* network.c: make the sockets at which a sandbox's connections and its DNS queries by UDP and by
 * TCP end; owned by the caller. */
#define NETWORK_FDS 3
int network_make_sockets(const struct keeper_state *keeper, const struct box *row, int ret_fds[NETWORK_FDS],
                         struct cloche_err *e);

/* The clone of PID 1 by another process, up to the point where enter_box waits for go_fd. PID 1 is
 * our child. */
struct clone_order {
        const struct keeper_state *keeper;
        const struct jail_plan *plan;
        const struct box *parent, *sandbox; /* the template above; the sandbox to share with; or NULL */
        int go_fd, report_fd;               /* the ends of PID 1 */
        int network_fd;                     /* beneath a template: the network made ahead, or -EBADF */
        int next_network_fd;                /* the mapper makes the network of the next box and sends it here; -EBADF:
                                               it does not */
};
/* Start the helpers: box-nested.c for a box beneath a template, box-shared.c for one beside a
 * sandbox's. *ret_fd: to be read by helpers_receive; owned by the caller. */
struct helpers;
int box_nested_clone(const struct clone_order *order, struct helpers *ret, int *ret_fd, struct cloche_err *e);
int box_shared_clone(const struct clone_order *order, struct helpers *ret, int *ret_fd, struct cloche_err *e);
/* next_network_fd of this template polls readable: its helper has sent a network, or failed. */
void box_nested_keep_network(struct keeper_state *keeper, struct box *template);
/* Kill a template whose code delayed its helpers, and all boxes beneath it. */
void box_nested_punish(struct keeper_state *keeper, uint32_t template);

/* Copy the sandbox's writable places, for a box beneath a template; JAIL_SHARED_PLACES descriptors,
 * owned by the caller. */
int box_shared_take_mounts(const struct box *sandbox, int ret_fds[JAIL_SHARED_PLACES], struct cloche_err *e);
/* Likewise the overlays of its writable root (root_take_layers). */
int box_shared_take_layers(const struct box *sandbox, int *ret_fd, struct cloche_err *e);
/* Copies of the mounts that these places do not bring along; the plan's mounts are these then.
 * ret_fds: owned by the caller; -EBADF behind them. */
int box_shared_take_others(const struct box *sandbox, struct jail_plan *plan, int ret_fds[KEEPER_MOUNTS_MAX],
                           struct cloche_err *e);
/* Check that a box of this spec may share with the box it names. */
int box_shared_check(struct keeper_state *keeper, const struct keeper_box_spec *spec, struct cloche_err *e);
/* Return the box whose control groups this one is in. */
uint32_t box_shared_groups(const struct keeper_state *keeper, uint32_t box);
/* Check that the box has its own control groups. */
int box_shared_check_groups(const struct keeper_state *keeper, uint32_t box, struct cloche_err *e);
/* For the drop of a sandbox's box, in this order. box_shared_kill kills the boxes that share with
 * it. box_shared_closed_fd returns a pidfd to wait for; it is the sandbox's own when all of them
 * are dead. box_shared_release releases them, but their rows stay taken until each is dropped:
 * their owner still uses the numbers. */
void box_shared_kill(struct keeper_state *keeper, uint32_t sandbox);
int box_shared_closed_fd(const struct keeper_state *keeper, uint32_t sandbox);
void box_shared_release(struct keeper_state *keeper, uint32_t sandbox);

/* Host users of boxes: the start of this range plus the pid of the box's init, so no two live boxes
 * share one. It lies past the ranges that useradd(8), subuid(5) and systemd (524288 to 1879048191)
 * give out; pids end at 2^22. The first one belongs to no box: it owns the user namespaces beneath
 * templates. */
#define BOX_UID_BASE 0x70000000u
#define BOX_UID_COUNT 0x400000u
/* The number of nested boxes: a base, a prefix, a context, and the boxes forked from that, each
 * beneath the one before. User and pid namespaces nest at most 32 deep (user_namespaces(7),
 * pid_namespaces(7)). The host may have used some of these levels; then the kernel refuses
 * earlier. */
#define DEPTH_MAX 30

#endif
