/* HTTP and WebSocket: operations asked with JSON. */
#ifndef CLOCHE_DAEMON_WEB_H
#define CLOCHE_DAEMON_WEB_H

#include "connection.h"

int web_start(struct daemon *d, struct cloche_err *e);
/* A connection on which HTTP, or with is_tls TLS, is spoken; its socket is taken over, and connection_over follows some day. */
void web_take(struct connection *c, int fd, int is_tls);
void web_stop(struct daemon *d);

#endif
