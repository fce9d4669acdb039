/* The search pattern: literal text or a regular expression (PCRE2). Bounded: an expression that
 * backtracks without end is an error. Lines end with LF or CRLF; ^ and $ match at lines, . does not
 * match line ends. Bytes that are not UTF-8 match literal text only. */
#ifndef CLOCHE_BOX_FILES_SEARCH_PATTERN_H
#define CLOCHE_BOX_FILES_SEARCH_PATTERN_H

#include "box/files/request.h"

#define PATTERN_STEPS_MAX 2000000      /* per match (pcre2_set_match_limit) */
#define PATTERN_MEMORY_KIB (64u << 10) /* per match */
#define PATTERN_BYTES_MAX (64u << 10)

struct pattern; /* opaque */

/* Compile "text" or "pattern" and "ignoreCase" of a request. -CLOCHE_E_INVALID_ARGUMENT names the
 * fault and its position. */
CLOCHE_MUST_CHECK int pattern_open(const struct files_request *q, struct pattern **ret, struct cloche_err *e);
void pattern_free(struct pattern **p);

/* Find the first match at or after at. is_utf8: the whole subject is UTF-8. 1: found, 0: none,
 * -CLOCHE_E_INVALID_ARGUMENT: over a limit. */
CLOCHE_MUST_CHECK int pattern_find(const struct pattern *p, const char *subject, size_t size, size_t at, int is_utf8,
                                   size_t *ret_from, size_t *ret_to, struct cloche_err *e);
/* Append subject with all matches replaced to out; with an expression, replacement may use $1 and
 * ${name}. Returns the number of matches or an error. */
CLOCHE_MUST_CHECK int64_t pattern_replace(const struct pattern *p, const char *subject, size_t size, int is_utf8,
                                          const char *replacement, size_t replacement_size, struct buf *out,
                                          struct cloche_err *e);

#define _cleanup_pattern_ __attribute__((cleanup(pattern_free)))

#endif
