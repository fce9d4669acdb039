/* The sockets at which everything a sandbox sends ends (jail/net.h) are made in its network namespace, by a process that goes in, hands them out and
 * ends: the keeper itself stays where it is.
 *
 *   keeper ── fork ──▶ the box's user namespace (an ordinary user's keeper has rights only there), its network ── sockets ──▶ keeper */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "helper.h"
#include "jail/net.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>

_Static_assert(NETWORK_FDS == NET_SOCKETS, "as many are handed out as are made");

static int join(const struct keeper_state *keeper, pid_t pid, const char *name, int kind, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        char path[64];

        snprintf(path, sizeof(path), "%d/ns/%s", (int)pid, name);
        fd = openat(keeper->proc_fd, path, O_RDONLY | O_CLOEXEC);
        return fd < 0 || setns(fd, kind) < 0 ? err_os(e, CLOCHE_E_NAMESPACE, errno, "join the box's %s namespace", name) : 0;
}

struct network {
        const struct keeper_state *keeper;
        pid_t pid;
};

static int make_inside(const void *data, int *ret_fds, struct cloche_err *e)
{
        const struct network *network = data;
        int r = network->keeper->is_root ? 0 : join(network->keeper, network->pid, "user", CLONE_NEWUSER, e);

        if (r == 0)
                r = join(network->keeper, network->pid, "net", CLONE_NEWNET, e);
        return r < 0 ? r : net_lead_to_sockets(ret_fds, e);
}

int network_make_sockets(const struct keeper_state *keeper, const struct box *row, int ret_fds[NETWORK_FDS], struct cloche_err *e)
{
        return helper_fetch(make_inside, &(struct network){keeper, row->init_pid}, NETWORK_FDS, ret_fds, e);
}
