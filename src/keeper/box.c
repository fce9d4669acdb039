#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/enter.h"
#include "jail/plan.h"
#include "jail/userns.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Host users of boxes: this and the pid of the box's init, so no two living boxes share one. Past the ranges that
 * useradd(8), subuid(5) and systemd (524288 to 1879048191) give out; pids end at 2^22. */
#define BOX_UID_BASE 0x70000000u
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

static struct jail_plan plan_of(const struct keeper_state *keeper, const struct keeper_box_spec *spec)
{
        return (struct jail_plan){
                .image = spec->image,
                .runtime_dir = spec->runtime_dir,
                .disk_bytes = spec->limits.disk_bytes,
                .disk_inodes = spec->limits.disk_inodes,
                .file_bytes = spec->limits.file_bytes,
                .open_files = spec->limits.open_files,
                .pids = spec->limits.pids,
                .cpu_ms = spec->limits.cpu_ms,
                .data_bytes = keeper->cgroups.places[CGROUP_MEMORY].version ? UINT64_MAX : spec->limits.memory_bytes,
                .own_groups = keeper->is_root,
                .init_fd = keeper->init_program_fd,
        };
}

static pid_t clone_child(int *ret_pidfd)
{
        struct clone_args args = {
                .flags = enter_clone_flags() | CLONE_PIDFD,
                .pidfd = (uintptr_t)ret_pidfd,
                .exit_signal = SIGCHLD,
        };

        return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* The kernel charges inotify instances, message queues and namespaces of a box also to whoever made its user namespace
 * (struct ucounts): made by root, all boxes would share root's allowance, and one could use it up. So each is made under
 * a user of its own. Files are still opened as root, for images and runtimes that only root can reach. */
static pid_t clone_as_owner(const struct keeper_state *keeper, uint32_t box, int *ret_pidfd)
{
        uid_t owner = BOX_OWNER_BASE + (((uid_t)getpid() & 0x7fff) << 12) + box;
        pid_t pid;
        int code;

        if (!keeper->is_root)
                return clone_child(ret_pidfd);
        if (seteuid(owner) < 0)
                return -1;
        setfsuid(0);
        pid = clone_child(ret_pidfd);
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

/* Map the child's user, put it into its groups, let it go. */
static int release_child(const struct keeper_state *keeper, uint32_t box, pid_t pid, int go_fd, struct cloche_err *e)
{
        uid_t uid = keeper->is_root ? BOX_UID_BASE + (uid_t)pid : geteuid();
        gid_t gid = keeper->is_root ? (gid_t)uid : getegid();
        int r = userns_map(pid, uid, gid, keeper->is_root, e);

        if (r == 0)
                r = cgroup_move(&keeper->cgroups, box, pid, e);
        if (r == 0)
                r = fd_write_full(go_fd, "g", 1) < 0 ? err_set(e, CLOCHE_E_NAMESPACE, "the new box died at once") : 0;
        return r;
}

/* End of file says that exec closed the pipe: PID 1 is box-init. No guest byte was read before that. */
static int wait_until_entered(int error_fd, struct cloche_err *e)
{
        struct cloche_err theirs;
        ssize_t n;

        do
                n = read(error_fd, &theirs, sizeof(theirs));
        while (n < 0 && errno == EINTR);
        if (n == 0)
                return 0;
        if (n != sizeof(theirs) || err_check(&theirs) < 0 || theirs.code == CLOCHE_OK)
                return err_set(e, CLOCHE_E_INTERNAL, "the new box reported %zd bytes that are no error value", n);
        *e = theirs;
        return -(int)theirs.code;
}

static void kill_and_reap(pid_t pid)
{
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

static int start_init(struct keeper_state *keeper, uint32_t box, struct jail_plan *plan, int *ret_control_fd,
                      struct cloche_err *e)
{
        _cleanup_fd_ int ours_fd = -EBADF, theirs_fd = -EBADF, go_read_fd = -EBADF, go_write_fd = -EBADF;
        _cleanup_fd_ int error_read_fd = -EBADF, error_write_fd = -EBADF, pidfd = -EBADF;
        int pair[2], r;
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make the control socket");
        ours_fd = pair[0];
        theirs_fd = pair[1];
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        go_read_fd = pair[0];
        go_write_fd = pair[1];
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        error_read_fd = pair[0];
        error_write_fd = pair[1];
        plan->control_fd = theirs_fd;
        pid = clone_as_owner(keeper, box, &pidfd);
        if (pid < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno,
                              "make the box's namespaces%s", errno == EPERM || errno == ENOSPC ?
                              " (are user namespaces permitted? see /proc/sys/user/max_user_namespaces)" : "");
        if (pid == 0) {
                close(go_write_fd); /* or waiting for the keeper would wait for ourselves */
                enter_box(plan, go_read_fd, error_write_fd);
        }
        fd_close(&error_write_fd);
        r = release_child(keeper, box, pid, go_write_fd, e);
        if (r == 0)
                r = wait_until_entered(error_read_fd, e);
        if (r < 0) {
                kill_and_reap(pid);
                return r;
        }
        keeper->boxes[box] = (struct box){.init_pid = pid, .init_pidfd = TAKE_FD(pidfd)};
        *ret_control_fd = TAKE_FD(ours_fd);
        return 0;
}

/* The box's groups, and a child that enters them. */
static int start_in_groups(struct keeper_state *keeper, uint32_t box, const struct keeper_box_spec *spec,
                           int *ret_control_fd, struct cloche_err *e)
{
        struct jail_plan plan = plan_of(keeper, spec);
        int tasks_fds[CGROUP_CONTROLLERS], r;

        r = cgroup_open_tasks(&keeper->cgroups, box, tasks_fds, &plan.tasks_count, e);
        if (r < 0)
                return r;
        plan.tasks_fds = tasks_fds;
        r = start_init(keeper, box, &plan, ret_control_fd, e);
        for (size_t i = 0; i < plan.tasks_count; i++)
                close(tasks_fds[i]);
        return r;
}

int box_make(struct keeper_state *keeper, const struct keeper_box_spec *spec, uint32_t *ret_box, int *ret_control_fd,
             struct cloche_err *e)
{
        struct cgroup_limits limits = {
                .memory_bytes = spec->limits.memory_bytes,
                .pids = spec->limits.pids,
                .cpu_percent = spec->limits.cpu_percent,
        };
        uint32_t box = 0;
        int r = check_guards(keeper, spec->optional_guards, e);

        if (r == 0)
                r = find_free(keeper, &box, e);
        if (r == 0)
                r = cgroup_make(&keeper->cgroups, box, &limits, e);
        if (r < 0)
                return r;
        r = start_in_groups(keeper, box, spec, ret_control_fd, e);
        if (r < 0) {
                (void)cgroup_remove(&keeper->cgroups, box, NULL);
                return r;
        }
        *ret_box = box;
        return 0;
}

struct box *box_find(struct keeper_state *keeper, uint32_t box, struct cloche_err *e)
{
        if (box < KEEPER_BOXES_MAX && keeper->boxes[box].init_pid)
                return &keeper->boxes[box];
        err_set(e, CLOCHE_E_STATE, "there is no box %u", box);
        return NULL;
}

void box_usage(struct keeper_state *keeper, uint32_t box, struct keeper_usage *ret)
{
        struct cgroup_usage usage;

        cgroup_read_usage(&keeper->cgroups, box, &usage);
        *ret = (struct keeper_usage){
                .cpu_ns = usage.cpu_ns,
                .memory_peak_bytes = usage.memory_peak_bytes,
                .oom_kills = usage.oom_kills,
                .pids_peak = usage.pids_peak,
                .pids_refused = usage.pids_refused,
                .cpu_known = (uint32_t)usage.cpu_known,
                .memory_known = (uint32_t)usage.memory_known,
                .pids_known = (uint32_t)usage.pids_known,
        };
}

int box_drop(struct keeper_state *keeper, uint32_t box, struct keeper_usage *ret, struct cloche_err *e)
{
        struct box *row = box_find(keeper, box, e);

        if (!row)
                return -CLOCHE_E_STATE;
        cgroup_kill(&keeper->cgroups, box);
        /* The wait ends when every process of the pid namespace is gone: PID 1 is reaped last. */
        kill_and_reap(row->init_pid);
        fd_close(&row->init_pidfd);
        row->init_pid = 0;
        box_usage(keeper, box, ret);
        return cgroup_remove(&keeper->cgroups, box, e);
}
