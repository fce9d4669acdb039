/* Making a box: its groups, its PID 1, and the descriptors that PID 1 sends on its way in. Every
 * process involved has a deadline (pending.h).
 *
 *   keeper ── clone3 ──▶ PID 1                         beneath no template
 *   keeper ── helpers (box-nested.c, box-shared.c) ──▶ PID 1      beneath one, or beside a sandbox's
 *   PID 1 ── its root or its mounts; then execve(2) closes the socket ──▶ keeper answers
 *
 * Runs in: the keeper, and the child it clones until jail/enter.c. */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "helper.h"
#include "jail/enter.h"
#include "jail/root/plan.h"
#include "jail/root/root.h"
#include "jail/userns.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

_Static_assert(JAIL_MOUNTS_MAX == KEEPER_MOUNTS_MAX, "a box has room for the mounts of its request");

#define ORDERS_BYTES 16384 /* some 40 requests of 13 descriptors: the kernel doubles it, and counts 768 for each */
#define MAP_TIMEOUT_S 10   /* for newuidmap and newgidmap, which may ask a directory server */
#define INIT_NICE (-20)    /* for the PID 1 of a sandbox */

struct making {
        struct pending p; /* fd: of the helpers, then of PID 1, until exec closes its end */
        struct helpers helpers;
        int is_cloned;
        int go_fd, report_fd; /* our ends: of the pipe on which PID 1 waits; of its report socket until that is p.fd */
        int control_fd, fork_fd; /* sent with the answer */
        int network_fd;          /* receives the network of the next box beneath the same template, or -EBADF */
        uint32_t mount_count;    /* that PID 1 still has to send */
        uint32_t volumes;        /* those of its mounts that are volumes, a bit each */
        uint32_t parent;
};

static void keep_mount(struct box *row, int fuse_fd)
{
        row->passthroughs[row->mount_count].fd = -EBADF;
        row->fuse_fds[row->mount_count++] = fuse_fd;
}

/* -- the plan ------------------------------------------------------------------------------------------------- */

/* Files of the image that belong to its own user are that of the box. Others than sandboxes show
 * the mounts of the template they stand beneath, which has another user of the host. */
static int maps_image(const struct keeper_state *keeper, const struct box *row, const struct keeper_box_spec *spec)
{
        return keeper->is_root && spec->is_sandbox && keeper_is_tree(spec->image) &&
               (row->user.uid != JAIL_UID || row->user.gid != JAIL_UID || strcmp(row->user.name, JAIL_NAME) != 0);
}

/* A sharing box has the sandbox's users. */
static int box_has_root(const struct keeper_state *keeper, const struct keeper_box_spec *spec)
{
        return spec->has_root || (spec->shared_with != KEEPER_NO_BOX && keeper->boxes[spec->shared_with].has_root);
}

static struct jail_plan plan_of(const struct keeper_state *keeper, const struct box *row,
                                const struct keeper_box_spec *spec)
{
        struct jail_plan plan = {
                .trees = keeper_is_tree(spec->image) ? keeper->trees : NULL,
                .image = spec->image,
                .user = row->user,
                .runtime_dir = spec->runtime_dir,
                .runtime_fd = -EBADF,
                .disk_bytes = spec->limits.disk_bytes,
                .disk_inodes = spec->limits.disk_inodes,
                .is_template = (int)spec->is_template,
                .depth = spec->parent == KEEPER_NO_BOX ? 0 : keeper->boxes[spec->parent].depth + 1,
                .nested = spec->parent != KEEPER_NO_BOX,
                .is_sandbox = (int)spec->is_sandbox,
                .has_writable_root = (int)spec->has_writable_root,
                .takes_image = (keeper->is_root && spec->has_writable_root) || maps_image(keeper, row, spec),
                .has_root = box_has_root(keeper, spec),
                .init_is_roots = !keeper->is_root && box_has_root(keeper, spec),
                .lease_fd = -EBADF,
                .sudo_fd = spec->has_root ? keeper->sudo_fd : -EBADF,
                .image_fd = -EBADF,
                .host_name = row->host_name[0] ? row->host_name : JAIL_HOST_NAME,
                .boot_id = row->boot_id,
                .files_fd = -EBADF,
                .layers_fd = -EBADF,
                .core_scheduling = keeper->guards[CLOCHE_GUARD_CORE_SCHEDULING].state == CLOCHE_GUARD_ENFORCED,
                .is_sharing = spec->shared_with != KEEPER_NO_BOX,
                .own_groups = keeper->is_root || box_has_root(keeper, spec),
                .guest_fd = spec->is_template ? keeper->guest_fd : -EBADF,
                .init_fd = keeper->init_program_fd,
                .birth_fd = -EBADF,
                .fuse_dir_fd = keeper->fuse_dir_fd,
                .mount_count = spec->mount_count,
                .file_mounts = spec->file_mounts,
        };

        if (plan.has_root)
                plan.user = jail_user_root();
        box_rlimits(keeper, (int)spec->is_sandbox, spec->shared_with, &spec->limits, plan.rlimits);
        for (size_t i = 0; i < plan.mount_count; i++)
                plan.mounts[i] = spec->mounts[i];
        return plan;
}

