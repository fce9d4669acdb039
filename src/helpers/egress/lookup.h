/* Look up the A and AAAA records of a name at the host's name servers. The hosts file and search
 * list are not used. */
#ifndef CLOCHE_HELPERS_EGRESS_LOOKUP_H
#define CLOCHE_HELPERS_EGRESS_LOOKUP_H

#include <cloche/error.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define LOOKUP_ADDRESSES_MAX 16 /* of each kind */

struct lookup_result {
        size_t count, count6;
        uint32_t addresses[LOOKUP_ADDRESSES_MAX]; /* in host order */
        struct in6_addr addresses6[LOOKUP_ADDRESSES_MAX];
        const char *why; /* with no address: the servers' error */
};

typedef void (*lookup_done)(void *data, const struct lookup_result *result);

struct lookups; /* opaque */
struct lookup;  /* a lookup in progress */

/* Reads random bytes, so it runs before the guard closes off files. */
CLOCHE_MUST_CHECK int lookups_new(uv_loop_t *loop, struct lookups **ret, struct cloche_err *e);
/* "1.2.3.4", "1.2.3.4:53", "[2001:db8::1]:53", separated by commas. Lookups in progress finish or
 * fail first. */
CLOCHE_MUST_CHECK int lookups_servers(struct lookups *lookups, const char *servers, struct cloche_err *e);
/* Call it a few times a second: unanswered queries are repeated or fail. */
void lookups_tick(struct lookups *lookups);

/* Calls done once, perhaps before it returns; the lookup is freed then. *ret is set before. 0 or
 * -ENOMEM. */
int lookup_start(struct lookups *lookups, const char *name, lookup_done done, void *data, struct lookup **ret);
/* Detach the lookup: done is not called any more. */
void lookup_detach(struct lookup *lookup);

#endif
