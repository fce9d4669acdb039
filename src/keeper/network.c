/* The sockets at which all packets of a sandbox end (jail/net.h) are made in its network namespace.
 * A process enters it, sends them to the keeper and exits: the keeper never enters.
 *
 *   keeper ── fork ──▶ the owner of the box's network, the network ── sockets ──▶ keeper
 *
 * Runs in: the keeper and that process. */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "helper.h"
#include "jail/net.h"

#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>

#define NETWORK_TIMEOUT_S 10 /* the first network of a host loads modules of the kernel */

_Static_assert(NETWORK_FDS == NET_SOCKETS, "as many are handed out as are made");

struct network {
        const struct keeper_state *keeper;
        pid_t pid;
};

/* An ordinary user's keeper has its rights in the user namespace that owns the network: for a box
 * beneath a template that is the template's. */
static int become_owner(int net_fd, struct cloche_err *e)
{
        _cleanup_fd_ int user_fd = ioctl(net_fd, NS_GET_USERNS);

        return user_fd < 0 || setns(user_fd, CLONE_NEWUSER) < 0
                       ? err_os(e, CLOCHE_E_NAMESPACE, errno, "join the user namespace of the box's network")
                       : 0;
}

static int make_inside(const void *data, int *ret_fds, struct cloche_err *e)
{
        const struct network *network = data;
        _cleanup_fd_ int net_fd = -EBADF;
        int r = box_open_namespace(network->keeper, network->pid, "net", &net_fd, e);

        if (r == 0 && !network->keeper->is_root)
                r = become_owner(net_fd, e);
        if (r == 0 && setns(net_fd, CLONE_NEWNET) < 0)
                r = err_os(e, CLOCHE_E_NAMESPACE, errno, "join the box's network");
        return r < 0 ? r : net_lead_to_sockets(ret_fds, e);
}

int network_make_sockets(const struct keeper_state *keeper, const struct box *row, int ret_fds[NETWORK_FDS],
                         struct cloche_err *e)
{
        return helper_fetch(make_inside, &(struct network){keeper, row->init_pid}, NETWORK_FDS, NETWORK_TIMEOUT_S,
                            ret_fds, e);
}
