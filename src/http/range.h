/* The header Range (RFC 9110, 14.2), as far as it asks for one piece in bytes. Pure. */
#ifndef CLOCHE_HTTP_RANGE_H
#define CLOCHE_HTTP_RANGE_H

#include <stdint.h>

struct range {
        enum { RANGE_ALL, RANGE_FROM, RANGE_LAST } kind;
        uint64_t first, last; /* of RANGE_FROM, UINT64_MAX: to the end; of RANGE_LAST last is how many */
};

/* What is malformed, or asks for several pieces, asks for all, as the header may be passed over. text may be NULL. */
struct range range_parse(const char *text);
/* 0: from *ret_first until before *ret_end. -1: none of it is there. */
int range_resolve(const struct range *range, uint64_t total, uint64_t *ret_first, uint64_t *ret_end);

#endif
