/* What is searched for: a text, letter for letter, or a regular expression (PCRE2). Bounded: an expression that backtracks without end is an error.
 * Lines end with LF or CRLF; ^ and $ are of lines, . does not go past them. Bytes that are no UTF-8 match nothing but a text of letters. */
#ifndef CLOCHE_FILES_PATTERN_H
#define CLOCHE_FILES_PATTERN_H

#include "request.h"

#define PATTERN_STEPS_MAX 2000000      /* of one match (pcre2_set_match_limit) */
#define PATTERN_MEMORY_KIB (64u << 10) /* likewise */
#define PATTERN_BYTES_MAX (64u << 10)

struct pattern; /* opaque */

/* From "text" or "pattern" and "ignoreCase" of a request. -CLOCHE_E_INVALID_ARGUMENT says what is wrong and where. */
CLOCHE_MUST_CHECK int pattern_open(const struct request *q, struct pattern **ret, struct cloche_err *e);
void pattern_free(struct pattern **p);

/* The first match from at on. is_utf8: all of subject is. 1: found, 0: none, -CLOCHE_E_INVALID_ARGUMENT: over a limit. */
CLOCHE_MUST_CHECK int pattern_find(const struct pattern *p, const char *subject, size_t size, size_t at, int is_utf8, size_t *ret_from, size_t *ret_to,
                                   struct cloche_err *e);
/* Subject with all matches replaced, appended to out; of an expression replacement has $1 and ${name}. How many, or an error. */
CLOCHE_MUST_CHECK int64_t pattern_replace(const struct pattern *p, const char *subject, size_t size, int is_utf8, const char *replacement, size_t replacement_size,
                                          struct buf *out, struct cloche_err *e);

#define _cleanup_pattern_ __attribute__((cleanup(pattern_free)))

#endif
