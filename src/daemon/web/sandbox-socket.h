/* WebSockets of sandboxes: their common part, and the socket for a single request, which receives
 * the parameters as text, and sends events and the answer. */
#ifndef CLOCHE_DAEMON_WEB_SANDBOX_SOCKET_H
#define CLOCHE_DAEMON_WEB_SANDBOX_SOCKET_H

#include "daemon/core/daemon.h"
#include "daemon/http/operation.h"
#include "daemon/http/server.h"

#define SOCKET_HIGH_BYTES (256u << 10) /* unsent bytes: over this the output is held, */
#define SOCKET_LOW_BYTES (64u << 10)   /* until it is below this */

struct sandbox_socket {
        TAILQ_ENTRY(sandbox_socket) link;
        struct daemon *daemon;
        struct websocket *socket; /* NULL before it is open */
        int is_ending;
};

void sandbox_socket_init(struct sandbox_socket *s, struct daemon *d);
void sandbox_socket_done(struct sandbox_socket *s);
/* Send an object as a text message; stolen. */
void sandbox_socket_say(struct sandbox_socket *s, json_t *object);
/* Close it when everything is sent. */
void sandbox_socket_finish(struct sandbox_socket *s);
/* Call it from on_sent. */
void sandbox_socket_sent(struct sandbox_socket *s);
/* Disconnect clients that do not read; now and then. */
void sandbox_sockets_sweep(struct daemon *d, uint64_t now_ns);

/* On failure the caller answers the request. */
int sandbox_socket_open(struct daemon *d, struct http_request *request, int64_t principal, const char *sandbox,
                        const struct operation *operation, struct cloche_err *e);

#endif
