/* The keeper's boxes: made, forked into, measured, frozen, dropped. */
#ifndef CLOCHE_KEEPER_BOX_H
#define CLOCHE_KEEPER_BOX_H

#include "caller.h"
#include "jail/cgroup.h"
#include "jail/plan.h"
#include "passthrough.h"
#include "pending.h"
#include "protocol.h"

#include <sys/types.h>

#define KEEPER_SYNCS_MAX 64 /* at once */

enum box_state {
        BOX_FREE,
        BOX_STARTING, /* its PID 1 is being made (box-make.c) */
        BOX_LIVING,
        BOX_DYING,   /* killed, and not reaped yet */
        BOX_LEAVING, /* reaped; its groups are not gone yet, and its number is nobody else's until they are */
};

struct box {
        enum box_state state;
        pid_t init_pid; /* 0: none yet */
        int init_pidfd;
        uint32_t parent; /* KEEPER_NO_BOX */
        int is_sandbox;
        uint32_t shared_with; /* the sandbox's box this one has no control groups besides, or KEEPER_NO_BOX; with a parent the user and the files too */
        int has_lost_sandbox; /* dropped; this is dead too, and its number waits for its own drop */
        uint64_t leaves_since_ns;
        uint32_t drop_serial; /* of the request to drop it; 0: answered, or there was none */
        struct keeper_usage last_usage; /* when it was reaped */
        struct keeper_box_limits limits;
        /* Of a template only. */
        int is_template;
        int fork_fd; /* we send struct fork_request */
        int user_fd, pid_fd; /* namespaces; the pid namespace of its init's children */
        int root_fd;         /* mount namespace with the built root; -EBADF when nested: the root of root_box is used */
        uint32_t root_box;
        unsigned depth; /* templates above */
        /* Its mounts: the connections until they are served, then the servers. */
        uint32_t mount_count;
        int fuse_fds[KEEPER_MOUNTS_MAX];
        pid_t server_pids[KEEPER_MOUNTS_MAX]; /* 0: none */
        struct passthrough passthroughs[KEEPER_MOUNTS_MAX];
        pid_t gate_pid; /* of its network; 0: none */
};

struct keeper_state {
        struct cgroup_host cgroups;
        int init_program_fd;
        int guest_fd; /* libcloche-guest, or -EBADF: no templates can be made */
        int proc_fd;   /* the host's /proc */
        int own_pid_fd; /* our pid namespace */
        int is_root;   /* may give each box a host user of its own */
        int wants_core_scheduling;
        const char *image, *runtimes; /* what boxes may be made of: a directory or "", and the directory of runtimes or NULL */
        int fs_program_fd, sync_program_fd, gate_program_fd; /* cloche-fs, cloche-sync, cloche-gate, or -errno */
        int passthrough_fd; /* epoll(7) of what the servers ask; -errno: an ordinary user's keeper has none */
        int fuse_dir_fd; /* a directory with a device "fuse" that boxes may open, or -errno */
        struct keeper_root roots[KEEPER_ROOTS_MAX];
        uint32_t root_count;
        pid_t sync_pids[KEEPER_SYNCS_MAX]; /* 0: free */
        struct keeper_guard guards[CLOCHE_GUARD_COUNT];
        uint32_t dying, leaving; /* boxes in these states */
        struct pending_list pending; /* requests */
        struct box boxes[KEEPER_BOXES_MAX];
};

/* keeper.c: with the pidfd of a box's PID 1 in front where the answer is that it was made. fds: two, -EBADF for none; borrowed. 0 or -errno. */
int keeper_answer(struct keeper_state *keeper, const struct keeper_answer *answer, const int fds[2]);

/* box-make.c: begin it. The answer to the request with this serial comes later, with the control socket of its PID 1, and of a template the socket on
 * which it is told to fork. */
int box_make(struct keeper_state *keeper, const struct keeper_box_spec *spec, uint32_t serial, struct cloche_err *e);
int box_find_free(struct keeper_state *keeper, uint32_t *ret, struct cloche_err *e);
/* One that was being made: it dies, or leaves at once when it has no PID 1. */
void box_undo(struct keeper_state *keeper, uint32_t box);
/* For box-fork.c. *ret_fd is owned by the caller. What each process holds of the limit of pids cannot be raised later, and a sandbox's may be: it is none
 * where the group holds it. */
int box_open_namespace(const struct keeper_state *keeper, pid_t pid, const char *name, int *ret_fd, struct cloche_err *e);
uint64_t box_pids(const struct keeper_state *keeper, int is_sandbox, uint32_t shared_with, const struct keeper_box_limits *limits);
/* box-fork.c. id: what the template calls the child. fds: KEEPER_FORK_FDS rows, the last -EBADF unless the box is a template's; borrowed. */
int box_fork(struct keeper_state *keeper, uint32_t box, uint32_t id, const int *fds, struct cloche_err *e);
/* NULL, with an error: there is none, or it is about to go. box_find: nor has it lost the sandbox with which it shares. */
struct box *box_find_living(struct keeper_state *keeper, uint32_t box, struct cloche_err *e);
struct box *box_find(struct keeper_state *keeper, uint32_t box, struct cloche_err *e);
/* The user under whom a box's user namespace is made; called by the keeper, which is root. */
uid_t box_owner(uint32_t box);
/* The host user whom the guest of a box is for a keeper that is root; of one that shares the sandbox's. */
uid_t box_user(const struct keeper_state *keeper, const struct box *row);
/* memory_bytes, pids, cpu_percent, unless 0. */
int box_limit(struct keeper_state *keeper, uint32_t box, const struct keeper_box_limits *limits, struct cloche_err *e);
void box_usage(struct keeper_state *keeper, uint32_t box, struct keeper_usage *ret);
/* Kill everything in it. It is gone when init_pidfd polls readable: the kernel reaps PID 1 last. A template that does not
 * reap its children delays that; nobody waits for it. */
