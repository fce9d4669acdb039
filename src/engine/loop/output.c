#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void output_init(struct output *o, uint64_t limit_bytes)
{
        size_t limit = limit_bytes > SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)limit_bytes;

        *o = (struct output){.tail_room = limit_bytes == UINT64_MAX ? 0 : limit / 2};
        o->head = BUF_INIT(limit - o->tail_room);
}

void output_done(struct output *o)
{
        buf_done(&o->head);
        free(o->tail);
        o->tail = NULL;
}

static void append_tail(struct output *o, const char *data, size_t size)
{
        if (size > o->tail_room) {
                data += size - o->tail_room;
                size = o->tail_room;
        }
        while (size > 0) {
                size_t piece = o->tail_room - o->tail_at < size ? o->tail_room - o->tail_at : size;

                memcpy(o->tail + o->tail_at, data, piece);
                o->tail_at = (o->tail_at + piece) % o->tail_room;
                o->tail_size = o->tail_size + piece < o->tail_room ? o->tail_size + piece : o->tail_room;
                data += piece;
                size -= piece;
        }
}

int output_append(struct output *o, const char *data, size_t size)
{
        size_t room = o->head.max - o->head.size, first = size < room ? size : room;
        int r = buf_append(&o->head, data, first);

        if (r < 0)
                return r;
        o->total += size;
        if (size == first || o->tail_room == 0)
                return 0;
        if (!o->tail)
                o->tail = malloc(o->tail_room);
        if (!o->tail)
                return -ENOMEM;
        append_tail(o, data + first, size - first);
        return 0;
}

uint64_t output_dropped(const struct output *o)
{
        return o->total - o->head.size - o->tail_size;
}

int output_text(const struct output *o, struct buf *ret)
{
        size_t begin = o->tail_size < o->tail_room ? 0 : o->tail_at;
        uint64_t dropped = output_dropped(o);
        char line[80];
        int r;

        *ret = BUF_INIT(SIZE_MAX / 2);
        r = buf_append(ret, o->head.data, o->head.size);
        if (r == 0 && dropped > 0) {
                snprintf(line, sizeof(line), "\n[… %" PRIu64 " bytes dropped …]\n", dropped);
                r = buf_append(ret, line, strlen(line));
        }
        if (r == 0 && o->tail_size > 0)
                r = buf_append(ret, o->tail + begin, o->tail_size - begin);
        if (r == 0 && begin > 0)
                r = buf_append(ret, o->tail, begin);
        return r;
}
