/* The keeper's table of boxes: measured, frozen, killed, removed. Runs in: the keeper. */
#include "box.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/state.h"
#include "proto/usage.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Owners of user namespaces: this, plus 15 bits of the keeper's pid and 12 of the box's number. */
#define BOX_OWNER_BASE 0x78000000u

static const unsigned transitions[BOX_STATES] = {
        [BOX_FREE] = STATE_TO(BOX_STARTING),
        [BOX_STARTING] = STATE_TO(BOX_LIVING) | STATE_TO(BOX_DYING) | STATE_TO(BOX_LEAVING),
        [BOX_LIVING] = STATE_TO(BOX_DYING),
        [BOX_DYING] = STATE_TO(BOX_LEAVING),
        [BOX_LEAVING] = STATE_TO(BOX_FREE),
};

void box_set_state(struct keeper_state *keeper, struct box *row, enum box_state state)
{
        STATE_CHECK(transitions, row->state, state);
        if (row->state == BOX_DYING)
                keeper->dying--;
        if (row->state == BOX_LEAVING)
                keeper->leaving--;
        row->state = state;
        if (state == BOX_DYING)
                keeper->dying++;
        if (state == BOX_LEAVING)
                keeper->leaving++;
}

/* The limits with a resource limit in spec/limits.def. */
static const struct {
        int resource;
        size_t offset;
} rlimit_rows[] = {
#define NO_RLIMIT (-1)
#define OF_BOX(field, rlimit) {rlimit, offsetof(struct keeper_box_limits, field)},
#define OF_RUN(field, rlimit)
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, scope, sandbox, rlimit, ...) OF_##scope(field, rlimit)
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};

/* RLIMIT_NPROC of a process cannot be raised later, but the limit of a sandbox can; so it is
 * unlimited if the group holds the limit. */
static uint64_t pids_rlimit(const struct keeper_state *keeper, int is_sandbox, uint32_t shared_with,
                            const struct keeper_box_limits *limits)
{
        int is_held_by_group = is_sandbox || shared_with != KEEPER_NO_BOX;

        return is_held_by_group && keeper->cgroups.places[CGROUP_PIDS].version ? UINT64_MAX : limits->pids;
}

void box_rlimits(const struct keeper_state *keeper, int is_sandbox, uint32_t shared_with,
                 const struct keeper_box_limits *limits, uint64_t ret[RLIM_NLIMITS])
{
        memset(ret, 0xff, RLIM_NLIMITS * sizeof(ret[0]));
        for (size_t i = 0; i < sizeof(rlimit_rows) / sizeof(rlimit_rows[0]); i++)
                if (rlimit_rows[i].resource >= 0)
                        memcpy(&ret[rlimit_rows[i].resource], (const char *)limits + rlimit_rows[i].offset,
                               sizeof(ret[0]));
        /* In whole seconds, later than the limit of the control group. */
        if (limits->cpu_ms != UINT64_MAX)
                ret[RLIMIT_CPU] = (limits->cpu_ms + 999) / 1000 + 1;
        ret[RLIMIT_NPROC] = pids_rlimit(keeper, is_sandbox, shared_with, limits);
        /* A control group counts all memory; RLIMIT_DATA would count a part of it for each
         * process. */
        if (keeper->cgroups.places[CGROUP_MEMORY].version)
                ret[RLIMIT_DATA] = UINT64_MAX;
}

uid_t box_user(const struct keeper_state *keeper, const struct box *row)
{
        const struct box *own = row->shared_with == KEEPER_NO_BOX ? row : &keeper->boxes[row->shared_with];

        return own->ids.fd >= 0 ? own->ids.first : BOX_UID_BASE + (uid_t)own->init_pid;
}

/* The kernel also charges inotify instances, message queues and namespaces of a box to the user who
 * made its user namespace (struct ucounts). If root made them all, boxes would share root's
 * allowance, and one could use it up. So each is made under its own user. Files are still opened as
 * root, for images and runtimes that only root can reach. */
uid_t box_owner(uint32_t box)
{
        return BOX_OWNER_BASE + (((uid_t)getpid() & 0x7fff) << 12) + box;
}

int box_open_namespace(const struct keeper_state *keeper, pid_t pid, const char *name, int *ret_fd,
                       struct cloche_err *e)
{
        char path[64];

        snprintf(path, sizeof(path), "%d/ns/%s", (int)pid, name);
        *ret_fd = openat(keeper->proc_fd, path, O_RDONLY | O_CLOEXEC);
        return *ret_fd < 0 ? err_os(e, CLOCHE_E_NAMESPACE, errno, "open the box's %s namespace", name) : 0;
}

static void close_box(struct keeper_state *keeper, struct box *box)
{
        int *const all[] = {&box->init_pidfd, &box->fork_fd,    &box->user_fd, &box->pid_fd,
                            &box->root_fd,    &box->network_fd, &box->tree_fd};

        if (box->next_network_fd >= 0)
                box_nested_keep_network(keeper, box);
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                fd_close(all[i]);
        for (uint32_t i = 0; i < box->mount_count; i++)
                fd_close(&box->fuse_fds[i]);
        free(box->mount_targets);
        box->mount_targets = NULL;
}

/* -- later in a box's life ------------------------------------------------------------------------------------ */

struct box *box_find_living(struct keeper_state *keeper, uint32_t box, struct cloche_err *e)
{
        if (box < KEEPER_BOXES_MAX && keeper->boxes[box].state == BOX_LIVING)
                return &keeper->boxes[box];
        err_set(e, CLOCHE_E_STATE, "there is no box %u", box);
        return NULL;
}

