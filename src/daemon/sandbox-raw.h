/* Files of any size and whole trees of a sandbox as bodies of HTTP: GET and PUT of raw and tree, made of the core's operations piece by piece. */
#ifndef CLOCHE_DAEMON_SANDBOX_RAW_H
#define CLOCHE_DAEMON_SANDBOX_RAW_H

#include "daemon.h"
#include "http/operation.h"

struct http_request;

/* From the request's head on. params: of the table, checked; borrowed. On failure it is still to be answered. */
int sandbox_raw_begin(struct daemon *d, struct http_request *request, int64_t principal, const struct operation *operation, const json_t *params,
                      struct cloche_err *e);

#endif
