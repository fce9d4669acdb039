/* libarchive(3), with the formats and filters that are taken: tar, zip; gzip, zstd, xz, bzip2. */
#ifndef CLOCHE_FILES_ARCHIVE_H
#define CLOCHE_FILES_ARCHIVE_H

#include <archive.h>
#include <archive_entry.h>
#include <cloche/cloche.h>

/* For reading from fd's beginning; -CLOCHE_E_BAD_ARCHIVE when it is none of these. */
CLOCHE_MUST_CHECK int archive_open(int fd, const char *path, struct archive **ret, struct cloche_err *e);
/* A tar.zst, from where fd is on, also of a pipe. */
CLOCHE_MUST_CHECK int archive_open_stream(int fd, struct archive **ret, struct cloche_err *e);
/* 1: *ret_entry is the next member, 0: there is none. -CLOCHE_E_BAD_ARCHIVE. */
CLOCHE_MUST_CHECK int archive_next(struct archive *archive, const char *path, struct archive_entry **ret_entry, struct cloche_err *e);
/* The next piece of the member's contents: 1, or 0 at its end. -CLOCHE_E_BAD_ARCHIVE. */
CLOCHE_MUST_CHECK int archive_piece(struct archive *archive, const char *path, const void **ret_data, size_t *ret_size, int64_t *ret_at, struct cloche_err *e);
/* What libarchive does not look at: the checksum of gzip. Of an archive that was read to its end; bytes_max: what it may be unpacked. -CLOCHE_E_BAD_ARCHIVE. */
CLOCHE_MUST_CHECK int archive_check_sum(struct archive *archive, int fd, const char *path, uint64_t bytes_max, struct cloche_err *e);
void archive_close(struct archive **archive);

/* "tar", "tar.gz", "tar.zst" or "zip", for writing to fd; format NULL: by the name. -CLOCHE_E_INVALID_ARGUMENT. */
CLOCHE_MUST_CHECK int archive_begin(int fd, const char *format, const char *name, struct archive **ret, int *ret_is_zip, struct cloche_err *e);

/* The next member that is written to a zip archive has this name: whether it is UTF-8 is said there. */
void archive_name(const char *name);

#define _cleanup_archive_ __attribute__((cleanup(archive_close)))

#endif
