/* The operations image.*: those that read the store, for every caller, and those that change it,
 * for callers whom the operator permits it. */
#ifndef CLOCHE_DAEMON_IMAGES_OPERATIONS_H
#define CLOCHE_DAEMON_IMAGES_OPERATIONS_H

#include "daemon/core/client.h"

/* image.list, get, verify, delete and prune. */
int image_operate(const struct client_request *request, json_t **ret, struct cloche_err *e);

/* image.warm. */
int image_warm(const struct client_request *request, json_t **ret, struct cloche_err *e);

/* image.upload and image.import. */
int image_import(const struct client_request *request, json_t **ret, struct cloche_err *e);
/* Undo the client's unfinished imports. */
void images_on_client_closed(struct client *client);

/* True for root and the user who started the daemon. */
int images_is_owner(const struct daemon *d, int64_t principal);
/* Fails unless the operator permits this caller to change images; adds: only new ones. */
CLOCHE_MUST_CHECK int images_check_change(const struct daemon *d, int64_t principal, int adds, struct cloche_err *e);
/* Fails with the sandboxes, prefixes and interpreters of this daemon that use the tree. */
CLOCHE_MUST_CHECK int images_check_unused(const struct daemon *d, const char *name, const char *tree,
                                          struct cloche_err *e);

/* An object with the names of all trees that this daemon uses, or needs when a sandbox starts
 * again. */
json_t *images_in_use(const struct daemon *d);

#endif
