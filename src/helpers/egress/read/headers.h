/* Headers that a policy sets in requests to a host, so that their values stay out of the box. Pure;
 * the engine checks them, the egress program writes them. */
#ifndef CLOCHE_HELPERS_EGRESS_READ_HEADERS_H
#define CLOCHE_HELPERS_EGRESS_READ_HEADERS_H

#include <cloche/error.h>
#include <jansson.h>
#include <stddef.h>

#define HEADERS_BYTES_MAX 16384u /* of a host: half of a head */

struct headers;      /* of all hosts; opaque */
struct host_headers; /* of one */

/* json: {HOST: {NAME: VALUE}}, HOST a name or *.name; NULL: none, *ret is NULL then.
 * *ret is owned by the caller. -CLOCHE_E_INVALID_ARGUMENT names the member, and never a
 * value; or -CLOCHE_E_RESOURCE. */
CLOCHE_MUST_CHECK int headers_load(const json_t *json, struct headers **ret, struct cloche_err *e);
void headers_free(struct headers *headers); /* accepts NULL */
/* name: in host_name() form. The host itself comes before those that it is below. NULL:
 * none. headers may be NULL. */
const struct host_headers *headers_find(const struct headers *headers, const char *name);
/* Write a head of a request, which http.h has accepted, with these headers instead of those of
 * the same names. Returns its size, or 0: there is no room for it. */
size_t headers_write(const struct host_headers *host, const char *head, size_t size, char *ret, size_t room);

#endif
