/* The header Range (RFC 9110, 14.2), for a single range of bytes. Pure. */
#ifndef CLOCHE_DAEMON_HTTP_RANGE_H
#define CLOCHE_DAEMON_HTTP_RANGE_H

#include <stdint.h>

struct range {
        enum { RANGE_ALL, RANGE_FROM, RANGE_LAST } kind;
        uint64_t first, last; /* RANGE_FROM: last UINT64_MAX is the end; RANGE_LAST: last counts bytes */
};

/* A malformed header, or one with several ranges, selects everything: servers may ignore the
 * header. text may be NULL. */
struct range range_parse(const char *text);
/* 0: from *ret_first until before *ret_end. -1: the range is outside. */
int range_resolve(const struct range *range, uint64_t total, uint64_t *ret_first, uint64_t *ret_end);

#endif
