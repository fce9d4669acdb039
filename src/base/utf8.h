/* UTF-8 (RFC 3629): no surrogates, no longer forms than needed. Pure. */
#ifndef CLOCHE_BASE_UTF8_H
#define CLOCHE_BASE_UTF8_H

#include "buf.h"

#include <stdint.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The size of the character that bytes begin with; 0: it is not whole, or none. *ret_good, unless NULL: how many bytes are good
 * as the beginning of a character; 0: none begins so. */
size_t utf8_character(const void *bytes, size_t size, size_t *ret_good);
/* The same, with the code point. */
size_t utf8_decode(const void *bytes, size_t size, uint32_t *ret);

/* How many bytes come before the first that is of no whole character. */
size_t utf8_valid_size(const void *bytes, size_t size);
int utf8_is_valid(const void *bytes, size_t size);

/* Text that is valid: each byte that continues no character counts as one. */
size_t utf8_count(const char *text, size_t size);
/* Where that many characters end, or the text. */
size_t utf8_offset(const char *text, size_t size, size_t characters);
/* The greatest size, at most `most`, that ends between two characters. */
size_t utf8_cut(const char *text, size_t size, size_t most);

/* Append bytes, U+FFFD for each longest beginning of a character that is not whole (The Unicode Standard, 3.9). As buf_append. */
int utf8_append_valid(struct buf *out, const void *bytes, size_t size);

#endif
