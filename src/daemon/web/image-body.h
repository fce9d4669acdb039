/* Archives of images as HTTP bodies: PUT /v1/images/{image}. */
#ifndef CLOCHE_DAEMON_WEB_IMAGE_BODY_H
#define CLOCHE_DAEMON_WEB_IMAGE_BODY_H

#include "daemon/core/daemon.h"

#include <jansson.h>

struct http_request;

/* From on_head. params: image, tag. */
CLOCHE_MUST_CHECK int image_body_begin(struct daemon *d, struct http_request *request, int64_t principal,
                                       const json_t *params, struct cloche_err *e);

#endif
