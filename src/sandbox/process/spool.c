/* Output that is kept for later reads. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "spool.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MEMORY_BYTES_MAX (256u << 10)
#define MEMORY_BYTES_FIRST 4096u

void spool_init(struct spool *s, enum spool_keep keep, uint64_t room_bytes, int directory_fd)
{
        *s = (struct spool){.keep = keep, .room_bytes = room_bytes, .fd = -EBADF, .directory_fd = directory_fd};
}

void spool_done(struct spool *s)
{
        free(s->memory);
        s->memory = NULL;
        fd_close(&s->fd);
}

/* Return the number of bytes that came before memory or disk space ran out. */
static uint64_t stored(const struct spool *s)
{
        return s->has_lost ? s->lost_from : s->total;
}

uint64_t spool_begin(const struct spool *s)
{
        return s->keep == SPOOL_LAST && stored(s) > s->room_bytes ? stored(s) - s->room_bytes : 0;
}

uint64_t spool_end(const struct spool *s)
{
        return s->keep == SPOOL_FIRST && stored(s) > s->room_bytes ? s->room_bytes : stored(s);
}

uint64_t spool_bytes(const struct spool *s)
{
        return spool_end(s) - spool_begin(s);
}

static int grow(struct spool *s, uint64_t needed)
{
        size_t room = s->memory_room ? s->memory_room : MEMORY_BYTES_FIRST;
        char *memory;

        while (room < needed)
                room *= 2;
        if (room == s->memory_room)
                return 0;
        memory = realloc(s->memory, room);
        if (!memory)
                return -ENOMEM;
        s->memory = memory;
        s->memory_room = room;
        return 0;
}

static int move_to_file(struct spool *s)
{
        int fd = s->directory_fd >= 0 ? openat(s->directory_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
                                      : memfd_create("output", MFD_CLOEXEC);
        int r = fd < 0 ? -errno : s->total > 0 ? fd_write_full(fd, s->memory, (size_t)s->total) : 0;

        if (r < 0) {
                fd_close(&fd);
                return r;
        }
        s->fd = fd;
        free(s->memory);
        s->memory = NULL;
        s->memory_room = 0;
        return 0;
}

static int write_at(struct spool *s, uint64_t at, const char *data, size_t size)
{
        if (s->fd < 0) {
                memcpy(s->memory + at, data, size);
                return 0;
        }
        return fd_pwrite_full(s->fd, data, size, (off_t)at);
}

/* Write the bytes at their place in a ring of room_bytes. It never wraps if the first bytes are
 * kept. */
static int store(struct spool *s, uint64_t offset, const char *data, size_t size)
{
        while (size > 0) {
                uint64_t at = offset % s->room_bytes;
                size_t piece = size < s->room_bytes - at ? size : (size_t)(s->room_bytes - at);
                int r = write_at(s, at, data, piece);

                if (r < 0)
                        return r;
                data += piece;
                offset += piece;
                size -= piece;
        }
        return 0;
}

static int make_room(struct spool *s, uint64_t end)
{
        uint64_t needed = end < s->room_bytes ? end : s->room_bytes;

        if (s->fd >= 0)
                return 0;
        return needed > MEMORY_BYTES_MAX ? move_to_file(s) : grow(s, needed);
}

int spool_append(struct spool *s, const void *data, size_t size)
{
        const char *from = data;
        uint64_t offset = s->total;
        size_t kept = size;
        int r;

        if (s->keep == SPOOL_FIRST)
                kept = offset >= s->room_bytes         ? 0
                       : size < s->room_bytes - offset ? size
                                                       : (size_t)(s->room_bytes - offset);
        if (s->keep == SPOOL_LAST && size > s->room_bytes) {
                kept = (size_t)s->room_bytes;
                from += size - kept;
                offset += size - kept;
        }
        r = s->has_lost ? -ENOSPC : kept > 0 ? make_room(s, offset + kept) : 0;
        if (r == 0 && kept > 0)
                r = store(s, offset, from, kept);
        if (r < 0 && !s->has_lost) {
                s->has_lost = 1;
                s->lost_from = s->total;
        }
        s->total += size;
        return r;
}

long spool_read(const struct spool *s, uint64_t offset, void *data, size_t size)
{
        uint64_t end = spool_end(s), at = offset % (s->room_bytes ? s->room_bytes : 1);
        ssize_t n;

        if (offset >= end)
                return 0;
        if (size > end - offset)
                size = (size_t)(end - offset);
        if (size > s->room_bytes - at)
                size = (size_t)(s->room_bytes - at);
        if (s->fd < 0) {
                memcpy(data, s->memory + at, size);
                return (long)size;
        }
        n = pread(s->fd, data, size, (off_t)at);
        return n < 0 ? -errno : n;
}

char *spool_copy(const struct spool *s, uint64_t offset, size_t size, size_t *ret_size)
{
        char *data = malloc(size + 1);
        size_t at = 0;

        while (data && at < size) {
                long n = spool_read(s, offset + at, data + at, size - at);

                if (n <= 0)
                        break;
                at += (size_t)n;
        }
        if (data)
                data[at] = '\0';
        *ret_size = at;
        return data;
}
