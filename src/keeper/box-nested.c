/* Boxes beneath a template. A user namespace beneath the template's owns everything of such a box,
 * and its pid namespace is beneath the template's. Otherwise the template's children could not join
 * it (user_namespaces(7), pid_namespaces(7): setns(2) goes down the tree, never up or aside).
 *
 *   keeper ── fork ──▶ mapper ── joins the template's user namespace; clone3: a new one ──▶ holder
 *   keeper ── fork, in the template's pid namespace ──▶ cloner ── joins root and new user namespace; clone3 ──▶ PID 1
 *   cloner ── a pidfd of PID 1 ──▶ mapper ── maps the holder's user namespace; PID 1's pid ──▶ keeper
 *
 * The template's code may have every capability in the template's user namespace (decision 0017).
 * It sees the cloner, and PID 1 until that is box-init. It can trace neither: both have the memory
 * of the keeper, which was executed in a user namespace above (ptrace(2), access mode checking),
 * and are not dumpable; the cloner has only the descriptors of its task. It may stop and kill both,
 * and change their resource limits: then the box is not made.
 * Mapper and holder are in the keeper's pid namespace, where the template sees no process. Both are
 * needed because a process that is not dumpable has no map files that an ordinary user may write.
 * PID 1 is cloned with CLONE_PARENT: it is the keeper's child, reaped by it, and dies with it. Runs
 * in: the keeper and the helpers named here. */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "helper.h"
#include "jail/enter.h"
#include "jail/net.h"
#include "jail/userns.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int join(int fd, int kind, const char *what, struct cloche_err *e)
{
        return setns(fd, kind) < 0 ? err_os(e, CLOCHE_E_NAMESPACE, errno, "join the template's %s namespace", what) : 0;
}

/* The owner of a user namespace must be mapped in the one above, and has every capability in it. So
 * the owner gets an id that no process has, not the template's. Without uid 0 in the namespace,
 * changing ids takes no capability away. */
static int become_owner(const struct keeper_state *keeper, struct cloche_err *e)
{
        if (keeper->is_root && (setgroups(0, NULL) < 0 || setresgid(BOX_UID_BASE, BOX_UID_BASE, BOX_UID_BASE) < 0 ||
                                setresuid(BOX_UID_BASE, BOX_UID_BASE, BOX_UID_BASE) < 0))
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "become the owner of the new namespaces");
        return 0;
}

/* -- the cloner ------------------------------------------------------------------------------------------------ */

static int receive_namespace(int mapper_fd, int *ret_fd, struct cloche_err *e)
{
        size_t fd_count = 1;
        char byte;
        ssize_t n = fd_receive(mapper_fd, &byte, 1, ret_fd, &fd_count, 0);

        /* The mapper sends the reason to the keeper. */
        return n == 1 && fd_count == 1 ? 0
                                       : err_set(e, CLOCHE_E_NAMESPACE, "there is no user namespace for the new box");
}

/* The template's user namespace owns the box's network, not the box's. There the template has
 * CAP_SYS_ADMIN, with which its child may join, and can never have CAP_NET_ADMIN or CAP_NET_RAW
 * (docs/decisions/0018). */
static int make_network(struct cloche_err *e)
{
        if (unshare(CLONE_NEWNET) < 0)
                return userns_refused(errno, e);
        return net_loopback_up(e);
}

/* Making a network takes the kernel longer than the rest of a box. So the mapper makes the one
 * of the next box beneath the same template, when its own box goes on without it. Until that box
 * no process is in it, and no process but the keeper has its descriptor. */
static int enter_network(const struct clone_order *order, struct cloche_err *e)
{
        const struct box *root = &order->keeper->boxes[order->parent->root_box];
        int r = order->parent == root ? 0 : join(order->parent->user_fd, CLONE_NEWUSER, "user", e);

        if (r < 0)
                return r;
        return order->network_fd < 0 ? make_network(e) : join(order->network_fd, CLONE_NEWNET, "next network", e);
}

/* The cloner joins the root's user namespace first: from then on it has no right on the host.
 * is_inside: it has joined already. */
