/* Ports of sandboxes over HTTP: previews, each under a host name of its own, and what the container API passes on. */
#ifndef CLOCHE_DAEMON_PREVIEW_H
#define CLOCHE_DAEMON_PREVIEW_H

#include "daemon.h"

struct http_request;

/* Whether a Host is below the preview host, whatever stands before it. */
int preview_is_host(const struct daemon_options *o, const char *host);
/* From the request's head on; it is answered, whatever it is. */
void preview_begin(struct daemon *d, struct http_request *request, const char *host);

/* Ports that do not answer; now and then. */
void proxies_sweep(struct daemon *d, uint64_t now_ns);

struct proxy_target {
        int64_t principal;
        const char *sandbox;
        unsigned port;
        const char *target; /* path and query as they are sent; copied */
        void (*failed)(struct http_request *request, const struct cloche_err *e); /* answer it; NULL: our own error */
};

/* From the request's head on: its body is passed on as it comes. On failure it is still to be answered. */
int proxy_begin(struct daemon *d, struct http_request *request, const struct proxy_target *target, struct cloche_err *e);

#endif
