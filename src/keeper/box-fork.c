/* A template forks a child into a box beneath it: the keeper sends it a request, with every
 * namespace and control group of the box. Runs in: the keeper. */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "proto/fork.h"

#include <fcntl.h>
#include <sys/stat.h>

static const struct {
        enum fork_fd place;
        const char *name;
} fork_namespaces[] = {
        {FORK_FD_PID, "pid"}, {FORK_FD_USER, "user"},     {FORK_FD_MOUNT, "mnt"}, {FORK_FD_IPC, "ipc"},
        {FORK_FD_UTS, "uts"}, {FORK_FD_CGROUP, "cgroup"}, {FORK_FD_NET, "net"},
};
#define FORK_NAMESPACES (sizeof(fork_namespaces) / sizeof(fork_namespaces[0]))

/* True if the box is a context, was forked from one, or has a set-up that contexts are forked
 * from. A prefix has no templates beneath its runs, so no way into a user namespace that owns a
 * network. Its runs keep netlink, which getifaddrs(3) needs. */
static int is_contexts(const struct box *row)
{
        return row->is_template && (row->shared_with != KEEPER_NO_BOX || row->depth >= 2);
}

static struct fork_request fork_request_of(const struct keeper_state *keeper, const struct box *row, uint32_t id)
{
        struct fork_request request = {
                .id = id,
                .is_template = (uint32_t)row->is_template,
                .refuses_netlink = (uint32_t)is_contexts(row),
                .uid = row->user.uid,
                .gid = row->user.gid,
                .core_scheduling = keeper->guards[CLOCHE_GUARD_CORE_SCHEDULING].state == CLOCHE_GUARD_ENFORCED,
        };

        box_rlimits(keeper, 0, row->shared_with, &row->limits, request.rlimits);
        return request;
}

/* PID 1 of a sharing box enters the groups after the keeper has replied, and then makes its cgroup
 * namespace. Until then it is in our own. */
static int check_view(const struct keeper_state *keeper, const struct box *row, uint32_t box, int view_fd,
                      struct cloche_err *e)
{
        struct stat ours, theirs;

        if (row->shared_with == KEEPER_NO_BOX)
                return 0;
        if (fstat(view_fd, &theirs) < 0 || fstatat(keeper->proc_fd, "self/ns/cgroup", &ours, 0) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "look at the box's cgroup namespace");
        if (ours.st_ino != theirs.st_ino)
                return 0;
        return err_set(e, CLOCHE_E_STATE,
                       "box %u is on its way into the groups of box %u: send its first process a request, and fork "
                       "after the answer",
                       box, row->shared_with);
}

static int send_fork(struct keeper_state *keeper, uint32_t box, uint32_t id, const int *theirs, int *fds,
                     struct cloche_err *e)
{
        const struct box *row = &keeper->boxes[box];
        struct fork_request request = fork_request_of(keeper, row, id);
        size_t tasks_count = 0, count = FORK_FD_COUNT;
        int r = 0;

        for (size_t i = 0; r == 0 && i < FORK_NAMESPACES; i++)
                r = box_open_namespace(keeper, row->init_pid, fork_namespaces[i].name, &fds[fork_namespaces[i].place],
                                       e);
        if (r == 0)
                r = check_view(keeper, row, box, fds[FORK_FD_CGROUP], e);
        if (r == 0)
                r = cgroup_open_tasks(&keeper->cgroups, box_shared_groups(keeper, box), fds + FORK_FD_COUNT,
                                      &tasks_count, e);
        request.tasks_count = (uint32_t)tasks_count;
        count += tasks_count;
        if (r == 0 && row->is_template)
                fds[count++] = theirs[KEEPER_FORK_FDS - 1];
        if (r == 0) {
                r = fd_send(keeper->boxes[row->parent].fork_fd, &request, sizeof(request), fds, count);
                if (r == -EAGAIN)
                        r = err_set(e, CLOCHE_E_STATE, "the template of box %u does not read its requests to fork",
                                    box);
                else if (r < 0)
                        r = err_os(e, CLOCHE_E_STATE, -r, "send the template a request to fork");
        }
        for (size_t i = FORK_FD_PID; i < FORK_FD_COUNT + tasks_count; i++)
                fd_close(&fds[i]);
        return r;
}

int box_fork(struct keeper_state *keeper, uint32_t box, uint32_t id, const int *fds, struct cloche_err *e)
{
        struct box *row = box_find(keeper, box, e);
        int all[FORK_FD_COUNT + FORK_TASKS_MAX + 1];

        if (!row)
                return -CLOCHE_E_STATE;
        if (row->parent == KEEPER_NO_BOX || !box_find(keeper, row->parent, NULL))
                return err_set(e, CLOCHE_E_STATE, "the template of box %u has ended", box);
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                all[i] = i < FORK_FD_PID ? fds[i] : -EBADF;
        if (row->shared_with == KEEPER_NO_BOX)
                cgroup_reset_peak(&keeper->cgroups, box);
        return send_fork(keeper, box, id, fds, all, e);
}
