/* Unit tests of src/sandbox/process/spool.c: the part of a large output that is kept, in memory and in a file. */
#include "sandbox/process/spool.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

/* Byte number n of everything that is written here. */
static char byte_at(uint64_t n)
{
        return (char)('a' + n % 23);
}

static void fill(struct spool *s, uint64_t size, size_t piece)
{
        char *data = malloc(piece);

        for (uint64_t at = 0; at < size; at += piece) {
                for (size_t i = 0; i < piece; i++)
                        data[i] = byte_at(at + i);
                CHECK(spool_append(s, data, piece) == 0, "a piece of %zu is appended at %llu", piece,
                      (unsigned long long)at);
        }
        free(data);
}

static int holds(const struct spool *s, uint64_t from, uint64_t to)
{
        char data[4000];

        while (from < to) {
                long n = spool_read(s, from, data, sizeof(data));

                if (n <= 0)
                        return 0;
                for (long i = 0; i < n; i++)
                        if (data[i] != byte_at(from + (uint64_t)i))
                                return 0;
                from += (uint64_t)n;
        }
        return from == to;
}

static void check(enum spool_keep keep, uint64_t room, uint64_t size, size_t piece, uint64_t begin, uint64_t end,
                  const char *what)
{
        struct spool s;

        spool_init(&s, keep, room, -EBADF);
        fill(&s, size, piece);
        CHECK(s.total == size, "%s: the total counts all", what);
        CHECK(spool_begin(&s) == begin && spool_end(&s) == end, "%s: from %llu to %llu is kept", what,
              (unsigned long long)begin, (unsigned long long)end);
        CHECK(holds(&s, begin, end), "%s: byte for byte", what);
        CHECK(spool_bytes(&s) == end - begin, "%s: as many bytes", what);
        spool_done(&s);
}

/* A directory in which no file can be created stands for a full disk: data in memory stay, and
 * no other byte is returned. */
static void check_full(enum spool_keep keep)
{
        int directory_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char data[4000];
        struct spool s;

        spool_init(&s, keep, MIB, directory_fd);
        fill(&s, 200000, 20000);
        for (int i = 0; i < 100; i++)
                if (spool_append(&s, data, sizeof(data)) == 0)
                        CHECK(i < 16, "what is over %d KiB is lost", 256);
        CHECK(s.total == 600000 && spool_end(&s) >= 200000 && spool_end(&s) <= 256 << 10,
              "the total counts all, of which %llu are kept", (unsigned long long)spool_end(&s));
        CHECK(holds(&s, 0, 200000), "byte for byte");
        CHECK(spool_read(&s, spool_end(&s), data, sizeof(data)) == 0 && spool_read(&s, 500000, data, sizeof(data)) == 0,
              "and no others");
        spool_done(&s);
        close(directory_fd);
}

int main(void)
{
        check_full(SPOOL_FIRST);
        check_full(SPOOL_LAST);
        struct spool s;
        char byte;

        check(SPOOL_FIRST, 1000, 0, 1, 0, 0, "nothing");
        check(SPOOL_FIRST, 1000, 900, 90, 0, 900, "less than fits");
        check(SPOOL_FIRST, 1000, 1000, 100, 0, 1000, "just what fits");
        check(SPOOL_FIRST, 1000, 2100, 70, 0, 1000, "the first of more");
        check(SPOOL_LAST, 1000, 900, 90, 0, 900, "less than fits, last");
        check(SPOOL_LAST, 1000, 2100, 70, 1100, 2100, "the last of more");
        check(SPOOL_LAST, 1000, 9000, 3000, 8000, 9000, "the last of one piece that is larger");
        check(SPOOL_FIRST, 3 * MIB, 2 * MIB, 65536, 0, 2 * MIB, "in a file");
        check(SPOOL_FIRST, MIB, 2 * MIB, 65536, 0, MIB, "the first of more, in a file");
        check(SPOOL_LAST, MIB, 3 * MIB, 65536, 2 * MIB, 3 * MIB, "the last of more, in a file");
        spool_init(&s, SPOOL_FIRST, 10, -EBADF);
        CHECK(spool_read(&s, 0, &byte, 1) == 0 && spool_read(&s, 99, &byte, 1) == 0, "there is nothing behind the end");
        spool_done(&s);
        return tap_done();
}