static int check_guards(const struct keeper_state *keeper, uint32_t optional, struct cloche_err *e)
{
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                const struct keeper_guard *guard = &keeper->guards[g];

                if (cloche_guard_is_missing((enum cloche_guard_state)guard->state) && !(optional & 1u << g))
                        return err_set(e, CLOCHE_E_GUARD_MISSING, "%s is %s: %s",
                                       cloche_guard_name((enum cloche_guard)g),
                                       guard->state == CLOCHE_GUARD_DEGRADED ? "degraded" : "absent", guard->reason);
        }
        return 0;
}

/* Open the namespaces that boxes beneath this one need. PID 1 of a box that shares with a sandbox
 * enters its groups after the keeper has replied. Until it executes box-init, an ordinary user's
 * keeper may not inspect it, so its namespace is opened when the first box is made beneath it. */
static int keep_template(const struct keeper_state *keeper, struct box *box, struct cloche_err *e)
{
        int r = box_open_namespace(keeper, box->init_pid, "user", &box->user_fd, e);

        if (r == 0)
                r = box_open_namespace(keeper, box->init_pid, "pid", &box->pid_fd, e);
        if (r == 0 && box->parent == KEEPER_NO_BOX && box->root_fd < 0)
                r = err_set(e, CLOCHE_E_RESOURCE,
                            "the first process of the template's box was killed before it sent its root: its memory "
                            "limit may be too low");
        return r;
}

static int check_parent(struct keeper_state *keeper, uint32_t parent, struct cloche_err *e)
{
        struct box *row = parent == KEEPER_NO_BOX ? NULL : box_find(keeper, parent, e);

        if (parent == KEEPER_NO_BOX)
                return 0;
        if (row && row->is_template && row->depth + 1 < DEPTH_MAX)
                return row->user_fd >= 0 ? 0 : keep_template(keeper, row, e);
        if (!row)
                return -CLOCHE_E_STATE;
        if (!row->is_template)
                return err_set(e, CLOCHE_E_STATE, "box %u is not of a template", parent);
        return err_set(e, CLOCHE_E_STATE, "box %u is nested in %u others, expected at most %d", parent, row->depth,
                       DEPTH_MAX);
}

/* -- PID 1 ---------------------------------------------------------------------------------------------------- */

/* birth_fd: see struct jail_plan. A process that is born in its group costs nothing; a process that
 * moves waits for all running forks of the machine (cgroup_threadgroup_rwsem, milliseconds on a
 * quiet host). */
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

struct root_map {
        const struct keeper_state *keeper;
        pid_t pid;
};

static int map_subids(const void *data, int *ret_fds, struct cloche_err *e)
{
        const struct root_map *map = data;

        (void)ret_fds;
        return subids_map(&map->keeper->subids, map->pid, e);
}

/* Root's keeper maps a range of its own for each box. That of an ordinary user maps its own ids to
 * root, as it maps them to the one user of other boxes, and those that the host lends it. */
static int map_root(const struct keeper_state *keeper, const struct box *row, struct cloche_err *e)
{
        const struct userns_range range = {0, row->ids.first, IDS_IN_RANGE};
        const struct root_map map = {keeper, row->init_pid};

        return keeper->is_root ? userns_map_range(keeper->proc_fd, row->init_pid, &range, e)
                               : helper_fetch(map_subids, &map, 0, MAP_TIMEOUT_S, NULL, e);
}

