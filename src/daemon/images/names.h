/* Requests that name an image, as NAME[:TAG]: they wait until the store has said which tree that
 * is. */
#ifndef CLOCHE_DAEMON_IMAGES_NAMES_H
#define CLOCHE_DAEMON_IMAGES_NAMES_H

#include "daemon/core/client.h"

struct image_name;

/* params: now with the digest of the tree, borrowed; NULL after an error. Both NULL: the client
 * is closed. */
typedef void (*image_named)(void *data, json_t *params, const struct cloche_err *e);

/* True if the request has to wait: it has an image that is no digest. */
int image_name_is_given(const struct client_request *request, const json_t *params);
/* Find its tree, and call named later, exactly once. params are changed by then. */
CLOCHE_MUST_CHECK int image_name_find(const struct client_request *request, json_t *params, image_named named,
                                      void *data, struct cloche_err *e);

/* Put the image of an answer in the place of its name: its tree, and its settings unless the
 * caller has stated some. is_shown: keep the name beside them. */
CLOCHE_MUST_CHECK int image_name_put(json_t *params, const json_t *image, int is_shown);

#endif
