/* The rights of this program: the store and the source, and for root the owners of files. */
#ifndef CLOCHE_HELPERS_IMAGE_CONFINE_H
#define CLOCHE_HELPERS_IMAGE_CONFINE_H

#include <cloche/error.h>
#include <stdbool.h>

struct confinement {
        bool keeps_ids; /* root's store: files have the owners of their image */
        bool is_reader; /* nothing is written */
};

/* Drop capabilities, for good: all of them, or with keeps_ids all but those for files of others. */
CLOCHE_MUST_CHECK int confine_capabilities(const struct confinement *about, struct cloche_err *e);
/* Give up the rest of the file system, for good. source_fd: a directory to read; -EBADF: none.
 * *ret_abi: of Landlock. -CLOCHE_E_GUARD_MISSING. Threads that are made from then on have this and
 * the above. */
CLOCHE_MUST_CHECK int confine_files(const struct confinement *about, int store_fd, int source_fd, int *ret_abi,
                                    struct cloche_err *e);
/* Give up most system calls in all threads, for good; the last step, for it forbids the others. */
CLOCHE_MUST_CHECK int confine_calls(const struct confinement *about, struct cloche_err *e);

#endif
