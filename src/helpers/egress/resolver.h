/* Answer the box's DNS queries from the policy and the name table alone. No data of a query leaves
 * the egress program. */
#ifndef CLOCHE_HELPERS_EGRESS_RESOLVER_H
#define CLOCHE_HELPERS_EGRESS_RESOLVER_H

#include <cloche/error.h>
#include <stdint.h>
#include <uv.h>

#define RESOLVER_STREAMS_MAX 8

struct egress;
struct resolver_stream; /* a query over TCP */

struct resolver {
        struct egress *egress;
        int udp_fd, tcp_fd;
        uv_poll_t udp, tcp;
        struct resolver_stream *streams[RESOLVER_STREAMS_MAX];
        unsigned budget; /* queries answered until the next tick */
};

int resolver_listen(struct resolver *resolver, struct egress *egress, int udp_fd, int tcp_fd, struct cloche_err *e);
/* Once a second. */
void resolver_tick(struct resolver *resolver);

#endif
