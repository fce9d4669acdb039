/* Output that is kept for later reads: a small one in memory, a larger one in an unnamed file. */
#ifndef CLOCHE_SANDBOX_PROCESS_SPOOL_H
#define CLOCHE_SANDBOX_PROCESS_SPOOL_H

#include <stddef.h>
#include <stdint.h>

enum spool_keep { SPOOL_FIRST, SPOOL_LAST }; /* which bytes to keep if not all fit */

struct spool {
        enum spool_keep keep;
        uint64_t room_bytes;
        uint64_t total;     /* bytes appended */
        uint64_t lost_from; /* the first byte that could not be stored; no later ones are kept */
        int has_lost;
        char *memory;
        size_t memory_room;
        int fd;           /* -EBADF: all is in memory */
        int directory_fd; /* for the file; borrowed; -EBADF: a memory file is used */
};

void spool_init(struct spool *s, enum spool_keep keep, uint64_t room_bytes, int directory_fd);
void spool_done(struct spool *s);
/* Returns 0 or -errno: then these bytes, and all later ones, are counted and lost. */
int spool_append(struct spool *s, const void *data, size_t size);
/* The range of bytes that are kept. */
uint64_t spool_begin(const struct spool *s);
uint64_t spool_end(const struct spool *s);
/* Read up to size bytes from offset, which must lie in that range. Returns the number of bytes, or
 * -errno. */
long spool_read(const struct spool *s, uint64_t offset, void *data, size_t size);
/* Return a copy of that range, terminated, owned by the caller, free(). *ret_size is less than size
 * if the disk lost bytes. NULL: no memory. */
char *spool_copy(const struct spool *s, uint64_t offset, size_t size, size_t *ret_size);
uint64_t spool_bytes(const struct spool *s); /* number of bytes stored */

#endif
