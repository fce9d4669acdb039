#include "box.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/enter.h"
#include "jail/plan.h"
#include "jail/userns.h"
#include "usage.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ORDERS_BYTES 16384 /* some 40 orders of 13 descriptors: the kernel doubles it, and counts 768 for each */
#define INIT_NICE (-20) /* of a sandbox's PID 1 */
/* Owners of their user namespaces: this, 15 bits of the keeper's pid, 12 of the box's number. */
#define BOX_OWNER_BASE 0x78000000u

static int find_free(struct keeper_state *keeper, uint32_t *ret, struct cloche_err *e)
{
        for (uint32_t box = 0; box < KEEPER_BOXES_MAX; box++)
                if (!keeper->boxes[box].init_pid) {
                        *ret = box;
                        return 0;
                }
        return err_set(e, CLOCHE_E_RESOURCE, "all %d boxes are taken", KEEPER_BOXES_MAX);
}

uint64_t box_pids(const struct keeper_state *keeper, int is_sandbox, uint32_t shared_with, const struct keeper_box_limits *limits)
{
        int is_held_by_group = is_sandbox || shared_with != KEEPER_NO_BOX;

        return is_held_by_group && keeper->cgroups.places[CGROUP_PIDS].version ? UINT64_MAX : limits->pids;
}

uid_t box_user(const struct keeper_state *keeper, const struct box *row)
{
        return BOX_UID_BASE + (uid_t)(row->shared_with == KEEPER_NO_BOX ? row : &keeper->boxes[row->shared_with])->init_pid;
}

static struct jail_plan plan_of(const struct keeper_state *keeper, const struct keeper_box_spec *spec)
{
        struct jail_plan plan = {
                .image = spec->image,
                .runtime_dir = spec->runtime_dir,
                .disk_bytes = spec->limits.disk_bytes,
                .disk_inodes = spec->limits.disk_inodes,
                .file_bytes = spec->limits.file_bytes,
                .open_files = spec->limits.open_files,
                .pids = box_pids(keeper, (int)spec->is_sandbox, spec->shared_with, &spec->limits),
                .cpu_ms = spec->limits.cpu_ms,
                .data_bytes = keeper->cgroups.places[CGROUP_MEMORY].version ? UINT64_MAX : spec->limits.memory_bytes,
                .is_template = (int)spec->is_template,
                .depth = spec->parent == KEEPER_NO_BOX ? 0 : keeper->boxes[spec->parent].depth + 1,
                .nested = spec->parent != KEEPER_NO_BOX,
                .is_sandbox = (int)spec->is_sandbox,
                .is_sharing = spec->shared_with != KEEPER_NO_BOX,
                .own_groups = keeper->is_root,
                .guest_fd = spec->is_template ? keeper->guest_fd : -EBADF,
                .init_fd = keeper->init_program_fd,
                .birth_fd = -EBADF,
                .fuse_dir_fd = keeper->fuse_dir_fd,
                .mount_count = spec->mount_count,
        };

        for (size_t i = 0; i < plan.mount_count; i++)
                plan.mounts[i] = spec->mounts[i];
        return plan;
}

/* birth_fd: of the plan. A process that is born in its group costs nothing; one that moves waits for every fork on the machine to
 * pass (cgroup_threadgroup_rwsem, milliseconds on a quiet host). */
static pid_t clone_child(int birth_fd, int *ret_pidfd)
{
        struct clone_args args = {
                .flags = enter_clone_flags() | CLONE_PIDFD | (birth_fd < 0 ? 0 : CLONE_INTO_CGROUP),
                .pidfd = (uintptr_t)ret_pidfd,
                .exit_signal = SIGCHLD,
                .cgroup = birth_fd < 0 ? 0 : (uint64_t)birth_fd,
        };

        return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* The kernel charges inotify instances, message queues and namespaces of a box also to whoever made its user namespace
 * (struct ucounts): made by root, all boxes would share root's allowance, and one could use it up. So each is made under
 * a user of its own. Files are still opened as root, for images and runtimes that only root can reach. */
uid_t box_owner(uint32_t box)
{
        return BOX_OWNER_BASE + (((uid_t)getpid() & 0x7fff) << 12) + box;
}

static pid_t clone_as_owner(const struct keeper_state *keeper, uint32_t box, int birth_fd, int *ret_pidfd)
{
        uid_t owner = box_owner(box);
        pid_t pid;
        int code;

        if (!keeper->is_root)
                return clone_child(birth_fd, ret_pidfd);
        if (seteuid(owner) < 0)
                return -1;
        setfsuid(0);
        pid = clone_child(birth_fd, ret_pidfd);
        code = errno;
        if (pid != 0 && seteuid(0) < 0)
                abort(); /* a keeper without its rights cannot even clean up */
        errno = code;
        return pid;
}

static int check_guards(const struct keeper_state *keeper, uint32_t optional, struct cloche_err *e)
{
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                const struct keeper_guard *guard = &keeper->guards[g];

                if (guard->state != CLOCHE_GUARD_ENFORCED && !(optional & 1u << g))
                        return err_set(e, CLOCHE_E_GUARD_MISSING, "%s is %s: %s", cloche_guard_name((enum cloche_guard)g),
                                       guard->state == CLOCHE_GUARD_DEGRADED ? "degraded" : "absent", guard->reason);
        }
        return 0;
}

