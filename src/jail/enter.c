/* Runs in: the child the keeper cloned, until it becomes box-init by execveat(2); single thread.
 * Ours already: user, pid, mount, ipc, uts, net.  Still the host's: cgroup view, root, descriptors,
 * ids (unmapped). Next: box-init, as the plan's user, without capabilities, under the filter,
 * with 0 1 2 on /dev/null and 3 the control socket. */
#include "enter.h"

#include "base/err.h"
#include "base/fd.h"
#include "caps.h"
#include "core-scheduling.h"
#include "jail/cgroup/cgroup.h"
#include "jail/filter/seccomp.h"
#include "jail/root/root.h"
#include "net.h"
#include "rlimit.h"
#include "userns.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

unsigned long enter_clone_flags(void)
{
        return CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET;
}

static int wait_for_parent(int go_fd, struct cloche_err *e)
{
        char go;
        int r = fd_read_full(go_fd, &go, 1);

        return r < 0 ? err_os(e, CLOCHE_E_KEEPER, -r, "wait for the keeper") : 0;
}

/* The groups come before the namespace, so that they are the root of the new view. */
static int enter_cgroups(const int *tasks_fds, size_t count, struct cloche_err *e)
{
        int r = cgroup_enter(tasks_fds, count, e);

        if (r < 0)
                return r;
        if (unshare(CLONE_NEWCGROUP) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "make a cgroup namespace");
        return 0;
}

static int set_host_name(const struct jail_plan *plan, struct cloche_err *e)
{
        int r = sethostname(plan->host_name, strlen(plan->host_name));

        /* In its own namespace only a call filter can refuse this. sethostname(2) is the first of
         * our calls that the filters of containers refuse. */
        if (r < 0 && errno == EPERM)
                return err_set(e, CLOCHE_E_NAMESPACE,
                               "a call filter of this container forbids what boxes are made with: podman and docker "
                               "permit it with "
                               "--security-opt seccomp=unconfined and --security-opt unmask=ALL, or with --privileged");
        if (r < 0 || setdomainname("", 0) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "set the box's host name");
        return 0;
}

static int receive_image(int report_fd, int *ret_fd, struct cloche_err *e)
{
        struct cloche_err sent;
        size_t count = 1;
        ssize_t n = fd_receive(report_fd, &sent, sizeof(sent), ret_fd, &count, 0);

        return n == sizeof(sent) && count == 1 ? 0 : err_set(e, CLOCHE_E_KEEPER, "the keeper sent no image");
}

static int become_user(const struct jail_plan *plan, struct cloche_err *e)
{
        return userns_become_user(plan->user.uid, plan->user.gid, plan->own_groups, e);
}

static int build_root(const struct jail_plan *plan, struct cloche_err *e)
{
        struct root_sources sources;
        /* Host paths are walked while we still have the keeper's ids. Files on our tmpfs are made
         * as the box's user, because an unmapped owner is refused there (EOVERFLOW). */
        int r = root_sources_open(plan, &sources, e);

        if (r == 0)
                r = become_user(plan, e);
        if (r == 0)
                r = root_build(plan, &sources, e);
        root_sources_done(&sources);
        return r;
}

/* Send the mount namespace with the built root to the keeper, which makes the boxes beneath this
 * template from it. This process continues in a copy. */
static int hand_out_root(int ns_fd, int report_fd, struct cloche_err *e)
{
        const struct cloche_err fine = {0};
        int r;

        if (unshare(CLONE_NEWNS) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "copy the mount namespace");
        r = fd_send(report_fd, &fine, sizeof(fine), &ns_fd, 1);
        return r < 0 ? err_os(e, CLOCHE_E_KEEPER, -r, "send the root to the keeper") : 0;
}

/* Send the connections of the mounts to the keeper, in their order; ours close with the program. */
static int hand_out_mounts(const struct jail_plan *plan, int report_fd, struct cloche_err *e)
{
        const struct cloche_err fine = {0};
        int tree_fds[JAIL_MOUNTS_MAX], r = 0;

        for (size_t i = 0; i < JAIL_MOUNTS_MAX; i++)
                tree_fds[i] = -EBADF;
        if (plan->mount_fds)
                r = root_attach_made(plan, tree_fds, e);
        for (size_t i = 0; r == 0 && !plan->mount_fds && i < plan->mount_count; i++) {
                _cleanup_fd_ int fuse_fd = -EBADF;

                r = root_mount_fuse(plan, i, &fuse_fd, &tree_fds[i], e);
                if (r == 0 && (r = fd_send(report_fd, &fine, sizeof(fine), &fuse_fd, 1)) < 0)
                        r = err_os(e, CLOCHE_E_KEEPER, -r, "send a mount to the keeper");
        }
        return r < 0 ? r : root_attach_inner(plan, tree_fds, e);
}

