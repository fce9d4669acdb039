/* Steps of builds whose result is in the store: an object in builds.json, of keys with the ids
 * of images. A key is never removed before its image, so an image that is missing is none. */
#ifndef CLOCHE_HELPERS_IMAGE_STORE_BUILDS_H
#define CLOCHE_HELPERS_IMAGE_STORE_BUILDS_H

#include "store.h"

/* The key in the store of a caller's key: callers share no steps.
 * -CLOCHE_E_INVALID_ARGUMENT: it is no digest. */
CLOCHE_MUST_CHECK int builds_key(int64_t principal, const char *given, char ret[HASH_TEXT_SIZE], struct cloche_err *e);
/* Call it with the lock of the store. */
CLOCHE_MUST_CHECK int builds_add(const struct store *store, const char *key, const char *id, struct cloche_err *e);
/* Find the image that a step made. -CLOCHE_E_NOT_FOUND: none did, or it was removed. *ret: its
 * record. */
CLOCHE_MUST_CHECK int builds_find(const struct store *store, const char *key, char ret_id[HASH_TEXT_SIZE], json_t **ret,
                                  struct cloche_err *e);
/* Remove keys whose image is not among the records. Call it with the lock of the store. */
CLOCHE_MUST_CHECK int builds_sweep(const struct store *store, const json_t *records, struct cloche_err *e);

#endif
