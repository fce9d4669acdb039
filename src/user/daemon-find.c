/* Find the user's daemon, or start it.
 * Runs in: the CLI and cloched, as the user who started them. */
#include "daemon-find.h"
#include "discovery.h"
#include "runtime-dir.h"

#include "base/err.h"
#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define TIMEOUT_S                                                                                           \
        90 /* systemd may start the daemon for the first connection, and restarts a hung one after a minute \
            */
#define OK 200
#define FORBIDDEN 403

int daemon_check_path(const char *path, struct cloche_err *e)
{
        char size[24];

        if (!*path)
                return discovery_fault(e, DISCOVERY_EMPTY, NULL, NULL);
        if (strlen(path) < DAEMON_SOCKET_BYTES)
                return 0;
        snprintf(size, sizeof(size), "%zu", strlen(path));
        return discovery_fault(e, DISCOVERY_LONG, size, NULL);
}

int daemon_connect(const char *path, struct cloche_err *e)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_fd_ int fd = -EBADF;

        int r = daemon_check_path(path, e);

        if (r < 0)
                return r;
        strcpy(address.sun_path, path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a socket");
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return discovery_fault(e, errno == EACCES || errno == EPERM ? DISCOVERY_CLOSED : DISCOVERY_NONE, path,
                                       strerror(errno));
        return TAKE_FD(fd);
}

/* -- the system's --------------------------------------------------------------------------------------------- */

/* Return the status of an HTTP answer; -1 with errno; errno 0: the connection ended. */
static int request_health(int fd)
{
        static const char question[] = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        const struct timeval timeout = {.tv_sec = TIMEOUT_S};
        char answer[13] = ""; /* "HTTP/1.1 200" */
        size_t size = 0;

        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
        /* A daemon that refuses us may have closed already; its answer can still be read. */
        (void)send(fd, question, sizeof(question) - 1, MSG_NOSIGNAL);
        while (size < sizeof(answer) - 1) {
                ssize_t n = recv(fd, answer + size, sizeof(answer) - 1 - size, 0);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        errno = n < 0 ? errno : 0;
                        return -1;
                }
                size += (size_t)n;
        }
        return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

/* 1: this user may use it. 0: it is missing or not permitted. */
static int try_system(struct cloche_err *e)
{
        _cleanup_fd_ int fd = daemon_connect(DAEMON_SYSTEM_SOCKET, e);
        int status;

        if (fd < 0)
                return fd == -CLOCHE_E_NOT_FOUND || fd == -CLOCHE_E_FORBIDDEN ? 0 : fd;
        status = request_health(fd);
        if (status == OK || status == FORBIDDEN)
                return status == OK;
        if (status > 0)
                return err_set(e, CLOCHE_E_STATE,
                               "the daemon at " DAEMON_SYSTEM_SOCKET " accepts no work now (HTTP status %d)", status);
        if (status < 0 && errno == EAGAIN)
                return err_set(e, CLOCHE_E_STATE, "the daemon at " DAEMON_SYSTEM_SOCKET " does not answer within %d s",
                               TIMEOUT_S);
        return err_set(e, CLOCHE_E_STATE, "the daemon at " DAEMON_SYSTEM_SOCKET " does not answer%s%s",
                       status < 0 && errno ? ": " : "", status < 0 && errno ? strerror(errno) : "");
}

/* -- the user's ----------------------------------------------------------------------------------------------- */

/* The listener must run as this user; directory permissions alone are not trusted. */
static int check_peer(int fd, const char *path, struct cloche_err *e)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return err_os(e, CLOCHE_E_FORBIDDEN, errno, "get the peer of %s", path);
        return peer.uid == geteuid() ? 0
                                     : err_set(e, CLOCHE_E_FORBIDDEN,
                                               "%s is served by user %u, not by this user: name another socket by "
                                               "--socket or CLOCHE_SOCKET",
                                               path, (unsigned)peer.uid);
}

/* 1: it answers. 0: none. A directory that is not private holds no daemon of this user. Another
 * user may have made it, which must not keep us from the next candidate. */
static int try_private(const char *directory, char ret[DAEMON_SOCKET_BYTES], int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int directory_fd = runtime_dir_open(directory, 0, e), fd = -EBADF;
        int r;

        if (directory_fd < 0)
                return directory_fd == -CLOCHE_E_NOT_FOUND || directory_fd == -CLOCHE_E_FORBIDDEN ? 0 : directory_fd;
        snprintf(ret, DAEMON_SOCKET_BYTES, "%s/socket", directory);
        fd = daemon_connect(ret, e);
        if (fd < 0)
                return fd == -CLOCHE_E_NOT_FOUND ? 0 : fd;
        r = check_peer(fd, ret, e);
        if (r < 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        return 1;
}

int daemon_find_own(char ret[DAEMON_SOCKET_BYTES], int *ret_fd, struct cloche_err *e)
{
        char directory[RUNTIME_DIR_BYTES];
        int usable, r = 0;

        for (unsigned n = 0; r == 0 && (usable = runtime_dir_place(n, directory)) >= 0; n++)
                if (usable)
                        r = try_private(directory, ret, ret_fd, e);
        return r;
}

int daemon_find(char ret[DAEMON_SOCKET_BYTES], struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        int r = try_system(e);

        if (r == 0)
                return daemon_find_own(ret, &fd, e);
        if (r == 1)
                strcpy(ret, DAEMON_SYSTEM_SOCKET);
        return r;
}
