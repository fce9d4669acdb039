/* The container HTTP API (docs/container-api.md): requests of clients of @cloudflare/sandbox to the
 * server in their container, translated to the operations of spec/sandbox.def. One base URL is one
 * sandbox. Requests are authenticated before they come here: nothing here checks a token. */
#ifndef CLOCHE_DAEMON_CONTAINER_CONTAINER_H
#define CLOCHE_DAEMON_CONTAINER_CONTAINER_H

#include "daemon/core/daemon.h"

struct http_request;

/* Call it before the first request. */
int container_start(struct daemon *d, struct cloche_err *e);
/* Call it after the last request has ended and before the sandboxes are freed. Accepts an API that
 * was not started. */
void container_stop(struct daemon *d);

/* True if container_request takes the request as soon as its head is read: the body of a request to
 * a port may have any size. It takes the others when they are complete. */
int container_takes_head(const struct http_request *request, const char *path);
/* Handle a request with any verb; Host, Origin and token are checked. It is answered now or later,
 * or becomes a WebSocket. path: after the base, from its slash on, as sent, without the query. */
void container_request(struct daemon *d, struct http_request *request, int64_t principal, const char *sandbox,
                       const char *path);

/* Answer a request that was refused before it came here, with an error of this API. */
void container_refuse_request(struct http_request *request, unsigned status, const struct cloche_err *e);

#endif
