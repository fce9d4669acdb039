/* Frames as messages of a WebSocket. */
#ifndef CLOCHE_DAEMON_WEB_SOCKET_H
#define CLOCHE_DAEMON_WEB_SOCKET_H

#include "daemon/core/daemon.h"

struct http_request;

/* Disconnect clients that do not send hello, or do not read; now and then. */
void web_sockets_sweep(struct daemon *d, uint64_t now_ns);
int web_socket_open(struct daemon *d, struct http_request *request, int64_t principal, int peer_fd, int needs_token,
                    struct cloche_err *e);

#endif
