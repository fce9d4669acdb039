/* Prefixes that callers hold. A prefix with a name, or made over HTTP, belongs to the user; others
 * belong to a connection. */
#ifndef CLOCHE_DAEMON_RUN_PREFIX_H
#define CLOCHE_DAEMON_RUN_PREFIX_H

#include "daemon/core/client.h"

struct kept_prefix {
        struct client_pending pending; /* the request to make it, until it is ready */
        TAILQ_ENTRY(kept_prefix) link;
        struct client *client; /* its owner; NULL: it belongs to the user */
        int64_t principal;
        char id[24], *name, *title, *language; /* title: NULL unless the caller gave one */
        cloche_prefix *starting, *prefix;      /* prefix: NULL until it is ready */
        uint64_t runs, used_ns, idle_ms;
};

int prefix_create(const struct client_request *request, json_t **ret, struct cloche_err *e);
int prefix_list(const struct client_request *request, json_t **ret, struct cloche_err *e);
int prefix_dispose(const struct client_request *request, json_t **ret, struct cloche_err *e);

/* Find a visible prefix by id or name. Fails with -CLOCHE_E_NOT_FOUND. */
int prefix_find(const struct client *client, const char *id, struct kept_prefix **ret, struct cloche_err *e);

/* Report set-ups that have ended. Called after each turn of the engine. */
void prefix_reap(struct daemon *d);
/* Free the user's prefixes that were idle for too long. */
void prefix_tidy(struct daemon *d, uint64_t now_ns);
void prefix_on_client_closed(struct client *client);
void prefix_drop_all(struct daemon *d);
unsigned prefixes_count(const struct daemon *d);

#endif