static int enter_root(const struct jail_plan *plan, int report_fd, struct cloche_err *e)
{
        _cleanup_fd_ int ns_fd =
                plan->is_template && !plan->nested ? open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC) : -EBADF;
        int r;

        if (plan->is_template && !plan->nested && ns_fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open the mount namespace");
        if (plan->takes_image) {
                struct jail_plan own = *plan;
                _cleanup_fd_ int image_fd = -EBADF;

                r = receive_image(report_fd, &image_fd, e);
                own.image_fd = image_fd;
                if (r == 0)
                        r = build_root(&own, e);
        } else {
                r = plan->nested ? become_user(plan, e) : build_root(plan, e);
        }
        if (r == 0 && ns_fd >= 0)
                r = hand_out_root(ns_fd, report_fd, e);
        if (r == 0)
                r = root_furnish(plan, e);
        if (r < 0)
                return r;
        return plan->nested && plan->mount_fds ? root_attach_taken(plan, e) : hand_out_mounts(plan, report_fd, e);
}

static int default_signals(struct cloche_err *e)
{
        sigset_t none;

        for (int signal_number = 1; signal_number < NSIG; signal_number++)
                if (signal_number != SIGKILL && signal_number != SIGSTOP)
                        signal(signal_number, SIG_DFL); /* EINVAL for two signals of the C library */
        sigemptyset(&none);
        if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
                return err_os(e, CLOCHE_E_INTERNAL, errno, "unblock signals");
        /* Set after the last change of ids, which clears it. Box-init also leaves when its
         * socket closes. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "tie the box to the keeper");
        return 0;
}

/* Copy above the final numbers first, so that no descriptor is overwritten before it was moved. */
static int lift(const int *fds, size_t count, int *ret, struct cloche_err *e)
{
        for (size_t i = 0; i < count; i++)
                if ((ret[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64)) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "arrange descriptors");
        return 0;
}

/* The descriptors of the groups. Box-init enters them once the keeper no longer waits; if nested,
 * we do so just before it. */
static int arrange_groups(const struct jail_plan *plan, const int *lifted, struct cloche_err *e)
{
        for (size_t i = 0; plan->is_sharing && i < plan->tasks_count; i++)
                if (dup2(lifted[i], JAIL_GROUPS_FD + (int)i) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "arrange descriptors");
        return 0;
}

/* The runtime's descriptor in a sharing box; it is closed before exec. */
static int runtime_number(const struct jail_plan *plan)
{
        return JAIL_GROUPS_FD + (int)plan->tasks_count;
}

/* 0, 1, 2 are /dev/null, 3 is the control socket. Exec closes 4, the program, and 5,
 * the report socket. A sharing box has its groups from 6 on, and behind them its runtime; one with
 * a root of its own has the lease of its ids there. */
static int arrange_descriptors(const struct jail_plan *plan, int *error_fd, struct cloche_err *e)
{
        int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), has_lease = plan->lease_fd >= 0,
            has_runtime = plan->runtime_fd >= 0;
        const int ours[] = {null_fd, plan->control_fd, plan->init_fd, *error_fd, plan->lease_fd};
        int lifted[5], groups[CGROUP_CONTROLLERS],
                runtime_fd = -EBADF,
                last = plan->is_sharing ? runtime_number(plan) + has_runtime : JAIL_GROUPS_FD + has_lease;
        int r = lift(ours, 4 + (size_t)has_lease, lifted, e);

        if (r == 0 && plan->is_sharing)
                r = lift(plan->tasks_fds, plan->tasks_count, groups, e);
        if (r == 0 && has_runtime)
                r = lift(&plan->runtime_fd, 1, &runtime_fd, e);
        if (r < 0)
                return r;
        for (int fd = 0; fd < 3; fd++)
                if (dup2(lifted[0], fd) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "put /dev/null at %d", fd);
        if (dup2(lifted[1], 3) < 0 || dup3(lifted[2], 4, O_CLOEXEC) < 0 || dup3(lifted[3], 5, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "arrange descriptors");
        if (has_lease && dup2(lifted[4], JAIL_LEASE_FD) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "hold the lease of ids");
        if (has_runtime && dup2(runtime_fd, runtime_number(plan)) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "keep the runtime");
        r = arrange_groups(plan, groups, e);
        if (r == 0 && close_range((unsigned)last, ~0u, 0) < 0)
                r = err_os(e, CLOCHE_E_PRIVILEGE, errno, "close the keeper's descriptors");
        *error_fd = 5;
        return r;
}

/* A guest may delay this: a fork bomb in a sandbox's groups at one percent of a processor for long,
 * a frozen group for ever. So the keeper no longer waits. A failure from here on ends this process,
 * and the engine sees that. */
static int enter_sandbox_groups(const struct jail_plan *plan, int *error_fd, struct cloche_err *e)
{
        int groups[CGROUP_CONTROLLERS], r;

        fd_close(error_fd);
        for (size_t i = 0; i < plan->tasks_count; i++)
                groups[i] = JAIL_GROUPS_FD + (int)i;
        r = enter_cgroups(groups, plan->tasks_count, e);
        for (size_t i = 0; i < plan->tasks_count; i++)
                fd_close(&groups[i]);
        return r;
}

/* It enters the sandbox's groups before it executes box-init: to be forked into, or because the
 * files that it makes count there. */
static int enters_early(const struct jail_plan *plan)
{
        return plan->is_sharing && (plan->nested || plan->runtime_fd >= 0);
}

/* The interpreter of a template at the top is started by PID 1 and gets its capability
 * from there. The interpreter of a nested template is forked into the box and has its
 * own: its PID 1 needs none. */
static int hands_rights_on(const struct jail_plan *plan)
{
        return plan->is_template && !plan->nested;
}

/* The last steps of every box. */
static int close_door(const struct jail_plan *plan, int *error_fd, struct cloche_err *e)
{
        int r = default_signals(e);

        if (r == 0)
                r = arrange_descriptors(plan, error_fd, e);
        if (r == 0)
                r = rlimit_apply(plan, e);
        if (r == 0 && plan->core_scheduling) /* the filter refuses it */
                r = core_scheduling_separate(e);
        if (r == 0 && enters_early(plan))
                r = enter_sandbox_groups(plan, error_fd, e);
        if (r == 0 && plan->runtime_fd >= 0)
                r = root_fill_runtime(runtime_number(plan), e);
        if (r == 0) /* the steps above need them; sets no_new_privs, which the filter needs */
                r = hands_rights_on(plan) ? caps_keep_admin(1, e)
                    : plan->has_root      ? caps_keep_root(e)
                                          : caps_drop_all(e);
        if (r == 0) /* last: it forbids the rest */
                r = hands_rights_on(plan)
                            ? jail_seccomp_load_template(plan->user.uid, plan->user.gid, plan->core_scheduling, e)
                    : plan->has_root ? jail_seccomp_load_root(e)
                                     : jail_seccomp_load(e);
        return r;
}

static int enter(const struct jail_plan *plan, int go_fd, int *error_fd, struct cloche_err *e)
{
        int r = wait_for_parent(go_fd, e);

        if (r == 0 && !plan->is_sharing)
                r = enter_cgroups(plan->tasks_fds, plan->tasks_count, e);
        if (r == 0 && !plan->nested) /* a nested box finds it up */
                r = net_loopback_up(e);
        if (r == 0)
                r = set_host_name(plan, e);
        if (r == 0)
                r = enter_root(plan, *error_fd, e);
        return r < 0 ? r : close_door(plan, error_fd, e);
}

static int enter_shared(const struct jail_plan *plan, int go_fd, int *error_fd, struct cloche_err *e)
{
        int r = wait_for_parent(go_fd, e);

        if (r == 0)
                r = become_user(plan, e);
        if (r == 0)
                r = root_share(plan, e);
        return r < 0 ? r : close_door(plan, error_fd, e);
}

static _Noreturn void start_init(const struct jail_plan *plan, int r, int error_fd, struct cloche_err *error)
{
        char cpu_seconds[24], open_files[24], groups[8];
        char *const argv[] = {(char *)"box-init", cpu_seconds, open_files,
                              plan->is_sharing && !enters_early(plan) ? groups : NULL, NULL};
        char *const environment[] = {NULL};

        if (r == 0) {
                /* Limits of the programs in the box, not of PID 1, which sets them; processor time
                 * in whole seconds. */
                snprintf(cpu_seconds, sizeof(cpu_seconds), "%llu",
                         plan->rlimits[RLIMIT_CPU] == UINT64_MAX ? 0ull
                                                                 : (unsigned long long)plan->rlimits[RLIMIT_CPU]);
                snprintf(open_files, sizeof(open_files), "%llu", (unsigned long long)plan->rlimits[RLIMIT_NOFILE]);
                snprintf(groups, sizeof(groups), "%zu", plan->tasks_count);
                syscall(SYS_execveat, 4, "", argv, environment, AT_EMPTY_PATH);
                err_os(error, CLOCHE_E_SPAWN, errno, "start box-init");
        }
        err_wrap(error, "make box");
        /* The error is lost only if the keeper is gone, and then no process waits for it. */
        if (fd_send(error_fd, error, sizeof(*error), NULL, 0) < 0)
                _exit(2);
        _exit(1);
}

_Noreturn void enter_box(const struct jail_plan *plan, int go_fd, int error_fd)
{
        struct cloche_err error = {0};
        int r = enter(plan, go_fd, &error_fd, &error); /* moves error_fd */

        start_init(plan, r, error_fd, &error);
}

_Noreturn void enter_shared_box(const struct jail_plan *plan, int go_fd, int error_fd)
{
        struct cloche_err error = {0};
        int r = enter_shared(plan, go_fd, &error_fd, &error);

        start_init(plan, r, error_fd, &error);
}