/* Map the user of a child directly beneath us; box-nested.c maps the others. */
static int map_child(const struct keeper_state *keeper, const struct jail_plan *plan, const struct box *row,
                     struct cloche_err *e)
{
        pid_t pid = row->init_pid;
        struct userns_ids ids = {
                .inside_uid = plan->user.uid,
                .inside_gid = plan->user.gid,
                .uid = keeper->is_root ? BOX_UID_BASE + (uid_t)pid : geteuid(),
                .gid = keeper->is_root ? BOX_UID_BASE + (gid_t)pid : getegid(),
                .own_groups = keeper->is_root,
        };

        if (keeper->is_root && plan->is_template) {
                ids.beneath.first = BOX_UID_BASE;
                ids.beneath.count = BOX_UID_COUNT;
        }

        return plan->has_root ? map_root(keeper, row, e) : userns_map(keeper->proc_fd, pid, &ids, e);
}

/* Open the box's groups. PID 1 of a box beneath a template, or of a sharing box, is cloned by a
 * helper in another user namespace, which has no right to the group. It enters by descriptors,
 * which carry the right of the process that opened them (Linux 5.16, CVE-2021-4197). */
static int open_groups(struct keeper_state *keeper, uint32_t box, int *tasks_fds, struct jail_plan *plan,
                       struct cloche_err *e)
{
        plan->tasks_fds = tasks_fds;
        if (plan->nested || plan->is_sharing)
                return cgroup_open_tasks(&keeper->cgroups, box, tasks_fds, &plan->tasks_count, e);
        return cgroup_open_birth(&keeper->cgroups, box, tasks_fds, &plan->tasks_count, &plan->birth_fd, e);
}

/* Make the socket send-only: nothing is read from it, so nothing may be sent to us, because a
 * packet there would be ours to close (base/peer.h).
 * A template that does not read its requests delays only itself. The descriptors in waiting
 * requests count for the user who sent them; from RLIMIT_NOFILE on that user can send no more
 * (ETOOMANYREFS, unix(7)), but root can. */
static int bound_orders(const struct keeper_state *keeper, int fork_fd, struct cloche_err *e)
{
        const int size = ORDERS_BYTES;

        if (fcntl(fork_fd, F_SETFL, O_NONBLOCK) < 0 || shutdown(fork_fd, SHUT_RD) < 0 ||
            (!keeper->is_root && setsockopt(fork_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) < 0))
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a fork socket");
        return 0;
}

/* Each box beneath a template takes the network that was made ahead, and its mapper makes the
 * next. */
static int clone_nested(struct keeper_state *keeper, struct clone_order *order, struct making *m, struct cloche_err *e)
{
        struct box *parent = &keeper->boxes[m->parent];
        _cleanup_fd_ int network_fd = TAKE_FD(parent->network_fd), next_fd = -EBADF;
        int pair[2], r;

        if (!parent->is_next_begun && parent->next_network_fd < 0) {
                r = helper_open_pair(pair, e);
                if (r < 0)
                        return r;
                m->network_fd = pair[0];
                next_fd = pair[1];
                parent->is_next_begun = 1;
        }
        order->network_fd = network_fd;
        order->next_network_fd = next_fd;
        return box_nested_clone(order, &m->helpers, &m->p.fd, e);
}

/* go_read_fd, report_fd: the ends of PID 1, which closes ours. */
static int clone_init(struct keeper_state *keeper, struct box *row, const struct jail_plan *plan, struct making *m,
                      int go_read_fd, int report_fd, struct cloche_err *e)
{
        struct clone_order order = {keeper,
                                    plan,
                                    row->parent == KEEPER_NO_BOX ? NULL : &keeper->boxes[row->parent],
                                    row->shared_with == KEEPER_NO_BOX ? NULL : &keeper->boxes[row->shared_with],
                                    go_read_fd,
                                    report_fd,
                                    -EBADF,
                                    -EBADF};
        int r;

        if (plan->nested)
                return clone_nested(keeper, &order, m, e);
        if (plan->is_sharing)
                return box_shared_clone(&order, &m->helpers, &m->p.fd, e);
        row->init_pid = clone_as_owner(keeper, m->p.box, plan->birth_fd, &row->init_pidfd);
        if (row->init_pid == 0) {
                close(m->go_fd); /* else the child's own copy would keep the pipe open */
                enter_box(plan, go_read_fd, report_fd);
        }
        if (row->init_pid < 0) {
                row->init_pid = 0;
                row->init_pidfd = -EBADF; /* a failed call returns none */
                return userns_refused(errno, e);
        }
        m->is_cloned = 1;
        m->p.fd = TAKE_FD(m->report_fd);
        r = map_child(keeper, plan, row, e);
        if (r == 0 && m->volumes)
                r = volumes_map(keeper, row, plan->mount_fds, m->volumes, e);
        if (r == 0 && plan->files_fd >= 0)
                r = volume_map_scratch(keeper, row, plan->files_fd, e);
        return r < 0 ? r : helper_set_score(keeper->proc_fd, row->init_pid, e);
}

