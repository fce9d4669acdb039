/* Loading JSON text with every bound the wire has. Pure. */
#ifndef CLOCHE_WIRE_JSON_H
#define CLOCHE_WIRE_JSON_H

#include <cloche/error.h>
#include <jansson.h>

/* For the text. A value is at most 200 deep (value.h), but its tagged forms and the message around
 * it nest further. */
#define JSON_DEPTH_MAX 1000

/* Load any JSON value; duplicate keys, NUL in keys and deep nesting are refused. *ret is owned by
 * the caller. -CLOCHE_E_INVALID_JSON names the position. */
int json_load_text(const char *text, size_t size, json_t **ret, struct cloche_err *e);

/* The same for text that people write: integers outside ±(2^53-1) become the bigint form of
 * spec/values.md, so that no digit is lost. */
int json_load_human(const char *text, size_t size, json_t **ret, struct cloche_err *e);

/* Make a string of untrusted or truncated bytes: U+FFFD replaces invalid UTF-8. NULL without
 * memory. */
json_t *json_valid_text(const char *bytes, size_t size);

/* The reference to bytes among those that follow a message (spec/values.md); a new one. */
json_t *json_attachment(size_t at, size_t size);

/* Like json_dumps(3), but also returns NULL in cases where jansson (2.14) ignores lack of memory
 * and omits a key. */
char *json_dump_text(const json_t *value, size_t flags);

#endif
