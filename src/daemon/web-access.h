/* Who may ask over HTTP: hosts, origins, the token, and what no form of a page can send. */
#ifndef CLOCHE_DAEMON_WEB_ACCESS_H
#define CLOCHE_DAEMON_WEB_ACCESS_H

#include "connection.h"
#include "http/server.h"

int web_check_host(const struct daemon_options *o, const char *host, struct cloche_err *e);
/* Headers that permit it are added. */
int web_check_origin(const struct daemon_options *o, struct http_request *request, struct cloche_err *e);
/* In Authorization, or of a WebSocket among its protocols, for pages cannot set the former. */
int web_has_token(const struct daemon_options *o, const struct http_request *request);
int web_check_token(const struct connection *c, const struct http_request *request, const struct operation *operation, struct cloche_err *e);
int web_check_type(const struct http_request *request, const struct operation *operation, struct cloche_err *e);
/* A page that offered protocols must be answered with one of them. Before the upgrade. */
void web_choose_protocol(struct http_request *request);

#endif