static int let_go(struct making *m, struct cloche_err *e)
{
        int r = fd_write_full(m->go_fd, "g", 1);

        fd_close(&m->go_fd);
        return r < 0 ? err_set(e, CLOCHE_E_NAMESPACE, "the new box died at once") : 0;
}

/* The owners of the image's files are mapped to the box's users, whose numbers are known by now.
 * An ordinary user's store has only that user's files, which are the box's. */
static int send_image(struct keeper_state *keeper, const struct box *row, const struct making *m, struct cloche_err *e)
{
        const struct cloche_err fine = {0};
        _cleanup_fd_ int image_fd = -EBADF;
        int r;

        if (row->has_writable_root && row->ids.fd < 0) /* the image's root is another user in the box */
                r = sources_map_tree(keeper, row->tree_fd, &(struct userns_range){0, box_user(keeper, row), 1},
                                     &image_fd, e);
        else
                r = sources_map_user(keeper, row->tree_fd, row->init_pid, row->has_writable_root, &image_fd, e);
        if (r == 0 && (r = fd_send(m->p.fd, &fine, sizeof(fine), &image_fd, 1)) < 0)
                r = err_os(e, CLOCHE_E_KEEPER, -r, "send the image to the box");
        return r;
}

static int start_init(struct keeper_state *keeper, struct box *row, const struct jail_plan *plan, struct making *m,
                      struct cloche_err *e)
{
        _cleanup_fd_ int go_read_fd = -EBADF, report_fd = -EBADF;
        int pair[2], r = helper_open_pair(pair, e);

        if (r < 0)
                return r;
        m->report_fd = pair[0];
        report_fd = pair[1];
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        go_read_fd = pair[0];
        m->go_fd = pair[1];
        r = clone_init(keeper, row, plan, m, go_read_fd, report_fd, e);
        if (r == 0 && plan->takes_image)
                r = send_image(keeper, row, m, e);
        return r == 0 && m->is_cloned ? let_go(m, e) : r;
}

/* Make the file systems of a sandbox's mounts. Contexts of the sandbox are beneath templates, in
 * other user namespaces, and the kernel lets a process use a FUSE file system only in the
 * namespace of its maker and those beneath: so root's keeper makes it. They are attached without
 * set-user-id bits and devices in every box. */
static int make_mounts(const struct jail_plan *plan, struct box *row, uint32_t volumes, int *ret_fds,
                       struct cloche_err *e)
{
        int r = 0;

        row->mount_targets = calloc(plan->mount_count, sizeof(*row->mount_targets));
        if (!row->mount_targets)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make the mounts of a box");
        for (size_t i = 0; r == 0 && i < plan->mount_count; i++) {
                int fuse_fd = -EBADF;

                strcpy(row->mount_targets[i], plan->mounts[i]);
                if (!(volumes >> i & 1))
                        r = root_make_fuse(plan, i, &fuse_fd, &ret_fds[i], e);
                if (r == 0)
                        keep_mount(row, fuse_fd);
        }
        return r;
}

static int start_with_mounts(struct keeper_state *keeper, struct box *row, const struct keeper_box_spec *spec,
                             struct jail_plan *plan, struct making *m, struct cloche_err *e)
{
        int mount_fds[KEEPER_MOUNTS_MAX], r;

        if (!keeper->is_root || !row->is_sandbox || plan->mount_count == 0)
                return start_init(keeper, row, plan, m, e);
        for (size_t i = 0; i < KEEPER_MOUNTS_MAX; i++)
                mount_fds[i] = -EBADF;
        r = make_mounts(plan, row, m->volumes, mount_fds, e);
        if (r == 0 && m->volumes)
                r = volumes_take(keeper, spec, mount_fds, e);
        plan->mount_fds = mount_fds;
        if (r == 0)
                r = start_init(keeper, row, plan, m, e);
        plan->mount_fds = NULL;
        for (size_t i = 0; i < KEEPER_MOUNTS_MAX; i++)
                fd_close(&mount_fds[i]);
        return r;
}

