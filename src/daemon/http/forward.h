/* Proxy rules beyond parsing: names of previews, hop-by-hop headers, cookies with too wide a
 * scope. Pure. */
#ifndef CLOCHE_DAEMON_HTTP_FORWARD_H
#define CLOCHE_DAEMON_HTTP_FORWARD_H

#include <stddef.h>

struct preview_name {
        unsigned port;
        char sandbox[64], token[17];
};

/* The size of the host in "host", "host:port" or "[address]:port"; 0: none. */
size_t forward_host_size(const char *host);
/* The part of "host" or "host:port" before ".<base>", its size in *ret_size; NULL if the host is
 * not below base. */
const char *preview_label(const char *host, const char *base, size_t *ret_size);
/* Parse "<port>-<sandbox>-<token>": 0, or -1. Host names ignore case, so the result is lower
 * case. */
int preview_name_parse(const char *label, size_t size, struct preview_name *ret);

/* True if a header belongs to one connection only (RFC 9110, 7.6.1): by its own name or by the
 * value of Connection, which may be NULL. */
int forward_is_hop(const char *name, const char *connection);
/* True if a comma-separated list has this item, ignoring case. */
int forward_has_item(const char *list, const char *item);
/* True if the value has only visible ASCII, tabs and non-ASCII bytes. */
int forward_is_clean(const char *value);
/* True if a Set-Cookie applies to that host only (host has no port). */
int forward_is_own_cookie(const char *set_cookie, const char *host, size_t host_size);

#endif
