/* Ports of sandboxes over HTTP: previews, each under its own host name, and requests that the
 * container API forwards. */
#ifndef CLOCHE_DAEMON_PREVIEW_PREVIEW_H
#define CLOCHE_DAEMON_PREVIEW_PREVIEW_H

#include "daemon/core/daemon.h"

struct http_request;

/* True if a Host is below the preview host, whatever its first part is. */
int preview_is_host(const struct daemon_options *o, const char *host);
/* Handle a request as soon as its head is read. It is always answered. */
void preview_begin(struct daemon *d, struct http_request *request, const char *host);

/* End requests to ports that do not answer; now and then. */
void proxies_sweep(struct daemon *d, uint64_t now_ns);

struct proxy_target {
        int64_t principal;
        const char *sandbox;
        unsigned port;
        const char *host;   /* that the program sees; NULL: that of the request; copied */
        const char *target; /* path and query in the form they are sent; copied */
        void (*failed)(struct http_request *request,
                       const struct cloche_err *e); /* answers the request; NULL: our own error */
};

/* Forward a request as soon as its head is read; its body is forwarded as it comes. On failure the
 * caller answers it. */
int proxy_begin(struct daemon *d, struct http_request *request, const struct proxy_target *target,
                struct cloche_err *e);

#endif