/* Its writable places may belong to a sandbox. */
static int start_with_places(struct keeper_state *keeper, struct box *row, const struct keeper_box_spec *spec,
                             struct jail_plan *plan, struct making *m, struct cloche_err *e)
{
        const struct box *sandbox = row->shared_with == KEEPER_NO_BOX ? NULL : &keeper->boxes[row->shared_with];
        int places_fds[JAIL_SHARED_PLACES], mount_fds[KEEPER_MOUNTS_MAX], r;
        _cleanup_fd_ int layers_fd = -EBADF;

        if (!plan->nested || !plan->is_sharing)
                return start_with_mounts(keeper, row, spec, plan, m, e);
        r = box_shared_take_mounts(sandbox, places_fds, e);
        if (r < 0)
                return r;
        r = box_shared_take_others(sandbox, plan, mount_fds, e);
        if (r == 0 && sandbox->has_writable_root)
                r = box_shared_take_layers(sandbox, &layers_fd, e);
        plan->layers_fd = layers_fd;
        plan->places_fds = places_fds;
        plan->mount_fds = mount_fds;
        if (r == 0)
                r = start_init(keeper, row, plan, m, e);
        plan->places_fds = plan->mount_fds = NULL;
        plan->layers_fd = -EBADF;
        for (size_t i = 0; i < JAIL_SHARED_PLACES; i++)
                close(places_fds[i]);
        for (size_t i = 0; i < KEEPER_MOUNTS_MAX; i++)
                fd_close(&mount_fds[i]);
        return r;
}

/* Make the box's groups, and a child that enters them. */
static int start_in_groups(struct keeper_state *keeper, struct box *row, const struct keeper_box_spec *spec,
                           struct making *m, struct cloche_err *e)
{
        struct jail_plan plan = plan_of(keeper, row, spec);
        _cleanup_fd_ int their_control_fd = -EBADF, files_fd = -EBADF;
        int tasks_fds[CGROUP_CONTROLLERS], pair[2], r = helper_open_pair(pair, e);

        if (r < 0)
                return r;
        m->control_fd = pair[0];
        plan.control_fd = their_control_fd = pair[1];
        if (spec->is_template) {
                r = helper_open_pair(pair, e);
                if (r < 0)
                        return r;
                row->fork_fd = pair[0];
                m->fork_fd = pair[1];
                r = bound_orders(keeper, row->fork_fd, e);
                if (r < 0)
                        return r;
        }
        plan.lease_fd = row->ids.fd;
        r = spec->scratch[0] ? volume_take_scratch(keeper, spec->scratch, &files_fd, e) : 0;
        if (r == 0)
                r = open_groups(keeper, plan.is_sharing ? spec->shared_with : m->p.box, tasks_fds, &plan, e);
        if (r < 0)
                return r;
        plan.files_fd = files_fd;
        r = start_with_places(keeper, row, spec, &plan, m, e);
        for (size_t i = 0; i < plan.tasks_count; i++)
                close(tasks_fds[i]);
        fd_close(&plan.birth_fd);
        return r;
}

/* -- waiting for PID 1 ---------------------------------------------------------------------------------------- */

/* A template sends its root, another box its mounts. */
static void keep_handed(struct box *row, int fd)
{
        if (row->is_template && row->root_fd < 0)
                row->root_fd = fd;
        else if (!row->is_template && !row->mount_targets && row->mount_count < KEEPER_MOUNTS_MAX)
                keep_mount(row, fd);
        else
                fd_close(&fd);
}

/* The mapper now makes the network of the next box, and the template's row has it. */
static void leave_mapper(struct keeper_state *keeper, struct box *parent, struct making *m)
{
        if (m->network_fd < 0 || parent->next_network_fd >= 0)
                return;
        parent->is_next_begun = 0;
        parent->next_network_fd = TAKE_FD(m->network_fd);
        parent->next_network_pid = m->helpers.pids[HELPER_MAPPER];
        m->helpers.pids[HELPER_MAPPER] = 0;
        keeper->making_networks++;
}

/* Nothing receives the network that the mapper makes, unless leave_mapper was called. */
static void drop_network(struct keeper_state *keeper, struct making *m)
{
        if (m->network_fd < 0)
                return;
        keeper->boxes[m->parent].is_next_begun = 0;
        fd_close(&m->network_fd);
}

