/* The connection file that a front end wrote, and its sockets. Runs in: cloche-kernel, as its user,
 * before it gives up its rights. */
#include "connection.h"

#include "base/err.h"
#include "base/fd.h"
#include "wire/json.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define FILE_BYTES_MAX (64u << 10)
#define BACKLOG 100

static const char *const port_names[PORT_COUNT] = {"shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"};

static int read_file(const char *path, json_t **ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        char text[FILE_BYTES_MAX];
        ssize_t n = 1;
        size_t size = 0;
        int r;

        if (fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "the connection file %.200s", path);
        while (size < sizeof(text) && (n = read(fd, text + size, sizeof(text) - size)) > 0)
                size += (size_t)n;
        if (n < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "the connection file %.200s", path);
        r = size == sizeof(text) ? err_set(e, CLOCHE_E_TOO_LARGE, "it is too large")
                                 : json_load_text(text, size, ret, e);
        return r < 0 ? err_wrap(e, "the connection file %.200s", path) : 0;
}

/* -- sockets ------------------------------------------------------------------------------------------------------- */

static int listen_at(const struct sockaddr *address, socklen_t size, const char *name, struct cloche_err *e)
{
        _cleanup_fd_ int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int on = 1;

        /* The ports are used again at once when the kernel restarts. */
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(fd, address, size) < 0 ||
            listen(fd, BACKLOG) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "listen at %.150s", name);
        return TAKE_FD(fd);
}

static int open_tcp(struct connection *c, int port, const char *ip, json_int_t number, struct cloche_err *e)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number)};

        if (number < 1 || number > 65535 || inet_pton(AF_INET, ip, &address.sin_addr) != 1)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "ip and %s of the connection file: expected an IPv4 address and a port",
                               port_names[port]);
        if (ntohl(address.sin_addr.s_addr) >> 24 != 127)
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "ip of the connection file is %s: only addresses of loopback are served, for messages "
                               "are "
                               "signed but not encrypted",
                               ip);
        snprintf(c->address[port], sizeof(c->address[port]), "tcp://%s:%d", ip, (int)number);
        return listen_at((struct sockaddr *)&address, sizeof(address), c->address[port], e);
}

static int open_ipc(struct connection *c, int port, const char *ip, json_int_t number, struct cloche_err *e)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int size = snprintf(address.sun_path, sizeof(address.sun_path), "%s-%lld", ip, (long long)number);
        mode_t mask;
        int fd;

        if (size < 0 || size >= (int)sizeof(address.sun_path))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "ip of the connection file is too long for a socket");
        snprintf(c->address[port], sizeof(c->address[port]), "ipc://%s", address.sun_path);
        unlink(address.sun_path); /* of a kernel that was killed */
        mask = umask(0077);
        fd = listen_at((struct sockaddr *)&address, sizeof(address), c->address[port], e);
        umask(mask);
        return fd;
}

static int open_sockets(struct connection *c, const json_t *file, struct cloche_err *e)
{
        const char *ip = json_string_value(json_object_get(file, "ip"));
        int r = 0;

        for (int port = 0; r >= 0 && port < PORT_COUNT; port++) {
                json_int_t number = json_integer_value(json_object_get(file, port_names[port]));

                r = c->is_ipc ? open_ipc(c, port, ip, number, e) : open_tcp(c, port, ip, number, e);
                c->fds[port] = r;
        }
        return r < 0 ? r : 0;
}

/* -- the file ------------------------------------------------------------------------------------------------------ */

static int check(const json_t *file, struct cloche_err *e)
{
        const char *transport = json_string_value(json_object_get(file, "transport")),
                   *scheme = json_string_value(json_object_get(file, "signature_scheme"));

        if (!transport || (strcmp(transport, "tcp") != 0 && strcmp(transport, "ipc") != 0))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "transport of the connection file: expected tcp or ipc");
        if (scheme && *scheme && strcmp(scheme, "hmac-sha256") != 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "signature_scheme of the connection file: expected hmac-sha256");
        if (!json_is_string(json_object_get(file, "ip")) || !json_is_string(json_object_get(file, "key")))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the connection file lacks ip or key");
        return 0;
}

int connection_open(const char *path, struct connection *ret, struct cloche_err *e)
{
        json_t *file = NULL;
        int r;

        *ret = (struct connection){0};
        for (int port = 0; port < PORT_COUNT; port++)
                ret->fds[port] = -EBADF;
        r = read_file(path, &file, e);
        if (r == 0)
                r = check(file, e);
        if (r == 0) {
                ret->is_ipc = strcmp(json_string_value(json_object_get(file, "transport")), "ipc") == 0;
                ret->key = strdup(json_string_value(json_object_get(file, "key")));
                r = ret->key ? open_sockets(ret, file, e)
                             : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the connection file");
        }
        json_decref(file);
        if (r < 0)
                connection_close(ret);
        return r;
}

void connection_close(struct connection *c)
{
        for (int port = 0; port < PORT_COUNT; port++) {
                if (c->is_ipc && c->fds[port] >= 0)
                        unlink(c->address[port] + sizeof("ipc://") - 1);
                fd_close(&c->fds[port]);
        }
        free(c->key);
        c->key = NULL;
}
