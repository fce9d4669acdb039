/* The image store: a directory whose parts README.md describes. Everything is opened beneath its
 * descriptor. */
#ifndef CLOCHE_HELPERS_IMAGE_STORE_STORE_H
#define CLOCHE_HELPERS_IMAGE_STORE_STORE_H

#include "helpers/image/hash.h"
#include "helpers/image/work.h"

#include <cloche/error.h>
#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define STORE_TREE_PREFIX "sha256-"
#define STORE_NAME_MAX 128 /* of NAME and of TAG */
#define STORE_REFERENCE_SIZE (2 * STORE_NAME_MAX + 2)

#define STORE_TREE_NAME_SIZE (sizeof(STORE_TREE_PREFIX) + HASH_TEXT_SIZE + 8)
#define STORE_LISTING ".list" /* the ending of a tree's listing, beside the tree */

struct store {
        int fd; /* borrowed */
        int trees_fd, images_fd, incoming_fd;
        bool keeps_ids; /* entries have the ids of the image; otherwise all are the store's owner's */
};

/* A directory of one import, removed with all that is in it unless its parts were renamed. */
struct incoming {
        int fd; /* locked as long as the import lives */
        char name[17];
};

/* The folders are made if they are missing; a reader has -EBADF instead. -CLOCHE_E_FORBIDDEN:
 * others may write to the store. */
CLOCHE_MUST_CHECK int store_open(struct store *ret, int fd, bool keeps_ids, bool is_reader, struct cloche_err *e);
/* For a reader that lives on: open folders that the first import has made since. */
CLOCHE_MUST_CHECK int store_refresh(struct store *store, struct cloche_err *e);
void store_close(struct store *store);

/* Wait for the lock of the store, under which names, images and trees change. *ret: close it. */
CLOCHE_MUST_CHECK int store_lock(const struct store *store, int *ret, struct cloche_err *e);
/* -CLOCHE_E_STATE: a box uses it. *ret: the tree, locked. */
CLOCHE_MUST_CHECK int store_lock_tree(const struct store *store, const char *hex, bool for_removal, int *ret,
                                      struct cloche_err *e);

/* The time of a tree's last use is that of its listing: the keeper sets it when it makes a box.
 * {0}: there is no listing. */
struct timespec store_tree_used(const struct store *store, const char *hex);

/* Write a file beside, flush it, and rename it. */
CLOCHE_MUST_CHECK int store_write(int dir_fd, const char *name, const char *text, size_t size, struct cloche_err *e);
CLOCHE_MUST_CHECK int store_write_json(int dir_fd, const char *name, const json_t *json, struct cloche_err *e);
/* *ret: NULL if there is no such file. */
CLOCHE_MUST_CHECK int store_read_json(int dir_fd, const char *name, json_t **ret, struct cloche_err *e);

/* Begin a directory of an import. Call it without the lock of the store. */
CLOCHE_MUST_CHECK int incoming_begin(const struct store *store, struct incoming *ret, struct cloche_err *e);
/* Remove it; errors leave it to prune. */
void incoming_end(const struct store *store, struct incoming *incoming);
/* Remove those whose import was killed; *ret: their number. */
CLOCHE_MUST_CHECK int incoming_sweep(const struct store *store, uint64_t *ret, struct cloche_err *e);

/* Open a directory anew, to list it. NULL: errno says why. */
DIR *store_list(int dir_fd);
/* Remove dir_fd/name with all that is in it. */
CLOCHE_MUST_CHECK int store_remove_tree(int dir_fd, const char *name, struct cloche_err *e);

/* The name of a tree in trees_fd, or with STORE_LISTING of its listing. */
static inline void store_tree_name(char ret[STORE_TREE_NAME_SIZE], const char *hex, const char *ending)
{
        snprintf(ret, STORE_TREE_NAME_SIZE, STORE_TREE_PREFIX "%.64s%.7s", hex, ending);
}

#endif
