/* Boxes that share with a sandbox's box: they have its user, files, network, ids and control
 * groups, but their own processes.
 *
 *   keeper ── fork ──▶ helper ── joins the sandbox's namespaces; clone3: new pid and mount namespace ──▶ PID 1
 *                      sends its pid, exits
 *
 * The pid namespace is beside the sandbox's, not beneath it: neither side sees, signals or traces
 * the other. The sandbox's user namespace owns it; otherwise its /proc could not be mounted there.
 * Box-init itself enters the groups once it runs: a guest's actions in them, for example a fork
 * bomb at one percent of a processor, delay no process that the keeper waits for. A box with a
 * runtime, for an interpreter of the engine's, enters them before it copies the runtime's files.
 *
 * A box beneath a template (box-nested.c) can share as well, so that a child of that template
 * works on the sandbox's files. It has the sandbox's user, control groups and writable places;
 * everything else is its own, also its network. A helper in the sandbox's mount namespace copies
 * the places, and PID 1 attaches them in its own: a detached tree of mounts may be attached
 * anywhere (Linux 5.2), but an attached one can be copied only in its own namespace. Runs in:
 * the keeper and the helper named here. */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "helper.h"
#include "jail/enter.h"
#include "jail/root/root.h"
#include "jail/userns.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#define TAKE_TIMEOUT_S 5
#define SHARED_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP)

static int deliver(const struct clone_order *order, int report_fd, struct helper_report *report, int *ret_pidfd)
{
        struct clone_args args = {
                .flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_PIDFD | CLONE_PARENT,
                .pidfd = (uintptr_t)ret_pidfd,
        };
        long pid;

        /* The pidfd joins all namespaces at once: they are this sandbox's, or the call fails
         * (Linux 5.8). */
        if (setns(order->sandbox->init_pidfd, SHARED_NAMESPACES) < 0)
                return err_os(&report->err, CLOCHE_E_NAMESPACE, errno, "join the sandbox's namespaces");
        pid = syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0) {
                close(report_fd);
                enter_shared_box(order->plan, order->go_fd, order->report_fd);
        }
        if (pid < 0) {
                *ret_pidfd = -EBADF;
                return userns_refused(errno, &report->err);
        }
        report->pid = (pid_t)pid;
        return 0;
}