/* Receive the only message of the helpers: PID 1 exists, and waits for the map. */
static int take_init(struct keeper_state *keeper, struct box *row, struct making *m, struct cloche_err *e)
{
        row->init_pid = helpers_receive(m->p.fd, &row->init_pidfd, e);
        if (row->init_pid < 0) {
                row->init_pid = 0;
                return -(int)e->code;
        }
        m->is_cloned = 1;
        if (row->parent == m->parent && row->parent != KEEPER_NO_BOX)
                leave_mapper(keeper, &keeper->boxes[m->parent], m);
        fd_close(&m->p.fd);
        m->p.fd = TAKE_FD(m->report_fd);
        return let_go(m, e);
}

/* Receive the messages of the child. Returns 1 when exec has closed the socket: PID 1 is box-init
 * then. No guest byte was read before that. */
static int receive_init(struct box *row, struct making *m, struct cloche_err *e)
{
        struct cloche_err theirs;
        size_t fd_count = 1;
        int fd = -EBADF;
        ssize_t n = fd_receive(m->p.fd, &theirs, sizeof(theirs), &fd, &fd_count, MSG_DONTWAIT);

        if (n == 0)
                return 1;
        if (n == -EAGAIN)
                return 0;
        if (n != sizeof(theirs) || err_check(&theirs) < 0) {
                fd_close(&fd);
                return err_set(e, CLOCHE_E_INTERNAL, "the new box sent an invalid report of %zd bytes", n);
        }
        if (theirs.code != CLOCHE_OK) {
                fd_close(&fd);
                *e = theirs;
                return -(int)theirs.code;
        }
        keep_handed(row, fd);
        return 0;
}

/* The box's parent or sandbox may have ended meanwhile. */
static int check_others(struct keeper_state *keeper, const struct box *row, const struct making *m,
                        struct cloche_err *e)
{
        if (row->has_lost_sandbox)
                return err_set(e, CLOCHE_E_STATE, "the sandbox ended while a box was made that was to share with it");
        if (row->parent != m->parent || (row->parent != KEEPER_NO_BOX && !box_find(keeper, row->parent, NULL)))
                return err_set(e, CLOCHE_E_STATE, "the template ended while a box was made beneath it");
        return 0;
}

static int finish(struct keeper_state *keeper, struct box *row, struct making *m, int ret_fds[2], struct cloche_err *e)
{
        int r = check_others(keeper, row, m, e);

        if (r == 0 && row->is_template && row->shared_with == KEEPER_NO_BOX)
                r = keep_template(keeper, row, e);
        if (r == 0 && row->mount_count != m->mount_count)
                r = err_set(e, CLOCHE_E_INTERNAL, "the new box sent %u mounts, expected %u", row->mount_count,
                            m->mount_count);
        if (r < 0)
                return r;
        drop_network(keeper, m);
        helpers_end(&m->helpers, 0); /* they have exited long since: nothing waits here */
        if (keeper->is_root &&
            (row->is_sandbox ||
             row->shared_with !=
                     KEEPER_NO_BOX)) /* PID 1 must answer even if many other processes compete for the processor */
                setpriority(PRIO_PROCESS, (id_t)row->init_pid, INIT_NICE);
        box_set_state(keeper, row, BOX_LIVING);
        /* Boxes of templates come one after the other; others come alone. */
        if (row->parent != KEEPER_NO_BOX && row->shared_with == KEEPER_NO_BOX)
                keeper->wants_ahead = 1;
        ret_fds[0] = TAKE_FD(m->control_fd);
        ret_fds[1] = TAKE_FD(m->fork_fd);
        return 1;
}

static void close_making(struct keeper_state *keeper, struct making *m)
{
        int *const all[] = {&m->go_fd, &m->report_fd, &m->control_fd, &m->fork_fd};

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                fd_close(all[i]);
        drop_network(keeper, m);
        helpers_end(&m->helpers, !m->is_cloned);
}

static int advance_make(struct keeper_state *keeper, struct pending *p, int ret_fds[2], struct cloche_err *e)
{
        struct making *m = (struct making *)p;
        struct box *row = &keeper->boxes[p->box];
        int r = m->is_cloned ? receive_init(row, m, e) : take_init(keeper, row, m, e);

        return r == 1 ? finish(keeper, row, m, ret_fds, e) : r;
}

