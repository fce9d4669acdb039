/* A growing buffer with a maximum. Runs in: every program. */
#include "buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *buf_reserve(struct buf *b, size_t size)
{
        size_t room = b->room ? b->room : 512;
        char *grown;

        if (size > b->max || b->size > b->max - size)
                return NULL;
        if (b->data && b->size + size <= b->room)
                return b->data + b->size;
        while (room < b->size + size)
                room = room > b->max / 2 ? b->max : room * 2;
        grown = realloc(b->data, room);
        if (!grown)
                return NULL;
        b->data = grown;
        b->room = room;
        return b->data + b->size;
}

int buf_append(struct buf *b, const void *data, size_t size)
{
        char *end;

        if (size == 0)
                return 0;
        end = buf_reserve(b, size);
        if (!end)
                return size > b->max || b->size > b->max - size ? -ENOBUFS : -ENOMEM;
        memcpy(end, data, size);
        b->size += size;
        return 0;
}

int buf_quote(struct buf *b, const char *word)
{
        int r = buf_append(b, "'", 1);

        for (; r == 0 && *word; word++)
                r = *word == '\'' ? buf_append(b, "'\\''", 4) : buf_append(b, word, 1);
        return r == 0 ? buf_append(b, "'", 1) : r;
}

void buf_consume(struct buf *b, size_t size)
{
        if (size > b->size)
                size = b->size;
        if (size > 0 && size < b->size)
                memmove(b->data, b->data + size, b->size - size);
        b->size -= size;
}

void buf_done(struct buf *b)
{
        free(b->data);
        *b = (struct buf){.max = b->max};
}
