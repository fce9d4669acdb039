/* The container HTTP API (docs/container-api.md): what clients of @cloudflare/sandbox ask the server in their container, translated to the
 * operations of spec/sandbox.def. One base URL is one sandbox. Requests are somebody's who may ask already; nothing here asks for a token. */
#ifndef CLOCHE_DAEMON_CONTAINER_H
#define CLOCHE_DAEMON_CONTAINER_H

#include "daemon.h"

struct http_request;

/* Before the first request. */
int container_start(struct daemon *d, struct cloche_err *e);
/* When the last request is over; before the sandboxes go. Accepts one that was not started. */
void container_stop(struct daemon *d);

/* Whether a request goes to container_request with its head: what is passed on to a port has a body of any size. Others do when they are whole. */
int container_takes_head(const struct http_request *request, const char *path);
/* A request of any verb; Host, Origin and token are good. It is answered now or later, or becomes a WebSocket. path: behind the base, from its slash on, as
 * it was sent, without the query. */
void container_request(struct daemon *d, struct http_request *request, int64_t principal, const char *sandbox, const char *path);

/* One that was refused before it came here: an error in this API's words. */
void container_refuse_request(struct http_request *request, unsigned status, const struct cloche_err *e);

#endif
