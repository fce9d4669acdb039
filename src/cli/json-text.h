/* JSON as Python writes it with indent=1 and ensure_ascii=False, which is how notebooks are written: a file that was written so comes back byte
 * for byte. (jansson writes 0.1 with 17 digits and control characters in capitals.) */
#ifndef CLOCHE_CLI_JSON_TEXT_H
#define CLOCHE_CLI_JSON_TEXT_H

#include "base/buf.h"

#include <jansson.h>

/* 0, or the negative errno of buf_append. */
int json_text(struct buf *out, const json_t *value);
/* Its parts: a value that is no container, and a string of any bytes that are UTF-8. */
int json_text_scalar(struct buf *out, const json_t *value);
int json_text_string(struct buf *out, const char *text, size_t size);

#endif
