/* Boxes beneath a template. Everything of such a box is owned by a user namespace beneath the template's, and its pid
 * namespace is beneath the template's, for only then may the template's children join it (user_namespaces(7),
 * pid_namespaces(7): setns(2) goes down the tree, never up or aside).
 *
 *   keeper ── fork, in the template's pid namespace ──▶ helper ── joins root and user namespace; clone3 ──▶ PID 1
 *                                                       maps PID 1's user, says its pid, ends
 *
 * PID 1 is cloned with CLONE_PARENT: it is the keeper's child, reaped by it, and dies with it. */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "helper.h"
#include "jail/enter.h"
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

struct helper {
        const struct keeper_state *keeper;
        const struct box *parent, *sandbox; /* sandbox: whose user its is; NULL: one of its own */
        const struct jail_plan *plan;
        int go_fds[2], report_fd, tell_fd;
        int is_inside; /* the user namespace of the root was joined already */
        pid_t *inner;  /* shared: the helper that went in, when another went ahead */
};

static int join(int fd, int kind, const char *what, struct cloche_err *e)
{
        return setns(fd, kind) < 0 ? err_os(e, CLOCHE_E_NAMESPACE, errno, "join the template's %s namespace", what) : 0;
}

/* The owner of a user namespace must be mapped in the one above, and has every capability in it: nobody's id is taken, not
 * the template's own. Without uid 0 in the namespace, changing ids takes no capability away. */
static int become_owner(const struct keeper_state *keeper, struct cloche_err *e)
{
        if (keeper->is_root && (setgroups(0, NULL) < 0 || setresgid(BOX_UID_BASE, BOX_UID_BASE, BOX_UID_BASE) < 0 ||
                                setresuid(BOX_UID_BASE, BOX_UID_BASE, BOX_UID_BASE) < 0))
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "become the owner of the new namespaces");
        /* Or the map files of the child belong to the host's root, who we no longer are. */
        if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open up to ourselves");
        return 0;
}

static int join_template(const struct helper *h, struct cloche_err *e)
{
        const struct box *root = &h->keeper->boxes[h->parent->root_box];
        int r = h->is_inside ? 0 : join(root->user_fd, CLONE_NEWUSER, "user", e);

        if (r == 0)
                r = join(root->root_fd, CLONE_NEWNS, "mount", e);
        if (r == 0 && root != h->parent)
                r = join(h->parent->user_fd, CLONE_NEWUSER, "user", e);
        return r < 0 ? r : become_owner(h->keeper, e);
}

/* proc(5), fdinfo of a pidfd: the number in the pid namespace of that /proc. */
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

/* The child's user by its number in the template's namespace: a sandbox's is there as every living box's, but that of the template itself, which may
 * share with the same one. */
static uint32_t user_above(const struct helper *h, pid_t pid)
{
        uint32_t user = h->sandbox ? box_user(h->keeper, h->sandbox) : BOX_UID_BASE + (uint32_t)pid;

        return h->keeper->is_root && user != box_user(h->keeper, h->parent) ? user : JAIL_UID;
}

static int map_child(const struct helper *h, pid_t pid, struct cloche_err *e)
{
        uint32_t uid = user_above(h, pid), above[DEPTH_MAX];
        struct userns_ids ids = {.uid = uid, .gid = uid, .own_groups = h->keeper->is_root, .taken = above};

        if (h->keeper->is_root && h->plan->is_template) {
                ids.beneath.first = BOX_UID_BASE;
                ids.beneath.count = BOX_UID_COUNT;
                for (const struct box *box = h->parent; box && ids.taken_count < DEPTH_MAX;
                     box = box->parent == KEEPER_NO_BOX ? NULL : &h->keeper->boxes[box->parent])
                        above[ids.taken_count++] = box_user(h->keeper, box);
        }
        return userns_map(h->keeper->proc_fd, pid, &ids, e);
}

static int deliver(const struct helper *h, struct helper_told *told, int *ret_pidfd)
{
        struct clone_args args = {
                .flags = enter_clone_flags() | CLONE_PIDFD | CLONE_PARENT,
                .pidfd = (uintptr_t)ret_pidfd,
        };
        long pid;
        int r = join_template(h, &told->err);

        if (r < 0)
                return r;
        pid = syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0) {
                close(h->go_fds[1]);
                close(h->tell_fd);
                enter_box(h->plan, h->go_fds[0], h->report_fd);
        }
        if (pid < 0)
                return userns_refused(errno, &told->err);
        told->pid = host_pid(h->keeper->proc_fd, *ret_pidfd);
        if (told->pid <= 0)
                return err_set(&told->err, CLOCHE_E_NAMESPACE, "the new box has no pid here");
        return map_child(h, told->pid, &told->err);
}

static _Noreturn void help(const struct helper *h)
{
        struct helper_told told = {0};
        int pidfd = -EBADF;

        (void)deliver(h, &told, &pidfd);
        helper_tell(h->tell_fd, &told, pidfd);
}

/* Born in the template's pid namespace: one whose namespace for children is another than its own may not make a third. */
static pid_t fork_into(const struct helper *h)
{
        pid_t pid;
        int code;

        if (setns(h->parent->pid_fd, CLONE_NEWPID) < 0)
                return -1;
        pid = fork();
        if (pid == 0)
                help(h);
        code = errno;
        if (setns(h->keeper->own_pid_fd, CLONE_NEWPID) < 0)
                abort(); /* every later box would be in the wrong place */
        errno = code;
        return pid;
}

/* A child of the keeper, so that what it clones with CLONE_PARENT is one too. */
static pid_t fork_beside(void)
{
        struct clone_args args = {.flags = CLONE_PARENT};

        return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* An ordinary user's keeper has no right in its own namespaces, so a process goes ahead into the template's, which it owns. */
static pid_t fork_into_owned(struct helper *h)
{
        struct helper_told told = {0};
        pid_t pid;

        h->inner = mmap(NULL, sizeof(*h->inner), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (h->inner == MAP_FAILED)
                return -1;
        pid = fork();
        if (pid != 0)
                return pid;
        if (join(h->keeper->boxes[h->parent->root_box].user_fd, CLONE_NEWUSER, "user", &told.err) == 0 &&
            join(h->parent->pid_fd, CLONE_NEWPID, "pid", &told.err) == 0) {
                h->is_inside = 1;
                pid = fork_beside();
                if (pid == 0)
                        help(h);
                *h->inner = pid;
                _exit(pid < 0);
        }
        helper_tell(h->tell_fd, &told, -EBADF);
}

pid_t nest_clone(struct keeper_state *keeper, const struct box *parent, const struct box *sandbox, const struct jail_plan *plan, int go_fds[2],
                 int report_fd, int *ret_pidfd, struct cloche_err *e)
{
        struct helper h = {keeper, parent, sandbox, plan, {go_fds[0], go_fds[1]}, report_fd, -EBADF, 0, NULL};
        _cleanup_fd_ int ours_fd = -EBADF, theirs_fd = -EBADF;
        int pair[2];
        pid_t helper, pid;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a socket pair");
        ours_fd = pair[0];
        h.tell_fd = theirs_fd = pair[1];
        helper = keeper->is_root ? fork_into(&h) : fork_into_owned(&h);
        if (helper < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "enter the template's pid namespace");
        fd_close(&theirs_fd);
        pid = helper_hear(ours_fd, ret_pidfd, e);
        helper_reap(helper);
        if (h.inner && h.inner != MAP_FAILED) {
                if (*h.inner > 0)
                        helper_reap(*h.inner);
                munmap(h.inner, sizeof(*h.inner));
        }
        return pid < 0 ? -1 : pid;
}
