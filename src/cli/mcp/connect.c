/* A connection to a daemon on TCP, named by its URL. Runs in: the CLI, as its user. */
#include "connect.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCHEME "http://"
#define PATH "/mcp" /* of the URL for clients that speak HTTP */

/* The text is cut into host and port. 0: it is no such URL. */
static int split(char *text, const char **ret_host, const char **ret_port)
{
        char *end = text + strlen(text), *colon;

        if (end > text && end[-1] == '/')
                *--end = '\0';
        if ((size_t)(end - text) > strlen(PATH) && strcmp(end - strlen(PATH), PATH) == 0)
                *(end - strlen(PATH)) = '\0';
        colon = strrchr(text, ':');
        if (strncmp(text, SCHEME, strlen(SCHEME)) != 0 || colon <= text + strlen(SCHEME) || !colon[1] ||
            colon[1 + strspn(colon + 1, "0123456789")] != '\0')
                return 0;
        *colon = '\0';
        *ret_host = text + strlen(SCHEME);
        *ret_port = colon + 1;
        if (**ret_host == '[' && colon[-1] == ']') { /* an address of IPv6 */
                (*ret_host)++;
                colon[-1] = '\0';
        }
        return 1;
}

static int connect_first(const struct addrinfo *list)
{
        int r = -EHOSTUNREACH;

        for (; list; list = list->ai_next) {
                _cleanup_fd_ int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

                if (fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0)
                        return TAKE_FD(fd);
                r = -errno; /* a kernel without IPv6 makes no such socket */
        }
        return r;
}

int mcp_connect(const char *url, struct daemon_client *ret, struct cloche_err *e)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        struct addrinfo *list = NULL;
        const char *host, *port;
        char *text = strdup(url);
        int fd, r;

        if (!text || !split(text, &host, &port)) {
                free(text);
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "expected http://HOST:PORT, not '%.200s' (a daemon with TLS is reached by its socket, "
                               "or "
                               "by HTTP at /mcp)",
                               url);
        }
        r = getaddrinfo(host, port, &hints, &list);
        free(text);
        if (r != 0)
                return err_set(e, CLOCHE_E_NOT_FOUND, "cannot resolve the host of %.200s: %s", url, gai_strerror(r));
        fd = connect_first(list);
        freeaddrinfo(list);
        return fd < 0 ? err_os(e, CLOCHE_E_NOT_FOUND, -fd, "connect to the daemon at %.200s", url)
                      : daemon_adopt(fd, ret, e);
}