/* Map the user of a child that is directly beneath us; nest.c did it for the others. */
static int map_child(const struct keeper_state *keeper, const struct jail_plan *plan, pid_t pid, struct cloche_err *e)
{
        struct userns_ids ids = {
                .uid = keeper->is_root ? BOX_UID_BASE + (uid_t)pid : geteuid(),
                .gid = keeper->is_root ? BOX_UID_BASE + (gid_t)pid : getegid(),
                .own_groups = keeper->is_root,
        };

        if (keeper->is_root && plan->is_template) {
                ids.beneath.first = BOX_UID_BASE;
                ids.beneath.count = BOX_UID_COUNT;
        }

        return userns_map(keeper->proc_fd, pid, &ids, e);
}

/* A template hands out its root, another box its mounts. */
static void keep_handed(struct box *row, int fd)
{
        if (row->is_template && row->root_fd < 0)
                row->root_fd = fd;
        else if (!row->is_template && row->mount_count < KEEPER_MOUNTS_MAX) {
                row->passthroughs[row->mount_count].fd = -EBADF;
                row->fuse_fds[row->mount_count++] = fd;
        } else
                fd_close(&fd);
}

/* The child's own words until exec closes the socket: PID 1 is box-init then. No guest byte was read before that. */
static int wait_until_entered(int report_fd, struct box *row, struct cloche_err *e)
{
        for (;;) {
                struct cloche_err theirs;
                size_t fd_count = 1;
                int fd = -EBADF;
                ssize_t n = fd_receive(report_fd, &theirs, sizeof(theirs), &fd, &fd_count, 0);

                if (n == 0)
                        return 0;
                if (n != sizeof(theirs) || err_check(&theirs) < 0) {
                        fd_close(&fd);
                        return err_set(e, CLOCHE_E_INTERNAL, "the new box reported %zd bytes that are no error value", n);
                }
                if (theirs.code != CLOCHE_OK) {
                        fd_close(&fd);
                        *e = theirs;
                        return -(int)theirs.code;
                }
                keep_handed(row, fd);
        }
}

