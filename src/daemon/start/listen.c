/* Listening sockets. Runs in: the supervisor, or a daemon without one, which open sockets with the
 * rights of their starter; connections are accepted in cloched-engine, on its loop. */
#include "listen.h"
#include "daemon/core/auth.h"
#include "daemon/core/connection.h"
#include "daemon/core/log.h"
#include "proto/supervisor.h"
#include "socket-access.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#define BACKLOG 1024
#define ORPHAN_TRIES 300 /* every 10 ms */

/* Takes fd, also on failure. */
static int add(struct daemon *d, int fd, int is_tcp, struct entrance entrance, struct cloche_err *e)
{
        struct listener *l = calloc(1, sizeof(*l));

        if (!l) {
                close(fd);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "listen");
        }
        *l = (struct listener){.daemon = d, .fd = fd, .is_tcp = is_tcp, .own_uid = geteuid(), .entrance = entrance};
        TAILQ_INSERT_TAIL(&d->listeners, l, link);
        return 0;
}

/* -- unix ----------------------------------------------------------------------------------------------------- */

/* True if the process that called listen(2) on it has ended, as a killed supervisor. */
static int is_orphaned(int fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0 && kill(peer.pid, 0) < 0 &&
               errno == ESRCH;
}

/* 0: a process listens; or -errno. */
static int try_connect(const struct sockaddr_un *address)
{
        const struct timespec pause = {.tv_nsec = 10000000};

        for (int tries = 0;; tries++) {
                _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                int r = fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;

                if (r < 0 || tries == ORPHAN_TRIES || !is_orphaned(fd))
                        return r;
                nanosleep(&pause, NULL);
        }
}

/* Remove a socket without a listener: it is left over from a daemon that was killed. */
static int remove_stale(const struct sockaddr_un *address, struct cloche_err *e)
{
        struct stat st;
        int r;

        if (lstat(address->sun_path, &st) < 0)
                return 0;
        if (!S_ISSOCK(st.st_mode))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "%s exists and is not a socket: remove it, or name another path", address->sun_path);
        r = try_connect(address);
        if (r == 0 || r == -EAGAIN)
                return err_set(e, CLOCHE_E_STATE, "another program listens on %s already", address->sun_path);
        return r == -ECONNREFUSED && unlink(address->sun_path) < 0
                       ? err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "remove what is left at %s", address->sun_path)
                       : 0;
}

/* Without the list everybody can connect, and the daemon refuses: only a hung one makes them
 * wait. */
static void note_access(int r)
{
        if (r < 0)
                log_event(LEVEL_WARNING, "socket-access", "{s:s}", "why", strerror(-r));
}

static int open_unix(struct daemon *d, struct cloche_err *e)
{
        const struct daemon_options *o = &d->options;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        /* By default only the owner can connect; auth_peer checks each caller. */
        mode_t mode = o->uids.count || o->gids.count ? 0666 : 0600, before;
        int fd, r;

        strncpy(address.sun_path, o->socket_path, sizeof(address.sun_path) - 1);
        r = remove_stale(&address, e);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        before = umask(0777 & ~mode);
        r = fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0 ? -errno
                                                                                                            : 0;
        umask(before);
        if (r == 0 && mode == 0666)
                note_access(socket_access_set(o->socket_path, o));
        if (r < 0) {
                fd_close(&fd);
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, -r, "listen on %s", o->socket_path);
        }
        return add(d, fd, 0, (struct entrance){ENTRANCE_DAEMON, NULL}, e);
}

/* -- TCP ------------------------------------------------------------------------------------------------------ */

static void log_port(int fd, const char *event)
{
        struct sockaddr_storage address;
        socklen_t size = sizeof(address);
        char host[64], port[16];

        if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
            getnameinfo((struct sockaddr *)&address, size, host, sizeof(host), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) == 0)
                log_event(LEVEL_INFO, event, "{s:s, s:i}", "host", host, "port", atoi(port));
}

