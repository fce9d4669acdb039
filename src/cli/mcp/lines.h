/* Lines of a descriptor, of bounded size. */
#ifndef CLOCHE_CLI_MCP_LINES_H
#define CLOCHE_CLI_MCP_LINES_H

#include "base/buf.h"

#define LINES_BYTES_MAX (64u << 20) /* of one line */

struct lines {
        struct buf in;
        size_t at;       /* the first byte that was not returned */
        size_t seen;     /* bytes from there on without an end of line */
        int is_skipping; /* the rest of a line that is too large */
        int is_over;     /* the end of the input was read */
};

void lines_init(struct lines *lines);
void lines_done(struct lines *lines);
/* Call it when the descriptor can be read. 0, or -errno. */
int lines_read(struct lines *lines, int fd);
/* 1: *ret is a line without its end, valid until the next call. 0: there is none. -E2BIG: a line
 * was too large, and is skipped. */
int lines_next(struct lines *lines, const char **ret, size_t *ret_size);

#endif
