/* What was printed, kept for reading it again: in memory while it is little, in a file without a name when it is more. */
#ifndef CLOCHE_SANDBOX_SPOOL_H
#define CLOCHE_SANDBOX_SPOOL_H

#include <stddef.h>
#include <stdint.h>

enum spool_keep { SPOOL_FIRST, SPOOL_LAST }; /* of more than fits */

struct spool {
        enum spool_keep keep;
        uint64_t room_bytes;
        uint64_t total;   /* bytes that came */
        uint64_t lost_from; /* of these, once one could not be stored: from here on none is there */
        int has_lost;
        char *memory;
        size_t memory_room;
        int fd;           /* -EBADF: all is in memory */
        int directory_fd; /* borrowed; -EBADF: a memory file is used */
};

void spool_init(struct spool *s, enum spool_keep keep, uint64_t room_bytes, int directory_fd);
void spool_done(struct spool *s);
/* 0 or -errno: then these bytes, and all that follow, are counted and lost. */
int spool_append(struct spool *s, const void *data, size_t size);
/* Which bytes are kept: from begin to end. */
uint64_t spool_begin(const struct spool *s);
uint64_t spool_end(const struct spool *s);
/* Up to size bytes from offset on, which lies between both; how many, or -errno. */
long spool_read(const struct spool *s, uint64_t offset, void *data, size_t size);
/* A copy of that, whole, terminated besides, owned by the caller, free(); *ret_size: less than size when the disk lost some. NULL without memory. */
char *spool_copy(const struct spool *s, uint64_t offset, size_t size, size_t *ret_size);
uint64_t spool_bytes(const struct spool *s); /* that it holds */

#endif
