/* Output of a program: keeps the head and the tail, counts the middle. Pure. */
#ifndef CLOCHE_ENGINE_LOOP_OUTPUT_H
#define CLOCHE_ENGINE_LOOP_OUTPUT_H

#include "base/buf.h"

struct output {
        struct buf head; /* up to half the limit */
        char *tail;      /* a ring of the other half */
        size_t tail_room, tail_at, tail_size;
        uint64_t total;
};

/* limit_bytes UINT64_MAX: keep everything. */
void output_init(struct output *o, uint64_t limit_bytes);
void output_done(struct output *o);
/* 0 or -ENOMEM. */
int output_append(struct output *o, const char *data, size_t size);
/* Bytes printed but not kept. */
uint64_t output_dropped(const struct output *o);
/* Write the kept text, with a line about the gap between head and tail. 0 or -ENOMEM. */
int output_text(const struct output *o, struct buf *ret);

#endif