static int clone_init(const struct clone_order *order, int is_inside, int mapper_fd, int *ret_pidfd,
                      struct cloche_err *e)
{
        const struct box *root = &order->keeper->boxes[order->parent->root_box];
        const int kept[] = {mapper_fd,     order->go_fd,           order->report_fd, root->user_fd,
                            root->root_fd, order->parent->user_fd, order->network_fd};
        struct clone_args args = {
                .flags = (enter_clone_flags() & ~(unsigned long)(CLONE_NEWUSER | CLONE_NEWNET)) | CLONE_PIDFD |
                         CLONE_PARENT,
                .pidfd = (uintptr_t)ret_pidfd,
        };
        _cleanup_fd_ int user_fd = -EBADF;
        long pid;
        int r = helper_keep(order->plan, kept, sizeof(kept) / sizeof(kept[0]), e);

        if (r == 0 && !is_inside)
                r = join(root->user_fd, CLONE_NEWUSER, "user", e);
        if (r == 0)
                r = join(root->root_fd, CLONE_NEWNS, "mount", e);
        if (r == 0)
                r = become_owner(order->keeper, e);
        if (r == 0)
                r = enter_network(order, e);
        if (r == 0)
                r = receive_namespace(mapper_fd, &user_fd, e);
        if (r == 0)
                r = join(user_fd, CLONE_NEWUSER, "box's user", e);
        if (r < 0)
                return r;
        pid = syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0) {
                close(mapper_fd);
                close(root->user_fd);
                close(root->root_fd);
                if (order->parent != root)
                        close(order->parent->user_fd);
                close(user_fd);
                if (order->network_fd >= 0)
                        close(order->network_fd);
                enter_box(order->plan, order->go_fd, order->report_fd);
        }
        if (pid > 0)
                return 0;
        *ret_pidfd = -EBADF; /* the kernel writes a number before the call fails (kernel/fork.c, copy_process) */
        return userns_refused(errno, e);
}

static _Noreturn void run_cloner(const struct clone_order *order, int is_inside, int mapper_fd)
{
        struct helper_report report = {0};
        int pidfd = -EBADF;

        if (is_inside || helper_set_score(order->keeper->proc_fd, 0, &report.err) == 0)
                (void)clone_init(order, is_inside, mapper_fd, &pidfd, &report.err);
        helper_report_send(mapper_fd, &report, pidfd);
}

/* The cloner is born in the template's pid namespace: a process whose namespace for children is not
 * its own may not make a third. */
static pid_t fork_cloner(const struct clone_order *order, int mapper_fd, struct cloche_err *e)
{
        pid_t pid;
        int code;

        if (setns(order->parent->pid_fd, CLONE_NEWPID) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "enter the template's pid namespace"), -1;
        pid = fork();
        if (pid == 0)
                run_cloner(order, 0, mapper_fd);
        code = errno;
        if (setns(order->keeper->own_pid_fd, CLONE_NEWPID) < 0)
                abort(); /* every later box would be in the wrong namespace */
        return pid < 0 ? err_os(e, CLOCHE_E_RESOURCE, code, "fork"), -1 : pid;
}

/* Fork a child of the keeper, so that its clones with CLONE_PARENT are the keeper's children
 * too. */
static pid_t fork_beside(void)
{
        struct clone_args args = {.flags = CLONE_PARENT};

        return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* An ordinary user's keeper has no right in its own namespaces. So a process first enters the
 * template's, which that user owns. No guest sees it, and it is quick. *ret is shared with the
 * keeper. */
static _Noreturn void fork_cloner_inside(const struct clone_order *order, int mapper_fd, pid_t *ret)
{
        struct cloche_err e = {0};
        pid_t pid;

        if (helper_set_score(order->keeper->proc_fd, 0, &e) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
            join(order->keeper->boxes[order->parent->root_box].user_fd, CLONE_NEWUSER, "user", &e) < 0 ||
            join(order->parent->pid_fd, CLONE_NEWPID, "pid", &e) < 0)
                _exit(1);
        pid = fork_beside();
        if (pid == 0)
                run_cloner(order, 1, mapper_fd);
        *ret = pid;
        _exit(pid < 0);
}

static pid_t fork_cloner_from_template(const struct clone_order *order, int mapper_fd, struct cloche_err *e)
{
        pid_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), cloner,
              entered;

        if (shared == MAP_FAILED)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "share memory"), -1;
        entered = fork();
        if (entered == 0)
                fork_cloner_inside(order, mapper_fd, shared);
        while (entered > 0 && waitpid(entered, NULL, 0) < 0 && errno == EINTR)
                ;
        cloner = *shared;
        munmap(shared, sizeof(*shared));
        return cloner > 0 ? cloner : (err_set(e, CLOCHE_E_NAMESPACE, "the template's namespaces cannot be joined"), -1);
}

