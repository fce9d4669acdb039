/* JSON as Python writes it with indent=1 and ensure_ascii=False, the format of notebooks: such a
 * file is reproduced byte for byte. (jansson writes 0.1 with 17 digits and control characters in
 * capitals.) */
#ifndef CLOCHE_CLI_OUTPUT_JSON_TEXT_H
#define CLOCHE_CLI_OUTPUT_JSON_TEXT_H

#include "base/buf.h"

#include <jansson.h>

/* 0, or the negative errno of buf_append. */
int json_text(struct buf *out, const json_t *value);
/* Parts of it: a value that is no container, and a string of UTF-8 bytes. */
int json_text_scalar(struct buf *out, const json_t *value);
int json_text_string(struct buf *out, const char *text, size_t size);

#endif
