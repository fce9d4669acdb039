/* Base64 with padding, strict (RFC 4648 section 4). Pure. */
#ifndef CLOCHE_WIRE_BASE64_H
#define CLOCHE_WIRE_BASE64_H

#include "base/buf.h"

/* Append the base64 text of data; errors as buf_append. */
int base64_encode(struct buf *out, const void *data, size_t size);
/* Append the bytes of text; -EINVAL for anything but canonical base64, other errors as
 * buf_append. */
int base64_decode(struct buf *out, const char *text, size_t size);

#endif
