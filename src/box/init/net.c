/* Runs in: box-init, in the box's network namespace, where no outside process is. */
#include "init.h"

#include "base/err.h"
#include "base/fd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define CONNECT_PATIENCE_MS 20 /* the loopback replies at once, unless the listener's queue is full */
#define TCP_STATE_LISTEN 0x0A  /* include/net/tcp_states.h */
#define IPV4_LOOPBACK 0x7f     /* 127.0.0.0/8 */

/* -- connecting ----------------------------------------------------------------------------------------------- */

union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

static socklen_t loopback_address(int family, unsigned port, union address *ret)
{
        memset(ret, 0, sizeof(*ret));
        ret->any.sa_family = (sa_family_t)family;
        if (family == AF_INET) {
                ret->v4.sin_port = htons((uint16_t)port);
                ret->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
                return sizeof(ret->v4);
        }
        ret->v6.sin6_port = htons((uint16_t)port);
        ret->v6.sin6_addr = in6addr_loopback;
        return sizeof(ret->v6);
}

/* A port in the range of ephemeral ports may be chosen for the very socket that connects to it; TCP
 * then connects the socket to itself. */
static int is_connected_to_itself(int fd)
{
        union address own, other;
        socklen_t own_size = sizeof(own), other_size = sizeof(other);

        memset(&own, 0, sizeof(own));
        memset(&other, 0, sizeof(other));
        return getsockname(fd, &own.any, &own_size) == 0 && getpeername(fd, &other.any, &other_size) == 0 &&
               own_size == other_size && memcmp(&own, &other, own_size) == 0;
}

/* Returns the socket, or -errno. */
static int connect_to(int family, unsigned port)
{
        _cleanup_fd_ int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        struct pollfd polled = {.fd = fd, .events = POLLOUT};
        union address address;
        socklen_t size = loopback_address(family, port, &address), code_size = sizeof(int);
        int code = 0;

        if (fd < 0)
                return -errno;
        if (connect(fd, &address.any, size) < 0 && errno != EINPROGRESS)
                return -errno;
        if (poll(&polled, 1, CONNECT_PATIENCE_MS) == 0)
                return TAKE_FD(fd);
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &code_size) < 0)
                return -errno;
        return code ? -code : is_connected_to_itself(fd) ? -ECONNREFUSED : TAKE_FD(fd);
}

int net_connect(const struct init_request *request, int *ret_fd, struct cloche_err *e)
{
        int fd;

        if (request->port < 1 || request->port > UINT16_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no port %u, expected 1 to %d", request->port,
                               UINT16_MAX);
        fd = connect_to(AF_INET, request->port);
        if (fd < 0)
                fd = connect_to(AF_INET6, request->port);
        if (fd < 0)
                return err_os(e, CLOCHE_E_PORT_CLOSED, -fd, "connect to port %u of the box", request->port);
        *ret_fd = fd;
        return 0;
}

/* -- listening sockets ---------------------------------------------------------------------------------------- */

/* The address is printed as words in the machine's byte order: 127.0.0.1 is 0100007F here. */
static int is_loopback(const char *hex, size_t digits)
{
        uint8_t bytes[16];
        static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

        for (size_t word = 0; word < digits / 8; word++) {
                uint32_t value;

                if (sscanf(hex + 8 * word, "%8" SCNx32, &value) != 1)
                        return 0;
                memcpy(bytes + 4 * word, &value, sizeof(value));
        }
        if (digits == 8)
                return bytes[0] == IPV4_LOOPBACK;
        return memcmp(bytes, &in6addr_loopback, sizeof(bytes)) == 0 ||
               (memcmp(bytes, mapped, sizeof(mapped)) == 0 && bytes[12] == IPV4_LOOPBACK);
}

int net_parse_socket(const char *line, struct init_port *ret)
{
        char local[33], remote[33];
        unsigned number, port, remote_port, state;
        size_t digits;

        if (sscanf(line, " %u: %32[0-9A-F]:%4x %32[0-9A-F]:%4x %2x", &number, local, &port, remote, &remote_port,
                   &state) != 6)
                return -1;
        digits = strlen(local);
        if ((digits != 8 && digits != 32) || strlen(remote) != digits)
                return -1;
        *ret = (struct init_port){.port = port, .is_loopback = (uint32_t)is_loopback(local, digits)};
        return state == TCP_STATE_LISTEN;
}

/* Listening sockets come first (net/ipv4/tcp_ipv4.c, tcp_seq_start), so connections, possibly very
 * many, are not read. */
static int copy_listening(const char *path, int to_fd)
{
        FILE *file = fopen(path, "re");
        char line[512];
        int r = 1;

        if (!file)
                return errno == ENOENT ? 0 : -errno; /* no IPv6 in this kernel */
        if (!fgets(line, sizeof(line), file))        /* the names of the columns */
                r = 0;
        while (r == 1 && fgets(line, sizeof(line), file)) {
                struct init_port port;

                r = net_parse_socket(line, &port);
                if (r == 1 && write(to_fd, &port, sizeof(port)) != sizeof(port))
                        r = -EIO;
                else if (r == -1)
                        r = -EPROTO;
        }
        fclose(file);
        return r < 0 ? r : 0;
}

int net_ports(int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int fd = memfd_create("ports", MFD_CLOEXEC);
        int r = fd < 0 ? -errno : copy_listening("/proc/net/tcp", fd);

        if (r == 0)
                r = copy_listening("/proc/net/tcp6", fd);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "look for the ports of the box");
        *ret_fd = TAKE_FD(fd);
        return 0;
}
