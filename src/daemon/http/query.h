/* Decode the query of a target into names and values. Pure. */
#ifndef CLOCHE_DAEMON_HTTP_QUERY_H
#define CLOCHE_DAEMON_HTTP_QUERY_H

#include <cloche/error.h>
#include <jansson.h>

#define QUERY_FIELDS_MAX 64

/* query: the text after the "?". *ret: an object of texts, and of lists of texts for names that
 * come again, owned by the caller. -CLOCHE_E_INVALID_ARGUMENT: a bad escape, a NUL, invalid
 * UTF-8, an empty name, too many. "+" is a space. */
int query_parse(const char *query, json_t **ret, struct cloche_err *e);

#endif
