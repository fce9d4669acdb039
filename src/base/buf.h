/* A growing byte buffer with a fixed maximum. */
#ifndef CLOCHE_BASE_BUF_H
#define CLOCHE_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
        char *data;
        size_t size;
        size_t room;
        size_t max;
};

#define BUF_INIT(limit_bytes) ((struct buf){.max = (limit_bytes)})

/* Append. Returns 0, -ENOBUFS over the maximum, or -ENOMEM; the contents are unchanged on
 * failure. */
int buf_append(struct buf *b, const void *data, size_t size);
/* Make room for size more bytes at the end; the pointer is valid until the next call. NULL for the
 * errors of buf_append. */
char *buf_reserve(struct buf *b, size_t size);
/* Append one word of a shell: 'it'\''s'. The same errors. */
int buf_quote(struct buf *b, const char *word);
/* Drop bytes at the front. */
void buf_consume(struct buf *b, size_t size);
void buf_done(struct buf *b);

#define _cleanup_buf_ __attribute__((cleanup(buf_done)))

#endif
