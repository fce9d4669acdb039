/* Runs in: cloched, on its loop. Requests come from anyone who can connect. */
#include "intake.h"

#include "base/peer.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define GROW_BY 256
#define DRAIN_MAX                                                                                           \
        (1u << 20) /* bytes read after a fault: a reset would discard the answer before the client reads it \
                    */

/* Indexed by descriptor, since both functions receive one. Single-threaded. */
static struct http_connection **connections;
static size_t connection_room;
static int has_progress, has_waited;

int intake_add(struct http_connection *connection)
{
        size_t fd = (size_t)connection->fd, room = fd + GROW_BY;
        struct http_connection **more;

        if (fd >= connection_room) {
                more = reallocarray(connections, room, sizeof(struct http_connection *));
                if (!more)
                        return -ENOMEM;
                memset(more + connection_room, 0, (room - connection_room) * sizeof(struct http_connection *));
                connections = more;
                connection_room = room;
        }
        framing_init(&connection->framing, FRAMING_REQUESTS);
        connections[fd] = connection;
        return 0;
}

void intake_remove(const struct http_connection *connection)
{
        /* libmicrohttpd may have closed it, and the number may belong to another connection. */
        if (connections[connection->fd] == connection)
                connections[connection->fd] = NULL;
}

static struct http_connection *find(int fd)
{
        return fd >= 0 && (size_t)fd < connection_room ? connections[fd] : NULL;
}

/* -- reading -------------------------------------------------------------------------------------------------- */

/* A way to read from the socket, with the interface of recv. */
struct source {
        ssize_t (*read)(void *handle, void *bytes, size_t size, int flags);
        void *handle;
        int flags;
};

static ssize_t drain(const struct source *source)
{
        char bytes[16 << 10];
        size_t drained = 0;
        ssize_t n;

        do {
                n = source->read(source->handle, bytes, sizeof(bytes), source->flags);
                drained += n > 0 ? (size_t)n : 0;
        } while (n > 0 && drained < DRAIN_MAX);
        return n > 0 ? 0 : n;
}

/* A held CR is output with its LF: two bytes, even if there is room for one. */
static size_t take_held(struct framing *f, char *to, size_t room, ssize_t n, char *bytes)
{
        size_t size = framing_filter(f, bytes, 1, (size_t)n, FRAMING_REST_MAX), now = size < room ? size : room;

        memcpy(to, bytes, now);
        framing_keep(f, bytes + now, size - now);
        return now;
}

/* libmicrohttpd polls again (epoll, edge-triggered) after a short read, so read until the socket
 * is empty. */
static ssize_t take(struct framing *f, char *bytes, size_t room, const struct source *source)
{
        size_t out = framing_rest(f, bytes, room), asked;
        char held[FRAMING_REST_MAX];
        ssize_t n = 0;

        while (out < room && !f->fault) {
                int holds = framing_holds(f);

                asked = holds ? 1 : room - out;
                n = source->read(source->handle, holds ? held + 1 : bytes + out, asked, source->flags);
                if (n <= 0)
                        break;
                out += holds ? take_held(f, bytes + out, room - out, n, held)
                             : framing_filter(f, bytes + out, 0, (size_t)n, room - out);
                if ((size_t)n < asked && out > 0)
                        break;
        }
        if (out > 0)
                return (ssize_t)out;
        return f->fault ? drain(source) : n;
}

void intake_progress(void)
{
        has_progress = 1;
}

int intake_only_waited(void)
{
        int only = has_waited && !has_progress;

        has_waited = has_progress = 0;
        return only;
}

/* -- functions that libmicrohttpd calls ------------------------------------------------------------------------ */

static ssize_t read_plain(void *handle, void *bytes, size_t size, int flags)
{
        ssize_t n = recvfrom(*(int *)handle, bytes, size, flags, NULL, NULL);

        has_progress |= n >= 0;
        return n;
}

static ssize_t read_local(void *handle, void *bytes, size_t size, int flags)
{
        ssize_t n = peer_receive(*(int *)handle, bytes, size);

        (void)flags;
        has_progress |= n >= 0;
        return n;
}

static ssize_t read_ciphertext(struct http_connection *connection, int fd, void *bytes, size_t size, int flags)
{
        ssize_t n = read_plain(&fd, bytes, size, flags);

        has_waited |= n < 0 && !connection->is_secured;
        return n;
}

/* gnutls reads its ciphertext here; its plain text passes through gnutls_record_recv. */
__attribute__((visibility("default"))) ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
        struct http_connection *connection = find(fd);
        struct source source = {connection && connection->is_local ? read_local : read_plain, &fd, flags};

        if (connection && connection->is_tls)
                return read_ciphertext(connection, fd, bytes, size, flags);
        if (!connection || size == 0 || (flags & MSG_PEEK))
                return read_plain(&fd, bytes, size, flags);
        return take(&connection->framing, bytes, size, &source);
}

static ssize_t read_tls(void *handle, void *bytes, size_t size, int flags)
{
        static ssize_t (*next)(gnutls_session_t session, void *bytes, size_t size);

        (void)flags;
        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "gnutls_record_recv");
        return next ? next(handle, bytes, size) : GNUTLS_E_INTERNAL_ERROR;
}

__attribute__((visibility("default"))) ssize_t gnutls_record_recv(gnutls_session_t session, void *bytes, size_t size)
{
        struct http_connection *connection = find(gnutls_transport_get_int(session));
        struct source source = {read_tls, session, 0};

        if (!connection || !connection->is_tls || size == 0)
                return read_tls(session, bytes, size, 0);
        connection->is_secured = 1; /* the handshake is over */
        return take(&connection->framing, bytes, size, &source);
}