struct box *box_find(struct keeper_state *keeper, uint32_t box, struct cloche_err *e)
{
        struct box *row = box_find_living(keeper, box, e);

        if (!row || !row->has_lost_sandbox)
                return row;
        err_set(e, CLOCHE_E_STATE, "box %u ended with the sandbox it shared with", box);
        return NULL;
}

int box_limit(struct keeper_state *keeper, uint32_t box, const struct keeper_box_limits *limits, struct cloche_err *e)
{
        const struct cgroup_limits wanted = {.memory_bytes = limits->memory_bytes,
                                             .pids = limits->pids,
                                             .cpu_percent = limits->cpu_percent};
        struct keeper_box_limits *now = &keeper->boxes[box].limits;
        int r = box_shared_check_groups(keeper, box, e);

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

static int set_aside(const struct keeper_state *keeper, uint32_t box, pid_t pid, int is_aside, struct cloche_err *e)
{
        int r = pid ? cgroup_set_aside(&keeper->cgroups, box, pid, is_aside) : 0;

        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "move a program of box %u", box) : 0;
}

/* The servers of mounts and networks, of the box and of those that share its groups. A pid is
 * not reaped before its place is cleared, so it is no other process. */
static int set_programs_aside(const struct keeper_state *keeper, uint32_t box, int is_aside, struct cloche_err *e)
{
        int r = 0;

        if (keeper->cgroups.places[CGROUP_FREEZER].version != 2)
                return 0; /* none of them is in the group that freezes: do not search all boxes */
        for (uint32_t other = 0; other < KEEPER_BOXES_MAX && r == 0; other++) {
                const struct box *row = &keeper->boxes[other];

                if (row->state != BOX_LIVING || box_shared_groups(keeper, other) != box)
                        continue;
                r = set_aside(keeper, box, row->egress_pid, is_aside, e);
                for (int i = 0; i < KEEPER_MOUNTS_MAX && r == 0; i++)
                        r = set_aside(keeper, box, row->server_pids[i], is_aside, e);
        }
        return r;
}

int box_freeze(struct keeper_state *keeper, uint32_t box, struct cloche_err *e)
{
        int r = box_shared_check_groups(keeper, box, e);

        if (r < 0)
                return r;
        if (!keeper->boxes[box].is_frozen) {
                keeper->boxes[box].is_frozen = 1; /* a thaw puts back those that were moved before a failure */
                r = set_programs_aside(keeper, box, 1, e);
                if (r < 0)
                        return r;
        }
        r = cgroup_freeze(&keeper->cgroups, box, e);
        if (r == -CLOCHE_E_GUARD_MISSING) /* then nothing was moved */
                keeper->boxes[box].is_frozen = 0;
        return r;
}

int box_thaw(struct keeper_state *keeper, uint32_t box, struct cloche_err *e)
{
        int r = box_shared_check_groups(keeper, box, e);

        if (r < 0 || !keeper->boxes[box].is_frozen)
                return r;
        r = cgroup_thaw(&keeper->cgroups, box, e);
        if (r == 0)
                r = set_programs_aside(keeper, box, 0, e);
        if (r == 0)
                keeper->boxes[box].is_frozen = 0;
        return r;
}

void box_usage(struct keeper_state *keeper, uint32_t box, struct keeper_usage *ret)
{
        *ret = keeper->boxes[box].has_lost_sandbox ? (struct keeper_usage){0}
                                                   : usage_read(&keeper->cgroups, box_shared_groups(keeper, box));
}

static void kill_all(struct keeper_state *keeper, uint32_t box)
{
        struct box *row = &keeper->boxes[box];

        if (row->shared_with == KEEPER_NO_BOX)
                cgroup_kill(&keeper->cgroups, box);
        kill(row->init_pid, SIGKILL);
        serve_kill(row);
        box_shared_kill(keeper, box);
        box_set_state(keeper, row, BOX_DYING);
}

int keeper_box_kill(struct keeper_state *keeper, uint32_t box, uint32_t serial, struct cloche_err *e)
{
        struct box *row = box_find_living(keeper, box, e);

        if (!row)
                return -CLOCHE_E_STATE;
        row->drop_serial = serial;
        kill_all(keeper, box);
        return 0;
}

static void leave(struct keeper_state *keeper, struct box *row)
{
        box_set_state(keeper, row, BOX_LEAVING);
        row->leaves_since_ns = clock_now_ns();
}

void box_undo(struct keeper_state *keeper, uint32_t box)
{
        struct box *row = &keeper->boxes[box];

        if (row->init_pid) {
                kill_all(keeper, box);
                return;
        }
        close_box(keeper, row);
        leave(keeper, row);
}

/* The kernel killed the boxes beneath. No more may be made or forked there, because the number will
 * be reused. */
static void orphan(struct keeper_state *keeper, uint32_t box)
{
        for (uint32_t other = 0; other < KEEPER_BOXES_MAX; other++) {
                struct box *row = &keeper->boxes[other];

                if (row->state == BOX_FREE)
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
        close_box(keeper, row);
        box_shared_release(keeper, box);
        if (row->is_template)
                orphan(keeper, box);
        box_usage(keeper, box, &row->last_usage);
        leave(keeper, row);
}

int box_leave(struct keeper_state *keeper, uint32_t box)
{
        struct box *row = &keeper->boxes[box];

        if (row->shared_with == KEEPER_NO_BOX && cgroup_try_remove(&keeper->cgroups, box) < 0)
                return 0;
        row->init_pid = 0;
        ids_release(&row->ids); /* no process is in the groups, and the mounts went with the last one */
        box_set_state(keeper, row, BOX_FREE);
        return 1;
}