/* -- the mapper ------------------------------------------------------------------------------------------------ */

/* Read the pid in the namespace of that /proc from fdinfo of a pidfd: proc(5). */
static pid_t host_pid(int proc_fd, int pidfd)
{
        char path[64], text[512];
        _cleanup_fd_ int fd = -EBADF;
        const char *line;
        ssize_t n;

        snprintf(path, sizeof(path), "self/fdinfo/%d", pidfd);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return -1;
        text[n] = '\0';
        line = strstr(text, "Pid:");
        return line ? (pid_t)strtol(line + 4, NULL, 10) : -1;
}

/* Return the child's user by its number in the template's namespace. A sandbox's user is mapped
 * unchanged there, like that of every live box, unless it is the template's own, because both share
 * with that sandbox, or belong to an ordinary user: then it is own. */
static uint32_t user_above(const struct clone_order *order, pid_t pid, uint32_t own)
{
        const struct keeper_state *keeper = order->keeper;
        uint32_t user = order->sandbox ? box_user(keeper, order->sandbox) : BOX_UID_BASE + (uint32_t)pid;

        return keeper->is_root && user != box_user(keeper, order->parent) ? user : own;
}

/* holder: a process in the user namespace of the box whose PID 1 is pid. */
static int map(const struct clone_order *order, pid_t holder, pid_t pid, struct cloche_err *e)
{
        const struct keeper_state *keeper = order->keeper;
        uint32_t above[DEPTH_MAX];
        struct userns_ids ids = {
                .inside_uid = order->plan->user.uid,
                .inside_gid = order->plan->user.gid,
                .uid = user_above(order, pid, order->parent->user.uid),
                .gid = user_above(order, pid, order->parent->user.gid),
                .own_groups = keeper->is_root,
                .taken = above,
        };

        if (keeper->is_root && order->plan->is_template) {
                ids.beneath.first = BOX_UID_BASE;
                ids.beneath.count = BOX_UID_COUNT;
                for (const struct box *box = order->parent; box && ids.taken_count < DEPTH_MAX;
                     box = box->parent == KEEPER_NO_BOX ? NULL : &keeper->boxes[box->parent])
                        above[ids.taken_count++] = box_user(keeper, box);
        }
        return userns_map(keeper->proc_fd, holder, &ids, e);
}

/* Clone a process in a new user namespace; it lives until the other end of *ret_fd is closed. */
static pid_t clone_holder(int *ret_fd, struct cloche_err *e)
{
        struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
        int pair[2];
        pid_t pid;
        char byte;

        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe"), -1;
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0) {
                close(pair[1]);
                while (read(pair[0], &byte, 1) < 0 && errno == EINTR)
                        ;
                _exit(0);
        }
        close(pair[0]);
        *ret_fd = pair[1];
        return pid < 0 ? userns_refused(errno, e), -1 : pid;
}

/* Send the namespace to the cloner, receive PID 1, and return its pid in our namespace. */
static pid_t exchange(const struct clone_order *order, pid_t holder, int cloner_fd, int *ret_pidfd,
                      struct cloche_err *e)
{
        _cleanup_fd_ int user_fd = -EBADF;
        struct helper_report report;
        size_t fd_count = 1;
        pid_t pid;
        int r = box_open_namespace(order->keeper, holder, "user", &user_fd, e);

