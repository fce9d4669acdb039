/* The gateway for front ends of Jupyter (docs/jupyter.md): kernels over HTTP and WebSockets below
 * /jupyter. Each is a context of the caller's sandbox "jupyter". */
#ifndef CLOCHE_DAEMON_JUPYTER_GATEWAY_H
#define CLOCHE_DAEMON_JUPYTER_GATEWAY_H

#include "daemon/core/daemon.h"

struct http_request;

/* Call it before the first request. */
int gateway_start(struct daemon *d, struct cloche_err *e);
/* Call it after the last request has ended and before the sandboxes are freed. Accepts a gateway
 * that was not started. */
void gateway_stop(struct daemon *d);
/* End kernels that nobody uses; now and then. */
void gateway_sweep(struct daemon *d, uint64_t now_ns);

/* True if the path is that of the gateway, and the daemon serves it. */
int gateway_is_path(const struct daemon *d, const char *path);
/* True if the request has the daemon's token, as these clients send it. */
int gateway_has_token(const struct daemon *d, const struct http_request *request);
/* Answer a request that was refused before it came here. */
void gateway_refuse_request(struct http_request *request, unsigned status, const struct cloche_err *e);
/* Handle a complete request, whose sender was admitted. */
void gateway_handle(struct daemon *d, struct http_request *request, int64_t principal);

#endif