/* Code of the template above has every right over its helpers and its boxes, and may stop them.
 * Then that template is killed with all boxes beneath it; its engine sees that. */
static void cancel_make(struct keeper_state *keeper, struct pending *p, int is_late)
{
        struct making *m = (struct making *)p;

        close_making(keeper, m);
        if (is_late && m->parent != KEEPER_NO_BOX)
                box_nested_punish(keeper, m->parent);
        box_undo(keeper, p->box);
}

static const struct pending_kind making_kind = {"make the box", advance_make, cancel_make};

static struct making *new_making(uint32_t serial, const struct keeper_box_spec *spec)
{
        struct making *m = malloc(sizeof(*m));

        if (m)
                *m = (struct making){
                        .p = {.kind = &making_kind, .op = KEEPER_BOX_MAKE, .serial = serial, .fd = -EBADF},
                        .go_fd = -EBADF,
                        .report_fd = -EBADF,
                        .control_fd = -EBADF,
                        .fork_fd = -EBADF,
                        .network_fd = -EBADF,
                        .mount_count = spec->mount_count,
                        .volumes = spec->volume_mounts,
                        .parent = spec->parent,
                };
        return m;
}

static int no_fuse(int code, struct cloche_err *e)
{
        const char *way_out = code == ENOENT ? "root loads it with modprobe fuse, or "
                              : code == EACCES || code == EPERM
                                      ? "root opens it to all users with chmod 666 /dev/fuse, or "
                                      : "";

        return err_set(e, CLOCHE_E_MOUNT,
                       "mounts need the device /dev/fuse: %s: %sgive the run its files with --file instead of a mount",
                       strerror(code), way_out);
}

/* Resource limits count for each user, and such a box has 65,536 of them: only groups hold it. */
static int check_root(struct keeper_state *keeper, struct cloche_err *e)
{
        static const struct {
                enum cgroup_controller controller;
                const char *name;
        } needed[] = {{CGROUP_MEMORY, "memory"}, {CGROUP_PIDS, "pids"}};

        for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
                if (!keeper->cgroups.places[needed[i].controller].version)
                        return err_set(e, CLOCHE_E_GUARD_MISSING, "root in a sandbox needs the %s control group: %s",
                                       needed[i].name, keeper->cgroups.places[needed[i].controller].reason);
        if (keeper->sudo_fd < 0)
                return err_os(e, CLOCHE_E_KEEPER, -keeper->sudo_fd, "open cloche-sudo beside box-init");
        return keeper->is_root ? 0 : subids_find(&keeper->subids, e);
}

static int check(struct keeper_state *keeper, const struct keeper_box_spec *spec, struct cloche_err *e)
{
        int r = check_guards(keeper, spec->optional_guards, e);

        if (r == 0 && spec->has_root)
                r = check_root(keeper, e);

        if (r == 0)
                r = sources_check(keeper, spec, e);
        if (r == 0 && spec->is_template && keeper->guest_fd < 0)
                r = err_os(e, CLOCHE_E_KEEPER, -keeper->guest_fd, "open libcloche-guest.so beside box-init");
        if (r == 0 && spec->volume_mounts)
                r = volume_check(keeper, e);
        if (r == 0 && spec->volume_mounts != (1u << spec->mount_count) - 1 && keeper->fuse_dir_fd < 0)
                r = no_fuse(-keeper->fuse_dir_fd, e);
        if (r == 0)
                r = check_parent(keeper, spec->parent, e);
        return r < 0 ? r : box_shared_check(keeper, spec, e);
}

/* A box that shares with a sandbox shows the sandbox's, and a fork with files of its
 * own that of its original. */
static void identify(const struct keeper_state *keeper, const struct keeper_box_spec *spec, struct box *row)
{
        const struct box *other = spec->shared_with != KEEPER_NO_BOX ? &keeper->boxes[spec->shared_with]
                                  : spec->parent != KEEPER_NO_BOX    ? &keeper->boxes[spec->parent]
                                                                     : NULL;

        strcpy(row->host_name, other ? other->host_name : spec->host_name);
        strcpy(row->boot_id, other ? other->boot_id : spec->boot_id);
}

static struct box new_row(const struct keeper_state *keeper, const struct keeper_box_spec *spec, uint32_t box)
{
        const struct box *parent = spec->parent == KEEPER_NO_BOX ? NULL : &keeper->boxes[spec->parent],
                         *sandbox = spec->shared_with == KEEPER_NO_BOX ? NULL : &keeper->boxes[spec->shared_with];