        if (r == 0 && (r = fd_send(cloner_fd, "n", 1, &user_fd, 1)) < 0)
                err_os(e, CLOCHE_E_NAMESPACE, -r, "send the box's user namespace to the helper");
        if (r < 0)
                return -1;
        if (fd_receive(cloner_fd, &report, sizeof(report), ret_pidfd, &fd_count, 0) != sizeof(report) ||
            err_check(&report.err) < 0)
                return err_set(e, CLOCHE_E_NAMESPACE,
                               "the helper died while making a box: code of the template may have killed it"),
                       -1;
        if (report.err.code != CLOCHE_OK || fd_count != 1) {
                *e = report.err;
                return -1;
        }
        pid = host_pid(order->keeper->proc_fd, *ret_pidfd);
        return pid > 0 ? pid : (err_set(e, CLOCHE_E_NAMESPACE, "the new box has no pid in the keeper's namespace"), -1);
}

/* A failure costs the next box only time: it makes its own. */
static void make_next_network(const struct clone_order *order)
{
        _cleanup_fd_ int fd = -EBADF;
        struct cloche_err e = {0};

        if (order->next_network_fd < 0 || make_network(&e) < 0)
                return;
        fd = openat(order->keeper->proc_fd, "self/ns/net", O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
                (void)fd_send(order->next_network_fd, "n", 1, &fd, 1);
}

static _Noreturn void run_mapper(const struct clone_order *order, int cloner_fd, int report_fd)
{
        struct helper_report report = {0};
        int holder_fd = -EBADF, pidfd = -EBADF, r;
        pid_t holder = -1, pid = -1;

        if (join(order->parent->user_fd, CLONE_NEWUSER, "user", &report.err) == 0 &&
            become_owner(order->keeper, &report.err) == 0) {
                /* Otherwise the map files of the holder would belong to the host's root, which we
                 * no longer are. */
                prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
                holder = clone_holder(&holder_fd, &report.err);
        }
        if (holder > 0)
                pid = exchange(order, holder, cloner_fd, &pidfd, &report.err);
        if (pid > 0) {
                report.pid = pid;
                (void)map(order, holder, pid, &report.err);
        }
        /* The box goes on while the holder ends. */
        r = helper_report(report_fd, &report, pidfd);
        fd_close(&holder_fd);
        while (holder > 0 && waitpid(holder, NULL, 0) < 0 && errno == EINTR)
                ;
        make_next_network(order);
        _exit(r < 0);
}

/* -- the keeper ------------------------------------------------------------------------------------------------ */

int box_nested_clone(const struct clone_order *order, struct helpers *ret, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int ours_fd = -EBADF, report_fd = -EBADF, mapper_fd = -EBADF, cloner_fd = -EBADF;
        int pair[2], r = helper_open_pair(pair, e);
        pid_t pid;

        if (r < 0)
                return r;
        ours_fd = pair[0];
        report_fd = pair[1];
        r = helper_open_pair(pair, e);
        if (r < 0)
                return r;
        cloner_fd = pair[0];
        mapper_fd = pair[1];
        pid = order->keeper->is_root ? fork_cloner(order, mapper_fd, e)
                                     : fork_cloner_from_template(order, mapper_fd, e);
        if (pid < 0)
                return -(int)e->code;
        ret->pids[HELPER_CLONER] = pid;
        fd_close(&mapper_fd); /* the mapper must see when the cloner's end closes */
        pid = fork();
        if (pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        if (pid == 0)
                run_mapper(order, cloner_fd, report_fd);
        ret->pids[HELPER_MAPPER] = pid;
        *ret_fd = TAKE_FD(ours_fd);
        return 0;
}

void box_nested_keep_network(struct keeper_state *keeper, struct box *template)
{
        size_t fd_count = 1;
        char byte;

        if (fd_receive(template->next_network_fd, &byte, 1, &template->network_fd, &fd_count, MSG_DONTWAIT) != 1 ||
            fd_count != 1)
                template->network_fd = -EBADF;
        fd_close(&template->next_network_fd);
        keeper->making_networks--;
        while (waitpid(template->next_network_pid, NULL, 0) < 0 && errno == EINTR) /* sending was its last act */
                ;
}

void box_nested_punish(struct keeper_state *keeper, uint32_t template)
{
        const struct box *row = &keeper->boxes[template];

        if (row->state != BOX_LIVING)
                return;
        if (row->shared_with == KEEPER_NO_BOX)
                cgroup_kill(&keeper->cgroups, template);
        kill(row->init_pid, SIGKILL);
}