static int is_loopback(const struct addrinfo *a)
{
        if (a->ai_family == AF_INET6)
                return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a->ai_addr)->sin6_addr);
        return a->ai_family == AF_INET &&
               (ntohl(((const struct sockaddr_in *)a->ai_addr)->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

static int open_address(struct daemon *d, const struct addrinfo *a, const char *name, struct entrance entrance,
                        struct cloche_err *e)
{
        static const struct {
                const char *loopback_option; /* callers there need no token, or send it in clear text */
                const char *event;
        } kinds[ENTRANCE_COUNT] = {
                [ENTRANCE_DAEMON] = {NULL, "listening"},
                [ENTRANCE_CONTAINER] = {"--container-listen", "container-listening"},
                [ENTRANCE_E2B] = {"--e2b-listen", "e2b-listening"},
        };
        const char *option = kinds[entrance.kind].loopback_option;
        const int yes = 1;
        int fd;

        if (option && !is_loopback(a))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s %s must be an address of loopback", option, name);
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && a->ai_family == AF_INET6)
                (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
        if (fd >= 0)
                (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
                int r = err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "listen on %s", name);

                fd_close(&fd);
                return r;
        }
        log_port(fd, kinds[entrance.kind].event);
        return add(d, fd, 1, entrance, e);
}

/* name: HOST:PORT. */
static int open_tcp(struct daemon *d, const char *name, struct entrance entrance, struct cloche_err *e)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
        struct addrinfo *list;
        char host[256];
        const char *colon = strrchr(name, ':');
        int n = (int)(colon - name), is_bracketed = name[0] == '[' && colon[-1] == ']', r;

        snprintf(host, sizeof(host), "%.*s", is_bracketed ? n - 2 : n, name + is_bracketed);
        r = getaddrinfo(host, colon + 1, &hints, &list);
        if (r != 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "listen on %s: %s", name, gai_strerror(r));
        r = 0;
        for (const struct addrinfo *a = list; r == 0 && a; a = a->ai_next)
                r = open_address(d, a, name, entrance, e);
        freeaddrinfo(list);
        return r;
}

static int open_container(struct daemon *d, const struct container_listen *container, struct cloche_err *e)
{
        char name[256];

        snprintf(name, sizeof(name), "%.*s", (int)container->size, container->address);
        return open_tcp(d, name, (struct entrance){ENTRANCE_CONTAINER, container->address + container->size + 1}, e);
}

/* -- systemd, and the supervisor ------------------------------------------------------------------------------- */

/* name: from the supervisor, borrowed while the daemon lives. Names from systemd are ignored. */
static int take_fd(struct daemon *d, int fd, const char *name, struct cloche_err *e)
{
        struct entrance entrance = {ENTRANCE_DAEMON, NULL};
        int domain = 0, listens = 0;
        socklen_t size = sizeof(int);

        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "descriptor %d of LISTEN_FDS is not a listening socket",
                               fd);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        if (d->options.link_fd >= 0 && strncmp(name, HANDED_CONTAINER, strlen(HANDED_CONTAINER)) == 0)
                entrance = (struct entrance){ENTRANCE_CONTAINER, name + strlen(HANDED_CONTAINER)};
        else if (d->options.link_fd >= 0 && strcmp(name, HANDED_E2B) == 0)
                entrance.kind = ENTRANCE_E2B;
        if (d->options.link_fd < 0 && domain == AF_UNIX)
                note_access(socket_access_set_passed(fd, &d->options));
        return add(d, fd, domain != AF_UNIX, entrance, e);
}

/* 0: the descriptor is for supervised_enter. */
static int is_socket(const struct daemon *d, const char *name)
{
        return d->options.link_fd < 0 || (strcmp(name, HANDED_LINK) != 0 && strcmp(name, HANDED_LOCK) != 0);
}

static int take_activated(struct daemon *d, struct cloche_err *e)
{
        const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
        char *rest;
        int count = fds ? atoi(fds) : 0, r = 0;

        if (!pid || atol(pid) != (long)getpid())
                return 0;
        if (count < 1 || count > LISTEN_FDS_MAX + (d->options.link_fd >= 0 ? HANDED_MORE : 0))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "LISTEN_FDS must be 1 to %d, not '%.20s'", LISTEN_FDS_MAX,
                               fds ? fds : "");
        d->listen_names = strdup(names ? names : "");
        rest = d->listen_names;
        for (int i = 0; r == 0 && i < count; i++) {
                const char *name = strsep(&rest, ":");

                if (is_socket(d, name ? name : ""))
                        r = take_fd(d, LISTEN_FDS_START + i, name ? name : "", e);
        }
        unsetenv("LISTEN_PID");
        unsetenv("LISTEN_FDS");
        unsetenv("LISTEN_FDNAMES");
        return r;
}

int listen_open(struct daemon *d, struct cloche_err *e)
{
        int r = take_activated(d, e);

        if (d->options.link_fd >= 0) /* the supervisor opened the others */
                return r;
        if (r == 0 && d->options.socket_path)
                r = open_unix(d, e);
        if (r == 0 && d->options.listen)
                r = open_tcp(d, d->options.listen, (struct entrance){ENTRANCE_DAEMON, NULL}, e);
        for (unsigned i = 0; r == 0 && i < d->options.e2b_listen.count; i++)
                r = open_tcp(d, d->options.e2b_listen.names[i], (struct entrance){ENTRANCE_E2B, NULL}, e);
        for (unsigned i = 0; r == 0 && i < d->options.container_count; i++)
                r = open_container(d, &d->options.containers[i], e);
        if (r == 0 && TAILQ_EMPTY(&d->listeners) && d->options.connect_fd < 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                            "there is nothing to listen on: LISTEN_FDS was set for another process (LISTEN_PID)");
        return r;
}

