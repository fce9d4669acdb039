/* What a proxy has to know of HTTP beyond parsing: names of previews, headers that are not passed on, cookies that reach too far. Pure. */
#ifndef CLOCHE_HTTP_FORWARD_H
#define CLOCHE_HTTP_FORWARD_H

#include <stddef.h>

struct preview_name {
        unsigned port;
        char sandbox[64], token[17];
};

/* The size of the host in "host" or "host:port" or "[address]:port"; 0: there is none. */
size_t forward_host_size(const char *host);
/* Of "host" or "host:port": what stands before ".<base>", its size in *ret_size, or NULL when it is no name below it. */
const char *preview_label(const char *host, const char *base, size_t *ret_size);
/* "<port>-<sandbox>-<token>": 0, or -1. Case does not matter in host names: it is lost. */
int preview_name_parse(const char *label, size_t size, struct preview_name *ret);

/* Whether a header belongs to one connection only (RFC 9110, 7.6.1): by its name, or named by the value of Connection, which may be NULL. */
int forward_is_hop(const char *name, const char *connection);
/* Whether a list between commas has this item, in any case. */
int forward_has_item(const char *list, const char *item);
/* Visible ASCII and tabs, and bytes beyond ASCII. */
int forward_is_clean(const char *value);
/* Whether a Set-Cookie is for no more hosts than that one (without its port). */
int forward_is_own_cookie(const char *set_cookie, const char *host, size_t host_size);

#endif
