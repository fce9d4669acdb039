/* HTTP and WebSocket: operations with JSON. */
#ifndef CLOCHE_DAEMON_WEB_WEB_H
#define CLOCHE_DAEMON_WEB_WEB_H

#include "daemon/core/connection.h"

int web_start(struct daemon *d, struct cloche_err *e);
/* Serve HTTP on a connection, over TLS if is_tls. Takes its socket;
 * connection_on_closed comes later. */
void web_take(struct connection *c, int fd, int is_tls);
void web_stop(struct daemon *d);

#endif
