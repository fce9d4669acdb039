/* Access checks over HTTP: hosts, origins, the token, and content types that a form cannot send. */
#ifndef CLOCHE_DAEMON_WEB_ACCESS_H
#define CLOCHE_DAEMON_WEB_ACCESS_H

#include "daemon/core/connection.h"
#include "daemon/http/server.h"

int web_check_host(const struct daemon_options *o, const char *host, struct cloche_err *e);
/* Adds the headers that permit the origin. */
int web_check_origin(const struct daemon_options *o, struct http_request *request, struct cloche_err *e);
/* Check the token in Authorization; for a WebSocket also in its protocols, the only header that
 * pages can set there. */
int web_has_token(const struct daemon_options *o, const struct http_request *request);
int web_check_token(const struct connection *c, const struct http_request *request, const struct operation *operation,
                    struct cloche_err *e);
int web_check_type(const struct http_request *request, const struct operation *operation, struct cloche_err *e);
/* If a page offered protocols, the answer must have one of them. Call it before the upgrade. */
void web_choose_protocol(struct http_request *request);

#endif
