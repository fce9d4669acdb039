/* Files of any size and whole trees of a sandbox as HTTP bodies: GET and PUT of raw and tree. They
 * are transferred piece by piece with operations of the core. */
#ifndef CLOCHE_DAEMON_WEB_SANDBOX_RAW_H
#define CLOCHE_DAEMON_WEB_SANDBOX_RAW_H

#include "daemon/core/daemon.h"
#include "daemon/http/operation.h"

struct http_request;

/* Begin as soon as the request's head is read. params: from the table, checked; borrowed. On
 * failure the caller answers the request. */
int sandbox_raw_begin(struct daemon *d, struct http_request *request, int64_t principal,
                      const struct operation *operation, const json_t *params, struct cloche_err *e);

#endif