/* The helper cannot walk the host's paths any more once it has joined the sandbox. */
static int open_runtime(struct jail_plan *plan, struct cloche_err *e)
{
        if (!plan->runtime_dir[0])
                return 0;
        plan->runtime_fd = open(plan->runtime_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return plan->runtime_fd < 0
                       ? err_os(e, CLOCHE_E_MISSING_RUNTIME, errno, "open the runtime %s", plan->runtime_dir)
                       : 0;
}

int box_shared_clone(const struct clone_order *order, struct helpers *ret, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int ours_fd = -EBADF, theirs_fd = -EBADF;
        int pair[2], pidfd = -EBADF, r = helper_open_pair(pair, e);
        pid_t pid;

        if (r < 0)
                return r;
        ours_fd = pair[0];
        theirs_fd = pair[1];
        pid = fork();
        if (pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        if (pid == 0) {
                struct helper_report report = {0};
                struct jail_plan plan = *order->plan;
                struct clone_order own = *order;
                const int kept[] = {theirs_fd, order->go_fd, order->report_fd, order->sandbox->init_pidfd};

                own.plan = &plan;
                if (helper_set_score(order->keeper->proc_fd, 0, &report.err) == 0 &&
                    open_runtime(&plan, &report.err) == 0 &&
                    helper_keep(&plan, kept, sizeof(kept) / sizeof(kept[0]), &report.err) == 0)
                        (void)deliver(&own, theirs_fd, &report, &pidfd);
                helper_report_send(theirs_fd, &report, pidfd);
        }
        ret->pids[HELPER_CLONER] = pid;
        *ret_fd = TAKE_FD(ours_fd);
        return 0;
}

static int take_places(const void *data, int *ret_fds, struct cloche_err *e)
{
        const struct box *sandbox = data;

        if (setns(sandbox->init_pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "join the sandbox's mount namespace");
        return root_take_writable(ret_fds, e);
}

int box_shared_take_mounts(const struct box *sandbox, int ret_fds[JAIL_SHARED_PLACES], struct cloche_err *e)
{
        return helper_fetch(take_places, sandbox, JAIL_SHARED_PLACES, TAKE_TIMEOUT_S, ret_fds, e);
}

static int take_layers(const void *data, int *ret_fds, struct cloche_err *e)
{
        const struct box *sandbox = data;

        if (setns(sandbox->init_pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "join the sandbox's mount namespace");
        return root_take_layers(ret_fds, e);
}

int box_shared_take_layers(const struct box *sandbox, int *ret_fd, struct cloche_err *e)
{
        return helper_fetch(take_layers, sandbox, 1, TAKE_TIMEOUT_S, ret_fd, e);
}

struct taking {
        const struct jail_plan *plan;
        const struct box *sandbox;
};

static int take_others(const void *data, int *ret_fds, struct cloche_err *e)
{
        const struct taking *t = data;
        int r = 0;

        if (setns(t->sandbox->init_pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "join the sandbox's mount namespace");
        if (chdir("/") < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "enter the sandbox's root");
        for (size_t i = 0; r == 0 && i < t->plan->mount_count; i++)
                r = root_take_mount(t->plan->mounts[i], &ret_fds[i], e);
        return r; /* the process ends when it failed, and its descriptors with it */
}

/* A mount in another comes with that one. */
static int is_brought(const struct box *sandbox, uint32_t mount)
{
        for (uint32_t i = 0; i < sandbox->mount_count; i++)
                if (i != mount && path_is_at_or_below(sandbox->mount_targets[mount], sandbox->mount_targets[i]))
                        return 1;
        return root_is_in_shared_place(sandbox->mount_targets[mount]);
}

int box_shared_take_others(const struct box *sandbox, struct jail_plan *plan, int ret_fds[KEEPER_MOUNTS_MAX],
                           struct cloche_err *e)
{
        const struct taking taking = {plan, sandbox};

        for (size_t i = 0; i < KEEPER_MOUNTS_MAX; i++)
                ret_fds[i] = -EBADF;
        for (uint32_t i = 0; sandbox->mount_targets && i < sandbox->mount_count; i++)
                if (!is_brought(sandbox, i))
                        plan->mounts[plan->mount_count++] = sandbox->mount_targets[i];
        return plan->mount_count == 0
                       ? 0
                       : helper_fetch(take_others, &taking, plan->mount_count, TAKE_TIMEOUT_S, ret_fds, e);
}

/* -- the sandbox and the boxes that share with it --------------------------------------------------------------- */

/* A user that belongs to a template is not mapped beneath it, except for that template's own child
 * (userns.c). */
static int check_user(const struct keeper_state *keeper, const struct box *sandbox, uint32_t parent,
                      struct cloche_err *e)
{
        uid_t user = box_user(keeper, sandbox);

        if (!keeper->is_root || parent == KEEPER_NO_BOX || box_user(keeper, &keeper->boxes[parent]) == user)
                return 0;
        for (uint32_t box = keeper->boxes[parent].parent; box != KEEPER_NO_BOX; box = keeper->boxes[box].parent)
                if (box_user(keeper, &keeper->boxes[box]) == user)
                        return err_set(e, CLOCHE_E_STATE,
                                       "box %u shares with the sandbox, but box %u in it shares with another one: a "
                                       "box cannot return to the first",
                                       box, parent);
        return 0;
}

int box_shared_check(struct keeper_state *keeper, const struct keeper_box_spec *spec, struct cloche_err *e)
{
        const struct box *row = spec->shared_with == KEEPER_NO_BOX ? NULL : box_find(keeper, spec->shared_with, e);

        /* A mount serves only the user namespace in which it was made and those beneath
         * (fs/fuse/dir.c, fuse_allow_current_process). Root's keeper makes it in the first of
         * all. */
        if (row && row->is_sandbox && row->mount_count > 0 && spec->parent != KEEPER_NO_BOX && !keeper->is_root)
                return err_set(e, CLOCHE_E_STATE,
                               "the sandbox has mounts, which an interpreter forked from a template can use only with "
                               "root's daemon: use sessions and processes, or a sandbox without mounts");
        if (row && row->ids.fd >= 0 && spec->parent != KEEPER_NO_BOX)
                return err_set(e, CLOCHE_E_STATE,
                               "the sandbox has root, whose users an interpreter forked from a template does not have: "
                               "use sessions and processes, or a sandbox without root");
        if (spec->shared_with == KEEPER_NO_BOX)
                return 0;
        if (row && row->is_sandbox)
                return check_user(keeper, row, spec->parent, e);
        return row ? err_set(e, CLOCHE_E_STATE, "box %u is not of a sandbox: no box can share with it",
                             spec->shared_with)
                   : -CLOCHE_E_STATE;
}

uint32_t box_shared_groups(const struct keeper_state *keeper, uint32_t box)
{
        return keeper->boxes[box].shared_with == KEEPER_NO_BOX ? box : keeper->boxes[box].shared_with;
}

int box_shared_check_groups(const struct keeper_state *keeper, uint32_t box, struct cloche_err *e)
{
        uint32_t groups = box_shared_groups(keeper, box);

        return groups == box
                       ? 0
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                 "box %u has the control groups of box %u: send the request for that one", box, groups);
}

static int is_sharing(const struct box *row, uint32_t sandbox)
{
        return row->state != BOX_FREE && row->state != BOX_LEAVING && !row->has_lost_sandbox &&
               row->shared_with == sandbox;
}

void box_shared_kill(struct keeper_state *keeper, uint32_t sandbox)
{
        for (uint32_t box = 0; keeper->boxes[sandbox].is_sandbox && box < KEEPER_BOXES_MAX; box++)
                if (is_sharing(&keeper->boxes[box], sandbox) && keeper->boxes[box].init_pid)
                        kill(keeper->boxes[box].init_pid, SIGKILL);
}

/* Beneath a context of another sandbox. Its PID 1 ends after that context has reaped the
 * interpreter, and code there may run long before it does. Nothing but zombies is left when the
 * groups are empty, for which box_leave waits. */
static int is_beneath_another(const struct keeper_state *keeper, const struct box *row)
{
        uint32_t above = row->parent == KEEPER_NO_BOX ? KEEPER_NO_BOX : keeper->boxes[row->parent].shared_with;

        return above != KEEPER_NO_BOX && above != row->shared_with;
}

int box_shared_closed_fd(const struct keeper_state *keeper, uint32_t sandbox)
{
        for (uint32_t box = 0; keeper->boxes[sandbox].is_sandbox && box < KEEPER_BOXES_MAX; box++) {
                const struct box *row = &keeper->boxes[box];
                struct pollfd polled = {.fd = row->init_pidfd, .events = POLLIN};

                if (polled.fd >= 0 && is_sharing(row, sandbox) && !is_beneath_another(keeper, row) &&
                    poll(&polled, 1, 0) == 0)
                        return polled.fd;
        }
        return keeper->boxes[sandbox].init_pidfd;
}

void box_shared_release(struct keeper_state *keeper, uint32_t sandbox)
{
        for (uint32_t box = 0; keeper->boxes[sandbox].is_sandbox && box < KEEPER_BOXES_MAX; box++)
                if (is_sharing(&keeper->boxes[box], sandbox))
                        keeper->boxes[box].has_lost_sandbox = 1;
}
