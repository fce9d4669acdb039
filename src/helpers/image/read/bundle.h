/* The files of an OCI layout or a docker archive, found by name: in a directory, in place in a tar
 * file, or in a copy of a stream. */
#ifndef CLOCHE_HELPERS_IMAGE_READ_BUNDLE_H
#define CLOCHE_HELPERS_IMAGE_READ_BUNDLE_H

#include "helpers/image/work.h"
#include "stream.h"

#include "base/buf.h"

#include <cloche/error.h>

#define BUNDLE_PARTS_MAX 10000

struct bundle_part {
        char *name, *link; /* link: the name that it stands for; NULL: a file */
        int64_t at;
        uint64_t size;
};

struct bundle {
        int dir_fd, fd; /* borrowed; -EBADF: none. The directory, or the file that the parts are in */
        struct bundle_part *parts;
        size_t count, room;
};

/* A part, open for reading. */
struct bundle_file {
        int fd, own_fd; /* own_fd: to close */
        int64_t at;
        uint64_t size;
};

/* True if a member of this name begins an image's archive rather than a root file system. */
bool bundle_is_part(const char *path);

/* List a tar file without reading its contents. 1; 0: it is compressed, or its first member belongs
 * to no image. */
CLOCHE_MUST_CHECK int bundle_list(struct bundle *ret, int fd, const char *name, struct cloche_err *e);
/* Copy the parts of a stream to spool_fd. entry: the first member, already read. */
CLOCHE_MUST_CHECK int bundle_copy(struct bundle *ret, struct image_stream *stream, struct archive_entry *entry,
                                  int spool_fd, const char *name, struct work *work, struct cloche_err *e);
void bundle_done(struct bundle *bundle);

/* 1; 0: there is no such part. Close own_fd. */
CLOCHE_MUST_CHECK int bundle_open(const struct bundle *bundle, const char *name, struct bundle_file *ret,
                                  struct cloche_err *e);
/* Read a small part. 1; 0: there is none. -CLOCHE_E_BAD_ARCHIVE over max. */
CLOCHE_MUST_CHECK int bundle_read(const struct bundle *bundle, const char *name, size_t max, struct buf *ret,
                                  struct cloche_err *e);

#endif
