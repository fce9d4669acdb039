/* The E2B API (docs/e2b.md): requests of the clients of E2B to their control plane, to
 * envd and to the code interpreter, translated to the operations of spec/sandbox.def.
 * One port serves all three. */
#ifndef CLOCHE_DAEMON_E2B_E2B_H
#define CLOCHE_DAEMON_E2B_E2B_H

#include "daemon/core/daemon.h"

struct http_request;

/* Call it before the first request. */
int e2b_start(struct daemon *d, struct cloche_err *e);
/* Call it after the last request has ended and before the sandboxes are freed. Accepts an
 * API that was not started. */
void e2b_stop(struct daemon *d);

/* True if the request says who sends it: an API key, or a sandbox that exists. */
int e2b_is_known(const struct daemon *d, const struct http_request *request);
/* True if e2b_handle takes the request as soon as its head is read: its body may have any size.
 * It takes the others when they are complete. */
int e2b_takes_head(const struct http_request *request);
/* Handle a request; its Host was checked. It is answered now or later. */
void e2b_handle(struct daemon *d, struct http_request *request, int64_t principal);
/* True for a header that has the key of the API, or a token of ports. */
int e2b_is_secret(const struct daemon *d, const char *name, const char *value);
/* Answer a request that was refused before it came here, with an error of this API. */
void e2b_refuse_request(struct http_request *request, unsigned status, const struct cloche_err *e);

#endif
