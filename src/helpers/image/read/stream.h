/* A tar archive, perhaps compressed, read once from beginning to end: hashed as it came and as
 * it is unpacked, by libarchive(3). Hostile bytes. */
#ifndef CLOCHE_HELPERS_IMAGE_READ_STREAM_H
#define CLOCHE_HELPERS_IMAGE_READ_STREAM_H

#include "helpers/image/hash.h"

#include <archive.h>
#include <archive_entry.h>
#include <cloche/error.h>
#include <stdbool.h>
#include <stdint.h>
#include <zlib.h>

#define STREAM_FREE_BYTES (UINT64_C(64) << 20) /* bytes that the ratio does not limit */
#define STREAM_RATIO_MAX 200                   /* unpacked bytes per byte of the source */
#define STREAM_PART_BYTES (256u << 10)

struct image_stream {
        int fd;               /* borrowed */
        int64_t at;           /* offset of the next byte; -1: fd has no positions */
        uint64_t size, bytes; /* bytes to read, and read */
        uint64_t plain_bytes;
        bool is_plain; /* not compressed: one hash is enough */
        struct sha256_ctx hash, plain_hash;
        z_stream inflater; /* zlib checks the sums of gzip, which libarchive ignores */
        bool is_gzip, is_in_member;
        size_t unread;                /* bytes of part that were read ahead, to know the compression */
        struct archive *filter, *tar; /* the decompressed bytes; their members */
        char part[STREAM_PART_BYTES], inflated[STREAM_PART_BYTES];
};

struct image_stream_digests {
        char given[HASH_TEXT_SIZE], plain[HASH_TEXT_SIZE];
        uint64_t bytes;
};

/* at: offset in fd, -1 for a pipe. size: UINT64_MAX: until the end. name: for messages. ret stays
 * where it is until image_stream_close(). -CLOCHE_E_BAD_ARCHIVE. */
CLOCHE_MUST_CHECK int image_stream_open(struct image_stream *ret, int fd, int64_t at, uint64_t size, const char *name,
                                        struct cloche_err *e);
/* 1: the next member; 0: the end. */
CLOCHE_MUST_CHECK int image_stream_next(struct archive *archive, const char *name, struct archive_entry **ret,
                                        struct cloche_err *e);
/* Read until the end, padding included, and return the hashes. */
CLOCHE_MUST_CHECK int image_stream_finish(struct image_stream *stream, const char *name,
                                          struct image_stream_digests *ret, struct cloche_err *e);
void image_stream_close(struct image_stream *stream);
/* libarchive's last error. */
int image_stream_failed(struct archive *archive, const char *name, struct cloche_err *e);
/* Unpacked bytes that a source of this size may have. */
static inline uint64_t image_stream_bytes_max(uint64_t source_bytes)
{
        return STREAM_FREE_BYTES + STREAM_RATIO_MAX * source_bytes;
}

#endif
