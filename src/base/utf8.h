/* UTF-8 (RFC 3629): no surrogates, no overlong forms. Pure. */
#ifndef CLOCHE_BASE_UTF8_H
#define CLOCHE_BASE_UTF8_H

#include "buf.h"

#include <stdint.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Return the size of the first character; 0: it is incomplete or invalid. *ret_good, unless NULL:
 * the number of bytes that can begin a character. */
size_t utf8_character(const void *bytes, size_t size, size_t *ret_good);
/* The same, with the code point. */
size_t utf8_decode(const void *bytes, size_t size, uint32_t *ret);

/* Return the number of bytes before the first invalid or incomplete character. */
size_t utf8_valid_size(const void *bytes, size_t size);
int utf8_is_valid(const void *bytes, size_t size);

/* Count the characters of valid text: each byte that continues no character counts as one. */
size_t utf8_count(const char *text, size_t size);
/* Return the offset at which that many characters end, or the size of the text. */
size_t utf8_offset(const char *text, size_t size, size_t characters);
/* Return the greatest size, at most `most`, that ends between two characters. */
size_t utf8_cut(const char *text, size_t size, size_t most);

/* Append bytes, with U+FFFD for each maximal incomplete part of a character (The Unicode Standard,
 * 3.9). Errors as buf_append. */
int utf8_append_valid(struct buf *out, const void *bytes, size_t size);

#endif
