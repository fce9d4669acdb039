/* Lines of standard input. Runs in: the CLI, as its user. */
#include "lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (256u << 10)

void lines_init(struct lines *lines)
{
        *lines = (struct lines){.in = BUF_INIT(LINES_BYTES_MAX + PIECE_BYTES)};
}

void lines_done(struct lines *lines)
{
        buf_done(&lines->in);
}

int lines_read(struct lines *lines, int fd)
{
        char *to;
        ssize_t n;

        buf_consume(&lines->in, lines->at);
        lines->at = 0;
        to = buf_reserve(&lines->in, PIECE_BYTES);
        if (!to)
                return -ENOMEM;
        n = read(fd, to, PIECE_BYTES);
        if (n < 0)
                return errno == EINTR || errno == EAGAIN ? 0 : -errno;
        lines->in.size += (size_t)n;
        lines->is_over = n == 0;
        return 0;
}

/* The bytes of a line that is too large are dropped as they come. */
static int skip(struct lines *lines)
{
        int is_first = !lines->is_skipping;

        lines->at = lines->in.size;
        lines->seen = 0;
        lines->is_skipping = 1;
        return is_first ? -E2BIG : 0;
}

int lines_next(struct lines *lines, const char **ret, size_t *ret_size)
{
        const char *from, *end;
        size_t left = lines->in.size - lines->at;

        if (left == 0 || (left == lines->seen && !lines->is_over))
                return 0;
        from = lines->in.data + lines->at;
        end = memchr(from + lines->seen, '\n', left - lines->seen);
        if (!end && (lines->is_skipping || left > LINES_BYTES_MAX))
                return skip(lines);
        if (!end && !lines->is_over) {
                lines->seen = left;
                return 0;
        }
        if (!end) { /* the last line has no end */
                lines->at = lines->in.size;
                lines->seen = 0;
                *ret = from;
                *ret_size = left;
                return 1;
        }
        lines->at += (size_t)(end - from) + 1;
        lines->seen = 0;
        if (lines->is_skipping) {
                lines->is_skipping = 0;
                return lines_next(lines, ret, ret_size);
        }
        *ret = from;
        *ret_size = (size_t)(end - from);
        return 1;
}