int box_kill(struct keeper_state *keeper, uint32_t box, uint32_t serial, struct cloche_err *e);
/* Once init_pidfd polls readable: reap it. It leaves then. */
void box_reap(struct keeper_state *keeper, uint32_t box);
/* Try to remove the groups of a box that leaves, without waiting. 1: they are gone, and the row is free; 0: a process is in there still, try
 * again. A template may have kept the way in and may send its own processes in: they are killed each time, and hold up nobody but themselves. */
int box_leave(struct keeper_state *keeper, uint32_t box);

/* serve.c */
/* Another program of the directory path lies in: the descriptor, or -errno. */
int serve_open_beside(const char *path, const char *name, int flags);
/* What mounts need: programs beside init_path, the device, the directories that may be mounted. Of these alone a failure is an
 * error: without the rest there are no mounts. */
int serve_set_up(struct keeper_state *keeper, const char *init_path, char *const *roots, size_t count, struct cloche_err *e);
/* A program to be started. fds: the control socket; of a sync the directory of contents before it. caller_fd: the socket of the user whose rights count, or
 * -EBADF. Borrowed. box: KEEPER_NO_BOX for a sync. serial: of the request, whose answer comes when the program runs. */
struct serve_order {
        const struct keeper_service_spec *spec;
        const int *fds;
        int caller_fd;
        uint32_t box, serial;
};
int serve_mount(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e);
int serve_sync(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e);
int serve_net(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e);
/* Those of a box, killed: a guest in the middle of a call of a mount does not die before its server answers or is gone. */
void serve_kill(struct box *box);
void serve_reap(struct box *box);
/* What servers ask, at most once each; nothing is waited for. Call it when passthrough_fd polls readable. */
void serve_passthroughs(struct keeper_state *keeper);
void serve_close_passthroughs(struct keeper_state *keeper, struct box *box);
/* Syncs that have ended; with is_end all are waited for, for ten seconds, and then killed. */
void serve_reap_syncs(struct keeper_state *keeper, int is_end);

/* network.c: the sockets at which a sandbox's connections end, and its questions for names by UDP and by TCP; owned by the caller. */
#define NETWORK_FDS 3
int network_make_sockets(const struct keeper_state *keeper, const struct box *row, int ret_fds[NETWORK_FDS], struct cloche_err *e);

/* PID 1 of a box that another process has to clone, up to the point where enter_box waits for its go. It is our child. */
struct clone_order {
        const struct keeper_state *keeper;
        const struct jail_plan *plan;
        const struct box *parent, *sandbox; /* above it; with whom it shares; or NULL */
        int go_fd, report_fd;               /* PID 1's */
};
/* nest.c, of a box beneath a template; share.c, of one beside a sandbox's: the helpers are started. *ret_fd: what helpers_hear reads; owned by the caller. */
struct helpers;
int nest_clone(const struct clone_order *order, struct helpers *ret, int *ret_fd, struct cloche_err *e);
int share_clone(const struct clone_order *order, struct helpers *ret, int *ret_fd, struct cloche_err *e);
/* Code of a template held up its helpers: it is killed, with all that is beneath it. */
void nest_punish(struct keeper_state *keeper, uint32_t template);

/* The sandbox's writable places, for a box beneath a template; JAIL_SHARED_PLACES descriptors, owned by the caller. */
int share_take_places(const struct box *sandbox, int ret_fds[JAIL_SHARED_PLACES], struct cloche_err *e);
/* May a box of this spec share with whom it names? */
int share_check(struct keeper_state *keeper, const struct keeper_box_spec *spec, struct cloche_err *e);
/* The box whose control groups this one is in. */
uint32_t share_groups(const struct keeper_state *keeper, uint32_t box);
/* Has it any of its own? */
int share_check_groups(const struct keeper_state *keeper, uint32_t box, struct cloche_err *e);
/* Of a sandbox's box, when it is dropped: kill those that share with it; the pidfd to wait for, its own when all of them are dead; then let them
 * go. Their rows stay taken until each is dropped: a number that its owner still uses is nobody else's. */
void share_kill(struct keeper_state *keeper, uint32_t sandbox);
int share_gone_fd(const struct keeper_state *keeper, uint32_t sandbox);
void share_lose(struct keeper_state *keeper, uint32_t sandbox);

/* Host users of boxes: the first of this range and the pid of the box's init, so no two living boxes share one. Past the
 * ranges that useradd(8), subuid(5) and systemd (524288 to 1879048191) give out; pids end at 2^22. The first is nobody's
 * box: it owns the user namespaces beneath templates. */
#define BOX_UID_BASE 0x70000000u
#define BOX_UID_COUNT 0x400000u
/* A base, a prefix, a context, and what is forked out of that, one out of the other: this many in all. User and pid namespaces nest 32 deep at most
 * (user_namespaces(7), pid_namespaces(7)), of which the host may have taken some; then it is the kernel that says so. */
#define DEPTH_MAX 30

#endif
