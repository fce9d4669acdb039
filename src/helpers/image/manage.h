/* Lists, checks and removal of images. Errors of names: -CLOCHE_E_NOT_FOUND. */
#ifndef CLOCHE_HELPERS_IMAGE_MANAGE_H
#define CLOCHE_HELPERS_IMAGE_MANAGE_H

#include "helpers/image/store/store.h"

/* with_own: also the bytes that only this image has, for which all trees are walked. */
CLOCHE_MUST_CHECK int manage_list(const struct store *store, bool with_own, json_t **ret, struct cloche_err *e);
CLOCHE_MUST_CHECK int manage_inspect(const struct store *store, const char *name, json_t **ret, struct cloche_err *e);
/* Add its settings to a record of an earlier version, which has none. -CLOCHE_E_NOT_FOUND,
 * _STATE: the tree is gone, or is being removed. */
CLOCHE_MUST_CHECK int manage_add_settings(const struct store *store, json_t *record, struct cloche_err *e);
/* Find the tree of a name, and the environment, directory and user of its image. */
CLOCHE_MUST_CHECK int manage_resolve(const struct store *store, const char *name, json_t **ret, struct cloche_err *e);
/* Compare the tree with its listing, and that with the digest. */
CLOCHE_MUST_CHECK int manage_verify(const struct store *store, const char *name, struct work *work, json_t **ret,
                                    struct cloche_err *e);
/* Remove a name, and with the last one its image and tree. -CLOCHE_E_STATE: a box uses the tree. */
CLOCHE_MUST_CHECK int manage_remove(const struct store *store, const char *name, json_t **ret, struct cloche_err *e);
/* Remove images without a name, trees without an image, and leftovers of killed imports;
 * then images that no box uses, the least recently used one first, until the trees of
 * all have at most keep_bytes. pinned: an object with the names of trees (sha256-HEX)
 * that stay too; NULL: none. */
CLOCHE_MUST_CHECK int manage_prune(const struct store *store, uint64_t keep_bytes, const json_t *pinned, json_t **ret,
                                   struct cloche_err *e);

#endif
