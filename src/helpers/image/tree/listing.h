/* The listing of a tree: one line for each entry, the contents by their hash. Its own hash is the
 * tree's digest (docs/decisions/0032). A line is
 *
 *     KIND MODE UID GID SIZE SHA256 PATH[ TARGET][ NAME=VALUE…]
 *
 * KIND is d, f or l; MODE octal; SHA256 "-" unless KIND is f; SIZE "-" of a directory. PATH, TARGET
 * and NAME have \xNN for bytes that are no printable ASCII and for the backslash; VALUE is
 * hexadecimal. Contents of a directory follow it, sorted by the bytes of their names. */
#ifndef CLOCHE_HELPERS_IMAGE_TREE_LISTING_H
#define CLOCHE_HELPERS_IMAGE_TREE_LISTING_H

#include "helpers/image/hash.h"
#include "helpers/image/work.h"

#include <jansson.h>
#include <stdbool.h>

struct listing {
        char hex[HASH_TEXT_SIZE];
        uint64_t entries, bytes;
};

/* The listing of another tree: a file that both trees have has the same line. */
struct listing_base {
        int listing_fd; /* -EBADF: none */
        ino_t *inodes;  /* owned: of all entries of that tree but directories, in its order */
        size_t count, room;
};

/* Write the listing of a tree to out_fd. keeps_ids: false: ids of the caller are listed as 0.
 * base: NULL: every file is read. */
CLOCHE_MUST_CHECK int listing_make(int tree_fd, bool keeps_ids, int out_fd, uint64_t bytes_expected,
                                   const struct listing_base *base, struct work *work, struct listing *ret,
                                   struct cloche_err *e);
/* Compare paths as they are in listings, in their order. */
int listing_compare_paths(const char *one, const char *other);
/* Compare two listings, of which the first is the one at the import. *ret: a list of {path, change,
 * was, is}, of at most LISTING_CHANGES_MAX; *ret_count: the number of all. */
#define LISTING_CHANGES_MAX 1000
CLOCHE_MUST_CHECK int listing_compare(int was_fd, int is_fd, json_t **ret, uint64_t *ret_count, struct cloche_err *e);
/* Visit the path of each file that both listings have with equal facts and contents, in their
 * order. */
typedef int (*listing_visit)(void *data, const char *path, struct cloche_err *e);
CLOCHE_MUST_CHECK int listing_common(int one_fd, int other_fd, listing_visit visit, void *data, struct cloche_err *e);

#endif
