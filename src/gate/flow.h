/* Bytes on their way from one socket to another: held in a bounded buffer, let go as far as they were looked at. */
#ifndef CLOCHE_GATE_FLOW_H
#define CLOCHE_GATE_FLOW_H

#include <stddef.h>
#include <stdint.h>

#define FLOW_BYTES 32768

struct flow {
        char *data; /* FLOW_BYTES, or NULL while there is nothing */
        size_t start, size;
        size_t passed;  /* of them, from start on, may go */
        int is_ended;   /* nothing more comes */
        int is_closed;  /* and whoever reads was told */
        uint64_t total; /* that went */
};

static inline const char *flow_held(const struct flow *flow)
{
        return flow->data + flow->start + flow->passed;
}

static inline size_t flow_held_size(const struct flow *flow)
{
        return flow->size - flow->passed;
}

static inline int flow_has_room(const struct flow *flow)
{
        return !flow->is_ended && flow->size < FLOW_BYTES;
}

/* Take what there is, as far as there is room. 0 or -errno. */
int flow_fill(struct flow *flow, int fd);
/* Send what may go, and the end behind it. 0 or -errno. */
int flow_drain(struct flow *flow, int fd);
void flow_done(struct flow *flow);

#endif
