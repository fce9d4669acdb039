/* A WebSocket to a terminal of a sandbox (spec/sandbox.md). */
#ifndef CLOCHE_DAEMON_WEB_TERMINAL_H
#define CLOCHE_DAEMON_WEB_TERMINAL_H

#include "daemon/core/daemon.h"

#include <jansson.h>

struct http_request;

struct terminal_options {
        const char *session, *shell; /* NULL: default, bash */
        unsigned cols, rows;         /* 0: 80, 24 */
};

/* All arguments are copied. On failure the caller answers the request. */
int terminal_open(struct daemon *d, struct http_request *request, int64_t principal, const char *sandbox,
                  const struct terminal_options *opt, struct cloche_err *e);
/* The same with parameters of the table. */
int terminal_open_asked(struct daemon *d, struct http_request *request, int64_t principal, const json_t *params,
                        struct cloche_err *e);

#endif
