/* Bytes on their way from one socket to another. A bounded buffer holds them until they are
 * inspected. */
#ifndef CLOCHE_HELPERS_EGRESS_FLOW_H
#define CLOCHE_HELPERS_EGRESS_FLOW_H

#include "helpers/egress/read/headers.h"

#include <stddef.h>
#include <stdint.h>

#define FLOW_BYTES 32768                           /* that are read ahead */
#define FLOW_ROOM (FLOW_BYTES + HEADERS_BYTES_MAX) /* a full buffer takes the headers of a host, too */

struct flow {
        char *data; /* FLOW_ROOM, or NULL while empty */
        size_t start, size;
        size_t passed;  /* bytes from start that may be sent */
        int is_ended;   /* the sender has closed */
        int is_closed;  /* the receiver has been shut down */
        uint64_t total; /* bytes sent */
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

/* Read as much as fits. 0 or -errno. */
int flow_fill(struct flow *flow, int fd);
/* Send the bytes that may pass, then the end of the stream. 0 or -errno. */
int flow_drain(struct flow *flow, int fd);
/* Put other bytes in the place of the first size held ones. -1: there is no room. */
int flow_replace(struct flow *flow, size_t size, const char *bytes, size_t bytes_size);
void flow_done(struct flow *flow);

#endif
