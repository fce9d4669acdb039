/* Asking the host's name servers for the addresses of a name: A and AAAA, nothing else is looked at (no hosts file, no search list). */
#ifndef CLOCHE_GATE_LOOKUP_H
#define CLOCHE_GATE_LOOKUP_H

#include <cloche/cloche.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define LOOKUP_ADDRESSES_MAX 16 /* of each kind */

struct lookup_result {
        size_t count, count6;
        uint32_t addresses[LOOKUP_ADDRESSES_MAX]; /* in host order */
        struct in6_addr addresses6[LOOKUP_ADDRESSES_MAX];
        const char *why; /* with no address: what the servers said */
};

typedef void (*lookup_done)(void *data, const struct lookup_result *result);

struct lookups; /* opaque */
struct lookup;  /* one that is under way */

/* Reads random bytes, so before files are out of reach. */
CLOCHE_MUST_CHECK int lookups_new(uv_loop_t *loop, struct lookups **ret, struct cloche_err *e);
/* "1.2.3.4", "1.2.3.4:53", "[2001:db8::1]:53", with commas between. Those under way are answered first, or fail. */
CLOCHE_MUST_CHECK int lookups_servers(struct lookups *lookups, const char *servers, struct cloche_err *e);
/* Call it a few times a second: what was not answered is asked again, or fails. */
void lookups_tick(struct lookups *lookups);
void lookups_free(struct lookups *lookups); /* accepts NULL */

/* done is told once, perhaps from within; the lookup is gone then. *ret is set before. 0 or -ENOMEM. */
int lookup_start(struct lookups *lookups, const char *name, lookup_done done, void *data, struct lookup **ret);
/* done is not told any more. */
void lookup_forget(struct lookup *lookup);

#endif
