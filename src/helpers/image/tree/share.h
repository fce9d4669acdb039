/* Trees share the files that they have in common (docs/decisions/0039). */
#ifndef CLOCHE_HELPERS_IMAGE_TREE_SHARE_H
#define CLOCHE_HELPERS_IMAGE_TREE_SHARE_H

#include "helpers/image/store/store.h"

#include <sys/types.h>

/* Trees that a new one is compared with, those used last first: each costs a walk through its
 * listing. */
#define SHARE_TREES_MAX 32

/* Replace files of the new tree in an import's directory, which has its listing too, by
 * links to the same files of trees that are there: same path, owner, mode, time, attributes
 * and bytes. hex: its digest. */
CLOCHE_MUST_CHECK int share_files(const struct store *store, const struct incoming *incoming, const char *hex,
                                  struct work *work, struct cloche_err *e);

/* Bytes of a tree's files. */
struct tree_usage {
        char hex[HASH_TEXT_SIZE];
        uint64_t bytes;      /* each file once */
        uint64_t own_bytes;  /* of files that no other tree has */
        uint64_t last_bytes; /* of files that no later row has: freed once all rows until this one are removed */
};

/* Measure trees whose hex is set. A tree that is missing has no bytes. */
CLOCHE_MUST_CHECK int share_measure(const struct store *store, struct tree_usage *rows, size_t count,
                                    struct cloche_err *e);

#endif
