/* The network namespace of a box: loopback, and the sockets at which a sandbox's packets end. Runs
 * in: the child the keeper cloned, and a helper of the keeper as the namespace's owner. */
#include "net.h"

#include "base/err.h"
#include "base/fd.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define BACKLOG 128

int net_loopback_up(struct cloche_err *e)
{
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct ifreq request = {.ifr_flags = IFF_UP};

        if (fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open a socket in the box");
        strcpy(request.ifr_name, "lo");
        if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "bring the box's loopback up");
        return 0;
}

/* -- addresses and routes --------------------------------------------------------------------------------------- */

/* The kernel's reply is there when send(2) returns. */
static int send_request(int fd, const struct nlmsghdr *message, const char *what, struct cloche_err *e)
{
        struct {
                struct nlmsghdr header;
                struct nlmsgerr error;
                char more[512];
        } answer;

        if (send(fd, message, message->nlmsg_len, 0) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "%s", what);
        if (recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) < (ssize_t)(sizeof(answer.header) + sizeof(answer.error)) ||
            answer.header.nlmsg_type != NLMSG_ERROR)
                return err_set(e, CLOCHE_E_NAMESPACE, "%s: the kernel gave no answer", what);
        return answer.error.error && answer.error.error != -EEXIST
                       ? err_os(e, CLOCHE_E_NAMESPACE, -answer.error.error, "%s", what)
                       : 0;
}

static struct nlmsghdr *begin(char *room, uint16_t type)
{
        struct nlmsghdr *message = mnl_nlmsg_put_header(room);

        message->nlmsg_type = type;
        message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        return message;
}

static int add_address(int fd, unsigned loopback, struct cloche_err *e)
{
        char room[256] = {0};
        struct nlmsghdr *message = begin(room, RTM_NEWADDR);
        struct ifaddrmsg *body = mnl_nlmsg_put_extra_header(message, sizeof(*body));

        *body = (struct ifaddrmsg){.ifa_family = AF_INET,
                                   .ifa_prefixlen = 32,
                                   .ifa_scope = RT_SCOPE_UNIVERSE,
                                   .ifa_index = loopback};
        mnl_attr_put_u32(message, IFA_LOCAL, htonl(NET_ADDRESS));
        mnl_attr_put_u32(message, IFA_ADDRESS, htonl(NET_ADDRESS));
        return send_request(fd, message, "give the box an address", e);
}

static int add_route(int fd, unsigned loopback, struct cloche_err *e)
{
        char room[256] = {0};
        struct nlmsghdr *message = begin(room, RTM_NEWROUTE);
        struct rtmsg *body = mnl_nlmsg_put_extra_header(message, sizeof(*body));

        *body = (struct rtmsg){
                .rtm_family = AF_INET,
                .rtm_table = RT_TABLE_MAIN,
                .rtm_protocol = RTPROT_BOOT,
                .rtm_scope = RT_SCOPE_LINK,
                .rtm_type = RTN_UNICAST,
        };
        mnl_attr_put_u32(message, RTA_OIF, loopback);
        mnl_attr_put_u32(message, RTA_PREFSRC, htonl(NET_ADDRESS));
        return send_request(fd, message, "give the box a route", e);
}

static int add_way_out(struct cloche_err *e)
{
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        unsigned loopback = if_nametoindex("lo");
        int r;

        if (fd < 0 || loopback == 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "reach the box's loopback");
        r = add_address(fd, loopback, e);
        return r < 0 ? r : add_route(fd, loopback, e);
}

/* -- sockets ---------------------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        int type;
        uint16_t port;
} sockets[NET_SOCKETS] = {
        [NET_SOCKET_TCP] = {"the box's connections", SOCK_STREAM, NET_EGRESS_PORT},
        [NET_SOCKET_NAMES_UDP] = {"the box's questions for names", SOCK_DGRAM, NET_NAMES_PORT},
        [NET_SOCKET_NAMES_TCP] = {"the box's questions for names by TCP", SOCK_STREAM, NET_NAMES_PORT},
};

static int open_socket(enum net_socket which, struct cloche_err *e)
{
        _cleanup_fd_ int fd = socket(AF_INET, sockets[which].type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons(sockets[which].port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

        if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
            (sockets[which].type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "make the socket for %s", sockets[which].name);
        return TAKE_FD(fd);
}

static int open_sockets(int fds[NET_SOCKETS], struct cloche_err *e)
{
        for (int i = 0; i < NET_SOCKETS; i++)
                fds[i] = -EBADF;
        for (int i = 0; i < NET_SOCKETS; i++) {
                fds[i] = open_socket((enum net_socket)i, e);
                if (fds[i] >= 0)
                        continue;
                while (i-- > 0)
                        fd_close(&fds[i]);
                return -(int)CLOCHE_E_NAMESPACE;
        }
        return 0;
}

/* The route out is added last, so nothing can leave before the rules are in force. */
int net_lead_to_sockets(int ret_fds[NET_SOCKETS], struct cloche_err *e)
{
        int fds[NET_SOCKETS], r = nft_redirect(e);

        if (r == 0)
                r = open_sockets(fds, e);
        if (r < 0)
                return r;
        r = add_way_out(e);
        for (int i = 0; r < 0 && i < NET_SOCKETS; i++)
                fd_close(&fds[i]);
        if (r == 0)
                memcpy(ret_fds, fds, sizeof(fds));
        return r;
}
