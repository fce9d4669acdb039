/* An import whose archive arrives in pieces. It becomes an image only after image_upload_end():
 * a client that leaves before leaves nothing. */
#ifndef CLOCHE_DAEMON_IMAGES_UPLOAD_H
#define CLOCHE_DAEMON_IMAGES_UPLOAD_H

#include "daemon/core/daemon.h"

#include <jansson.h>

struct image_upload;

struct image_upload_face {
        void (*on_room)(void *data); /* image_upload_is_full() is false again */
        /* The image is there, or the import has failed; one of both is NULL. Close the upload. */
        void (*on_end)(void *data, const json_t *result, const struct cloche_err *e);
};

/* params: image, and perhaps tag. Fails if this caller may not import. */
CLOCHE_MUST_CHECK int image_upload_begin(struct daemon *d, int64_t principal, const json_t *params,
                                         const struct image_upload_face *face, void *data, struct image_upload **ret,
                                         struct cloche_err *e);
/* The bytes are copied. -CLOCHE_E_TOO_LARGE. */
CLOCHE_MUST_CHECK int image_upload_write(struct image_upload *u, const void *bytes, size_t size, struct cloche_err *e);
/* True if the sender should wait. */
int image_upload_is_full(const struct image_upload *u);
uint64_t image_upload_bytes(const struct image_upload *u);
/* The archive is whole. */
void image_upload_end(struct image_upload *u);
/* Free it. An unfinished import is undone. Accepts NULL. */
void image_upload_close(struct image_upload *u);
/* Fail uploads that have not got a byte for a while. */
void image_uploads_sweep(struct daemon *d, uint64_t now_ns);

#endif
