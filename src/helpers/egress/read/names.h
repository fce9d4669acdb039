/* Host names and the addresses assigned to them in one box, from 198.18.0.0/15, which is not routed
 * on the internet (RFC 2544). An address keeps its name until the table is full. Then the least
 * recently queried name without a connection is evicted; its address is not reused before
 * thirty-one more evictions from its slot. Pure; the caller passes the time. */
#ifndef CLOCHE_HELPERS_EGRESS_READ_NAMES_H
#define CLOCHE_HELPERS_EGRESS_READ_NAMES_H

#include "policy.h"

#define NAMES_POOL 0xc6120000u /* 198.18.0.0 */
#define NAMES_POOL_BITS 15
#define NAMES_MAX 4096
#define NAMES_REST_NS (UINT64_C(60) * 1000000000) /* a name queried more recently is not evicted */

struct name_row {
        char *name;                /* NULL: free */
        uint32_t generation, next; /* next row of the same hash: index, or 0 */
        uint32_t connections;
        uint64_t requested_ns;
};

struct egress_names {
        struct name_row rows[NAMES_MAX]; /* the first is unused, so that no address ends in .0.0 */
        uint32_t heads[NAMES_MAX];       /* by hash: index, or 0 */
        uint32_t count, seed;
};

/* seed: random; otherwise a guest could choose colliding names. */
void names_init(struct egress_names *names, uint32_t seed);
void egress_names_done(struct egress_names *names);

static inline int names_is_pool(uint32_t address)
{
        return (address & ~UINT32_C(0x1ffff)) == NAMES_POOL;
}

/* The address of a name in host_name() form; assigns a new one if needed. 0, -ENOSPC when all are
 * in use, or -ENOMEM. */
int names_address(struct egress_names *names, const char *name, uint64_t now_ns, uint32_t *ret);
/* The name assigned to an address, or NULL. */
const char *names_find(const struct egress_names *names, uint32_t address);
/* Count a connection to an assigned address. The address keeps its name while the count is not
 * zero. */
void names_hold(struct egress_names *names, uint32_t address);
void names_release(struct egress_names *names, uint32_t address);

#endif