        return (struct box){
                .init_pidfd = -EBADF,
                .fork_fd = -EBADF,
                .user_fd = -EBADF,
                .pid_fd = -EBADF,
                .root_fd = -EBADF,
                .network_fd = -EBADF,
                .next_network_fd = -EBADF,
                .tree_fd = -EBADF,
                .ids = {.fd = -EBADF},
                .parent = spec->parent,
                .is_sandbox = (int)spec->is_sandbox,
                .has_writable_root = (int)spec->has_writable_root,
                .has_root = (int)spec->has_root,
                .shared_with = spec->shared_with,
                .limits = spec->limits,
                .user = parent    ? parent->user
                        : sandbox ? sandbox->user
                                  : spec->user,
                .is_template = (int)spec->is_template,
                .depth = parent ? parent->depth + 1 : 0,
                .root_box = parent ? parent->root_box : box,
        };
}

static int find_free(const struct keeper_state *keeper, uint32_t *ret, struct cloche_err *e)
{
        for (uint32_t box = 0; box < KEEPER_BOXES_MAX; box++)
                if (keeper->boxes[box].state == BOX_FREE && !(keeper->has_ahead && box == keeper->box_ahead)) {
                        *ret = box;
                        return 0;
                }
        return err_set(e, CLOCHE_E_RESOURCE, "all %d boxes are in use: try again when runs or sandboxes have ended",
                       KEEPER_BOXES_MAX);
}

void box_make_groups_ahead(struct keeper_state *keeper)
{
        keeper->wants_ahead = 0;
        if (!keeper->has_ahead && find_free(keeper, &keeper->box_ahead, NULL) == 0)
                keeper->has_ahead = cgroup_make(&keeper->cgroups, keeper->box_ahead, NULL) == 0;
}

void box_remove_groups_ahead(struct keeper_state *keeper)
{
        if (keeper->has_ahead)
                (void)cgroup_try_remove(&keeper->cgroups, keeper->box_ahead);
        keeper->has_ahead = 0;
}

/* Choose the row of a box, and make its groups unless they are there or are a sandbox's. */
static int find_place(struct keeper_state *keeper, const struct keeper_box_spec *spec, uint32_t *ret,
                      struct cloche_err *e)
{
        const struct cgroup_limits limits = {
                .memory_bytes = spec->limits.memory_bytes,
                .pids = spec->limits.pids,
                .cpu_percent = spec->limits.cpu_percent,
        };
        int r = 0;

        if (spec->shared_with != KEEPER_NO_BOX)
                return find_free(keeper, ret, e);
        if (keeper->has_ahead) {
                keeper->has_ahead = 0;
                *ret = keeper->box_ahead;
        } else {
                r = find_free(keeper, ret, e);
                if (r == 0)
                        r = cgroup_make(&keeper->cgroups, *ret, e);
        }
        return r < 0 ? r : cgroup_set_limits(&keeper->cgroups, *ret, &limits, e);
}

int box_make(struct keeper_state *keeper, const struct keeper_box_spec *spec, uint32_t serial, struct cloche_err *e)
{
        struct making *m = NULL;
        uint32_t box = 0;
        _cleanup_fd_ int tree_fd = -EBADF;
        int r = check(keeper, spec, e);

        if (r == 0)
                r = sources_open_tree(keeper, spec, &tree_fd, e);
        if (r == 0 && !(m = new_making(serial, spec)))
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a box");
        if (r == 0)
                r = find_place(keeper, spec, &box, e);
        if (r < 0) {
                free(m);
                return r;
        }
        m->p.box = box;
        keeper->boxes[box] = new_row(keeper, spec, box);
        identify(keeper, spec, &keeper->boxes[box]);
        keeper->boxes[box].tree_fd = TAKE_FD(tree_fd);
        box_set_state(keeper, &keeper->boxes[box], BOX_STARTING);
        r = spec->has_root && keeper->is_root ? ids_lease(&keeper->boxes[box].ids, e) : 0;
        if (r == 0)
                r = start_in_groups(keeper, &keeper->boxes[box], spec, m, e);
        if (r == 0) {
                pending_begin(keeper, &m->p);
                return 0;
        }
        close_making(keeper, m);
        fd_close(&m->p.fd);
        free(m);
        box_undo(keeper, box);
        return r;
}
