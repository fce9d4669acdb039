/* What a program printed: the head and the tail are kept, the middle is counted. Pure. */
#ifndef CLOCHE_ENGINE_OUTPUT_H
#define CLOCHE_ENGINE_OUTPUT_H

#include "base/buf.h"

struct output {
        struct buf head; /* up to half the limit */
        char *tail;      /* a ring of the other half */
        size_t tail_room, tail_at, tail_size;
        uint64_t total;
};

/* limit_bytes UINT64_MAX: everything is kept. */
void output_init(struct output *o, uint64_t limit_bytes);
void output_done(struct output *o);
/* 0 or -ENOMEM. */
int output_append(struct output *o, const char *data, size_t size);
/* Bytes that were printed and not kept. */
uint64_t output_dropped(const struct output *o);
/* Everything kept, with a line between head and tail that says what is missing. Fills ret; 0 or -ENOMEM. */
int output_text(const struct output *o, struct buf *ret);

#endif
