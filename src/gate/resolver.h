/* Answers the box's questions for names, of the policy and from the table alone: nothing of a question goes any further. */
#ifndef CLOCHE_GATE_RESOLVER_H
#define CLOCHE_GATE_RESOLVER_H

#include <cloche/cloche.h>
#include <stdint.h>
#include <uv.h>

#define RESOLVER_STREAMS_MAX 8

struct gate;
struct resolver_stream; /* a question by TCP */

struct resolver {
        struct gate *gate;
        int udp_fd, tcp_fd;
        uv_poll_t udp, tcp;
        struct resolver_stream *streams[RESOLVER_STREAMS_MAX];
        unsigned budget; /* questions that are answered until the next tick */
        uint64_t queries;
};

int resolver_listen(struct resolver *resolver, struct gate *gate, int udp_fd, int tcp_fd, struct cloche_err *e);
/* Once a second. */
void resolver_tick(struct resolver *resolver);

#endif
