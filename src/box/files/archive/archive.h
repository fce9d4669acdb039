/* libarchive(3), limited to the supported formats and filters: tar, zip; gzip, zstd, xz, bzip2. */
#ifndef CLOCHE_BOX_FILES_ARCHIVE_ARCHIVE_H
#define CLOCHE_BOX_FILES_ARCHIVE_ARCHIVE_H

#include <archive.h>
#include <archive_entry.h>
#include <cloche/error.h>

/* Open for reading from fd's beginning; -CLOCHE_E_BAD_ARCHIVE for other formats. */
CLOCHE_MUST_CHECK int archive_open(int fd, const char *path, struct archive **ret, struct cloche_err *e);
/* Open a tar.zst at fd's position; fd may be a pipe. */
CLOCHE_MUST_CHECK int archive_open_stream(int fd, struct archive **ret, struct cloche_err *e);
/* 1: *ret_entry is the next member; 0: end of the archive. -CLOCHE_E_BAD_ARCHIVE. */
CLOCHE_MUST_CHECK int archive_next(struct archive *archive, const char *path, struct archive_entry **ret_entry,
                                   struct cloche_err *e);
/* Read the next piece of the member's contents: 1, or 0 at its end. -CLOCHE_E_BAD_ARCHIVE. */
CLOCHE_MUST_CHECK int archive_piece(struct archive *archive, const char *path, const void **ret_data, size_t *ret_size,
                                    int64_t *ret_at, struct cloche_err *e);
/* Check the checksum of gzip, which libarchive ignores. Call it after the archive was read to its
 * end. bytes_max: limit of unpacked bytes. -CLOCHE_E_BAD_ARCHIVE. */
CLOCHE_MUST_CHECK int archive_check_sum(struct archive *archive, int fd, const char *path, uint64_t bytes_max,
                                        struct cloche_err *e);
void archive_close(struct archive **archive);

/* Begin writing "tar", "tar.gz", "tar.zst" or "zip" to fd; format NULL: by the name.
 * -CLOCHE_E_INVALID_ARGUMENT. */
CLOCHE_MUST_CHECK int archive_begin(int fd, const char *format, const char *name, struct archive **ret, int *ret_is_zip,
                                    struct cloche_err *e);

/* Set the name of the next member of a zip archive; its header flags the name as UTF-8 or not. */
void archive_name(const char *name);

#define _cleanup_archive_ __attribute__((cleanup(archive_close)))

#endif
