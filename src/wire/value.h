/* Values on the wire (spec/values.md): checking the tagged forms, and moving bytes between base64 text and
 * attachments. Every refusal names the path of the offending value. Each call takes one whole value: references name
 * containers of it, and pass unchanged. Pure. */
#ifndef CLOCHE_WIRE_VALUE_H
#define CLOCHE_WIRE_VALUE_H

#include "base/buf.h"

#include <cloche/cloche.h>
#include <jansson.h>

#define VALUE_ATTACHMENTS_MAX 65536
#define VALUE_DEPTH_MAX 200 /* containers in containers; a tagged form counts as the one container it stands for */

/* A value of a frame with that many bytes of attachments. -CLOCHE_E_PROTOCOL. */
int value_check(const json_t *value, size_t attachments_size, struct cloche_err *e);

/* Text form (bytes as "b64") to frame form: the bytes are appended to attachments. *ret is a new tree, owned by the
 * caller. -CLOCHE_E_INVALID_JSON, -CLOCHE_E_TOO_LARGE. */
int value_from_text(json_t *value, struct buf *attachments, json_t **ret, struct cloche_err *e);

/* Frame form to text form; checks as value_check does. *ret is a new tree, owned by the caller. */
int value_to_text(const json_t *value, const void *attachments, size_t attachments_size, json_t **ret,
                  struct cloche_err *e);

#endif