static void kill_and_reap(pid_t pid)
{
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

static int open_pair(int type, int fds[2], struct cloche_err *e)
{
        return socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0 ? err_os(e, CLOCHE_E_RESOURCE, errno, "make a socket pair") : 0;
}

int box_open_namespace(const struct keeper_state *keeper, pid_t pid, const char *name, int *ret_fd, struct cloche_err *e)
{
        char path[64];

        snprintf(path, sizeof(path), "%d/ns/%s", (int)pid, name);
        *ret_fd = openat(keeper->proc_fd, path, O_RDONLY | O_CLOEXEC);
        return *ret_fd < 0 ? err_os(e, CLOCHE_E_NAMESPACE, errno, "open the box's %s namespace", name) : 0;
}

/* What boxes beneath this one will need. */
static int keep_template(const struct keeper_state *keeper, struct box *box, struct cloche_err *e)
{
        int r = box_open_namespace(keeper, box->init_pid, "user", &box->user_fd, e);

        if (r == 0)
                r = box_open_namespace(keeper, box->init_pid, "pid", &box->pid_fd, e);
        if (r == 0 && box->parent == KEEPER_NO_BOX && box->root_fd < 0)
                r = err_set(e, CLOCHE_E_INTERNAL, "the template's box did not hand out its root");
        return r;
}

static void close_box(struct box *box)
{
        int *const all[] = {&box->init_pidfd, &box->fork_fd, &box->user_fd, &box->pid_fd, &box->root_fd};

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                fd_close(all[i]);
        for (uint32_t i = 0; i < box->mount_count; i++)
                fd_close(&box->fuse_fds[i]);
}

static pid_t clone_init(struct keeper_state *keeper, const struct box *row, uint32_t box, const struct jail_plan *plan,
                        int go_fds[2], int report_fd, int *ret_pidfd, struct cloche_err *e)
{
        pid_t pid;

        if (row->parent != KEEPER_NO_BOX)
                return nest_clone(keeper, &keeper->boxes[row->parent], plan->is_sharing ? &keeper->boxes[row->shared_with] : NULL, plan, go_fds, report_fd,
                                  ret_pidfd, e);
        if (plan->is_sharing)
                return share_clone(&keeper->boxes[row->shared_with], plan, go_fds, report_fd, ret_pidfd, e);
        pid = clone_as_owner(keeper, box, plan->birth_fd, ret_pidfd);
        if (pid == 0) {
                close(go_fds[1]); /* or waiting for the keeper would wait for ourselves */
                enter_box(plan, go_fds[0], report_fd);
        }
        if (pid < 0)
                userns_refused(errno, e);
        return pid;
}

/* Clone PID 1, let it go, wait until it is in. */
static int start_init(struct keeper_state *keeper, struct box *row, uint32_t box, struct jail_plan *plan, struct cloche_err *e)
{
        _cleanup_fd_ int go_read_fd = -EBADF, go_write_fd = -EBADF, report_fd = -EBADF, child_report_fd = -EBADF;
        int pair[2], r = open_pair(SOCK_SEQPACKET, pair, e);

        if (r < 0)
                return r;
        report_fd = pair[0];
        child_report_fd = pair[1];
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        go_read_fd = pair[0];
        go_write_fd = pair[1];
        row->init_pid = clone_init(keeper, row, box, plan, pair, child_report_fd, &row->init_pidfd, e);
        if (row->init_pid < 0)
                return -(int)e->code;
        fd_close(&child_report_fd);
        r = plan->nested || plan->is_sharing ? 0 : map_child(keeper, plan, row->init_pid, e);
        if (r == 0 && fd_write_full(go_write_fd, "g", 1) < 0)
                r = err_set(e, CLOCHE_E_NAMESPACE, "the new box died at once");
        if (r == 0)
                r = wait_until_entered(report_fd, row, e);
        if (r == 0 && plan->is_template)
                r = keep_template(keeper, row, e);
        if (r == 0 && row->mount_count != plan->mount_count)
                r = err_set(e, CLOCHE_E_INTERNAL, "the new box handed out %u mounts, not %zu", row->mount_count, plan->mount_count);
        if (r < 0)
                kill_and_reap(row->init_pid);
        else if (keeper->is_root && (plan->is_sandbox || plan->is_sharing)) /* it answers, however many others want the processor */
                setpriority(PRIO_PROCESS, (id_t)row->init_pid, INIT_NICE);
        return r;
}

/* Its writable places may be a sandbox's. */
static int start_with_places(struct keeper_state *keeper, struct box *row, uint32_t box, struct jail_plan *plan, struct cloche_err *e)
{
        int places_fds[JAIL_PLACES], r;

        if (!plan->nested || !plan->is_sharing)
                return start_init(keeper, row, box, plan, e);
        r = share_take_places(&keeper->boxes[row->shared_with], places_fds, e);
        if (r < 0)
                return r;
        plan->places_fds = places_fds;
        r = start_init(keeper, row, box, plan, e);
        plan->places_fds = NULL;
        for (size_t i = 0; i < JAIL_PLACES; i++)
                close(places_fds[i]);
        return r;
}

/* The way into the groups. PID 1 of a box beneath a template, or of one that shares, is cloned by a helper in another user namespace, which has no
 * right to the group: it enters by descriptors, whose right is the opener's (Linux 5.16, CVE-2021-4197). */
static int open_groups(struct keeper_state *keeper, uint32_t box, int *tasks_fds, struct jail_plan *plan, struct cloche_err *e)
{
        plan->tasks_fds = tasks_fds;
        if (plan->nested || plan->is_sharing)
                return cgroup_open_tasks(&keeper->cgroups, box, tasks_fds, &plan->tasks_count, e);
        return cgroup_open_birth(&keeper->cgroups, box, tasks_fds, &plan->tasks_count, &plan->birth_fd, e);
}

/* A template that does not take its orders holds up nobody but itself. The descriptors of orders that wait count for the user who sent them,
 * and from RLIMIT_NOFILE on that user can send none to anybody (ETOOMANYREFS, unix(7)); root can. */
static int bound_orders(const struct keeper_state *keeper, int fork_fd, struct cloche_err *e)
{
        const int size = ORDERS_BYTES;

        if (fcntl(fork_fd, F_SETFL, O_NONBLOCK) < 0 ||
            (!keeper->is_root && setsockopt(fork_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) < 0))
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a fork socket");
        return 0;
}

/* The box's groups, and a child that enters them. */
static int start_in_groups(struct keeper_state *keeper, struct box *row, uint32_t box, const struct keeper_box_spec *spec,
                           int ret_fds[2], struct cloche_err *e)
{
        struct jail_plan plan = plan_of(keeper, spec);
        _cleanup_fd_ int control_fd = -EBADF, their_control_fd = -EBADF, their_fork_fd = -EBADF;
        int tasks_fds[CGROUP_CONTROLLERS], pair[2], r = open_pair(SOCK_SEQPACKET, pair, e);

        if (r < 0)
                return r;
        control_fd = pair[0];
        plan.control_fd = their_control_fd = pair[1];
        if (spec->is_template) {
                r = open_pair(SOCK_SEQPACKET, pair, e);
                if (r < 0)
                        return r;
                row->fork_fd = pair[0];
                their_fork_fd = pair[1];
                r = bound_orders(keeper, row->fork_fd, e);
                if (r < 0)
                        return r;
        }
        r = open_groups(keeper, plan.is_sharing ? spec->shared_with : box, tasks_fds, &plan, e);
        if (r < 0)
                return r;
        r = start_with_places(keeper, row, box, &plan, e);
        for (size_t i = 0; i < plan.tasks_count; i++)
                close(tasks_fds[i]);
        fd_close(&plan.birth_fd);
        if (r < 0)
                return r;
        ret_fds[0] = TAKE_FD(control_fd);
        ret_fds[1] = TAKE_FD(their_fork_fd);
        return 0;
}

static int check_parent(struct keeper_state *keeper, uint32_t parent, struct cloche_err *e)
{
        struct box *row = parent == KEEPER_NO_BOX ? NULL : box_find(keeper, parent, e);

        if (parent == KEEPER_NO_BOX || (row && row->is_template && row->depth + 1 < DEPTH_MAX))
                return 0;
        if (!row)
                return -CLOCHE_E_STATE;
        if (!row->is_template)
                return err_set(e, CLOCHE_E_STATE, "box %u is no template's", parent);
        return err_set(e, CLOCHE_E_STATE, "box %u stands beneath %u others: one out of the other, at most %d can be", parent, row->depth, DEPTH_MAX);
}

int box_make(struct keeper_state *keeper, const struct keeper_box_spec *spec, uint32_t *ret_box, int ret_fds[2],
             struct cloche_err *e)
{
        struct cgroup_limits limits = {
                .memory_bytes = spec->limits.memory_bytes,
                .pids = spec->limits.pids,
                .cpu_percent = spec->limits.cpu_percent,
        };
        struct box row = {.init_pidfd = -EBADF, .fork_fd = -EBADF, .user_fd = -EBADF, .pid_fd = -EBADF, .root_fd = -EBADF};
        uint32_t box = 0;
        int r = check_guards(keeper, spec->optional_guards, e);

        if (r == 0 && spec->is_template && keeper->guest_fd < 0)
                r = err_os(e, CLOCHE_E_KEEPER, -keeper->guest_fd, "open libcloche-guest.so beside box-init");
        if (r == 0 && spec->mount_count > 0 && keeper->fuse_dir_fd < 0)
                r = err_os(e, CLOCHE_E_MOUNT, -keeper->fuse_dir_fd, "mounts need the device fuse, /dev/fuse");
        if (r == 0)
                r = check_parent(keeper, spec->parent, e);
        if (r == 0)
                r = share_check(keeper, spec, e);
        if (r == 0)
                r = find_free(keeper, &box, e);
        if (r == 0 && spec->shared_with == KEEPER_NO_BOX)
                r = cgroup_make(&keeper->cgroups, box, &limits, e);
        if (r < 0)
                return r;
        row.parent = spec->parent;
        row.is_sandbox = (int)spec->is_sandbox;
        row.shared_with = spec->shared_with;
        row.limits = spec->limits;
        row.is_template = (int)spec->is_template;
        row.depth = spec->parent == KEEPER_NO_BOX ? 0 : keeper->boxes[spec->parent].depth + 1;
        row.root_box = spec->parent == KEEPER_NO_BOX ? box : keeper->boxes[spec->parent].root_box;
        r = start_in_groups(keeper, &row, box, spec, ret_fds, e);
        if (r < 0) {
                close_box(&row);
                if (row.shared_with == KEEPER_NO_BOX)
                        (void)cgroup_remove(&keeper->cgroups, box, NULL);
                return r;
        }
        keeper->boxes[box] = row;
        *ret_box = box;
        return 0;
}

/* -- the rest of a box's life --------------------------------------------------------------------------------- */

static struct box *find_living(struct keeper_state *keeper, uint32_t box, struct cloche_err *e)
{
        if (box < KEEPER_BOXES_MAX && keeper->boxes[box].init_pid && !keeper->boxes[box].is_dying && !keeper->boxes[box].is_leaving)
                return &keeper->boxes[box];
        err_set(e, CLOCHE_E_STATE, "there is no box %u", box);
        return NULL;
}

struct box *box_find(struct keeper_state *keeper, uint32_t box, struct cloche_err *e)
{
        struct box *row = find_living(keeper, box, e);

        if (!row || !row->has_lost_sandbox)
                return row;
        err_set(e, CLOCHE_E_STATE, "box %u ended with the sandbox it shared with", box);
        return NULL;
}

int box_limit(struct keeper_state *keeper, uint32_t box, const struct keeper_box_limits *limits, struct cloche_err *e)
{
        const struct cgroup_limits wanted = {.memory_bytes = limits->memory_bytes, .pids = limits->pids, .cpu_percent = limits->cpu_percent};
        struct keeper_box_limits *now = &keeper->boxes[box].limits;
        int r = share_check_groups(keeper, box, e);

        if (r < 0)
                return r;
        r = cgroup_limit(&keeper->cgroups, box, &wanted, e);
        if (r < 0)
                return r;
        now->memory_bytes = limits->memory_bytes ? limits->memory_bytes : now->memory_bytes;
        now->pids = limits->pids ? limits->pids : now->pids;
        now->cpu_percent = limits->cpu_percent ? limits->cpu_percent : now->cpu_percent;
        return 0;
}

void box_usage(struct keeper_state *keeper, uint32_t box, struct keeper_usage *ret)
{
        *ret = keeper->boxes[box].has_lost_sandbox ? (struct keeper_usage){0} : usage_read(&keeper->cgroups, share_groups(keeper, box));
}

int box_kill(struct keeper_state *keeper, uint32_t box, uint32_t serial, struct cloche_err *e)
{
        struct box *row = find_living(keeper, box, e);

        if (!row)
                return -CLOCHE_E_STATE;
        if (row->shared_with == KEEPER_NO_BOX)
                cgroup_kill(&keeper->cgroups, box);
        kill(row->init_pid, SIGKILL);
        serve_kill(row);
        share_kill(keeper, box);
        row->is_dying = 1;
        row->drop_serial = serial;
        keeper->dying++;
        return 0;
}

/* The kernel killed what was beneath; nothing more may be made or forked there under a number that will be another's. */
static void orphan(struct keeper_state *keeper, uint32_t box)
{
        for (uint32_t other = 0; other < KEEPER_BOXES_MAX; other++) {
                struct box *row = &keeper->boxes[other];

                if (!row->init_pid)
                        continue;
                if (row->parent == box)
                        row->parent = KEEPER_NO_BOX;
                if (row->root_box == box)
                        row->is_template = 0;
        }
}

void box_reap(struct keeper_state *keeper, uint32_t box)
{
        struct box *row = &keeper->boxes[box];

        while (waitpid(row->init_pid, NULL, 0) < 0 && errno == EINTR)
                ;
        serve_reap(row);
        serve_close_passthroughs(keeper, row);
        close_box(row);
        share_lose(keeper, box);
        if (row->is_template)
                orphan(keeper, box);
        box_usage(keeper, box, &row->last_usage);
        row->is_dying = 0;
        keeper->dying--;
        row->is_leaving = 1;
        row->leaves_since_ns = clock_now_ns();
        keeper->leaving++;
}

int box_leave(struct keeper_state *keeper, uint32_t box)
{
        struct box *row = &keeper->boxes[box];

        if (row->shared_with == KEEPER_NO_BOX && cgroup_try_remove(&keeper->cgroups, box) < 0)
                return 0;
        row->init_pid = 0;
        row->is_leaving = 0;
        keeper->leaving--;
        return 1;
}
