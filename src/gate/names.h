/* Names of hosts and the addresses that stand for them in one box: 198.18.0.0/15, which nobody has on the internet (RFC 2544). An address stands for its
 * name as long as there is room for others; then the name that was asked for longest ago, and is not connected to, goes, and its address is
 * not another's before thirty more have gone from its place. Pure; time is the caller's. */
#ifndef CLOCHE_GATE_NAMES_H
#define CLOCHE_GATE_NAMES_H

#include "policy.h"

#define NAMES_POOL 0xc6120000u /* 198.18.0.0 */
#define NAMES_POOL_BITS 15
#define NAMES_MAX 4096
#define NAMES_REST_NS (UINT64_C(60) * 1000000000) /* one that was asked for so lately does not go */

struct name_row {
        char *name; /* NULL: free */
        uint32_t generation, next; /* of the same hash: index, or 0 */
        uint32_t connections;
        uint64_t asked_ns;
};

struct names {
        struct name_row rows[NAMES_MAX]; /* the first is not used, so that no address ends in .0.0 */
        uint32_t heads[NAMES_MAX];       /* by hash: index, or 0 */
        uint32_t count, seed;
};

/* seed: random, or a guest could choose names that collide. */
void names_init(struct names *names, uint32_t seed);
void names_done(struct names *names);

static inline int names_is_pool(uint32_t address)
{
        return (address & ~UINT32_C(0x1ffff)) == NAMES_POOL;
}

/* The address for a name as host_name() makes it, which may be new: 0, -ENOSPC when all are in use, or -ENOMEM. */
int names_address(struct names *names, const char *name, uint64_t now_ns, uint32_t *ret);
/* The name an address stands for, or NULL. */
const char *names_find(const struct names *names, uint32_t address);
/* A connection to the address began or ended: while there is one it keeps its name. The address stands for a name. */
void names_hold(struct names *names, uint32_t address);
void names_release(struct names *names, uint32_t address);

#endif