int listen_needs_token(const struct daemon *d)
{
        const struct listener *l;

        TAILQ_FOREACH (l, &d->listeners, link)
                if (l->is_tcp && l->entrance.kind != ENTRANCE_CONTAINER)
                        return 1;
        return 0;
}

/* -- accepting ------------------------------------------------------------------------------------------------ */

/* Answer in HTTP to any caller: a client of frames also finds the status in the first line. */
static void refuse(int fd, const char *status, const char *why)
{
        char text[512];
        int size = snprintf(text, sizeof(text),
                            "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: "
                            "close\r\n\r\n%s\n",
                            status, strlen(why) + 1, why);

        (void)send(fd, text, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
        peer_close(&fd);
}

/* At the limit, the connection is closed at once, so the caller gets an error. Without descriptors
 * it waits in the kernel. */
static int is_full(struct daemon *d, int fd, int is_plain, enum caller_lane lane)
{
        if (!callers_are_full(&d->callers, lane))
                return 0;
        if (is_plain)
                refuse(fd, "503 Service Unavailable",
                       "the daemon has the maximum number of connections: try again later, or raise cloched "
                       "--max-connections");
        else
                close(fd); /* TCP */
        if (d->stats.connections_refused++ % 100 == 0)
                log_event(LEVEL_WARNING, "connections-full", "{s:i}", "connections", (int)d->connection_count);
        return 1;
}

static void take(struct listener *l, int fd)
{
        int64_t principal = PRINCIPAL_TOKEN;
        struct caller caller = {0};
        struct cloche_err e = {0};

        if (!l->is_tcp && auth_peer(&l->daemon->options, fd, l->own_uid, &principal, &e) < 0) {
                log_event(LEVEL_WARNING, "peer-refused", "{s:s}", "why", e.msg);
                l->daemon->stats.connections_refused++;
                refuse(fd, "403 Forbidden", e.msg);
                return;
        }
        caller_of_socket(&caller, fd, l->is_tcp, l->entrance.kind == ENTRANCE_CONTAINER, (uid_t)principal, l->own_uid);
        if (!is_full(l->daemon, fd, !l->is_tcp, caller.lane))
                connection_new(l->daemon, fd, l->is_tcp, principal, l->entrance, &caller);
}

/* Stop polling: without descriptors the caller stays queued, and the socket stays readable. */
static void rest(struct listener *l, int why)
{
        log_event(LEVEL_WARNING, "cannot-accept", "{s:s}", "why", strerror(why));
        uv_poll_stop(&l->poll);
        l->is_resting = 1;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
        struct listener *l = poll->data;

        (void)status;
        (void)events;
        for (unsigned i = 0; i < callers_accept_max(&l->daemon->callers); i++) {
                int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
                        continue;
                if (fd < 0) {
                        if (errno != EAGAIN)
                                rest(l, errno);
                        return;
                }
                peer_open(fd);
                take(l, fd);
        }
}

int listen_start(struct daemon *d, struct cloche_err *e)
{
        struct listener *l;

        TAILQ_FOREACH (l, &d->listeners, link) {
                int r = uv_poll_init(&d->loop, &l->poll, l->fd);

                if (r < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, -r, "watch a socket");
                l->poll.data = l;
                l->is_polling = 1;
                uv_poll_start(&l->poll, UV_READABLE, on_connection);
        }
        return 0;
}

void listen_sweep(struct daemon *d)
{
        struct listener *l;

        TAILQ_FOREACH (l, &d->listeners, link) {
                if (l->is_resting)
                        uv_poll_start(&l->poll, UV_READABLE, on_connection);
                l->is_resting = 0;
        }
}

static void on_closed(uv_handle_t *handle)
{
        struct listener *l = handle->data;

        fd_close(&l->fd);
        free(l);
}

void listen_stop(struct daemon *d)
{
        struct listener *l;

        while ((l = TAILQ_FIRST(&d->listeners))) {
                TAILQ_REMOVE(&d->listeners, l, link);
                if (l->is_polling) {
                        uv_close((uv_handle_t *)&l->poll, on_closed);
                } else {
                        fd_close(&l->fd);
                        free(l);
                }
        }
}
