/* Images of the store and their names. */
#ifndef CLOCHE_HELPERS_IMAGE_STORE_RECORD_H
#define CLOCHE_HELPERS_IMAGE_STORE_RECORD_H

#include "store.h"

/* Complete NAME[:TAG] by the tag "latest". -CLOCHE_E_INVALID_ARGUMENT. */
CLOCHE_MUST_CHECK int reference_read(const char *text, char ret[STORE_REFERENCE_SIZE], struct cloche_err *e);

/* An object of names, each with the id of its image. */
CLOCHE_MUST_CHECK int names_load(const struct store *store, json_t **ret, struct cloche_err *e);
CLOCHE_MUST_CHECK int names_save(const struct store *store, const json_t *names, struct cloche_err *e);

/* Hash the members that make an image: tree, config, architecture, os. */
CLOCHE_MUST_CHECK int record_identify(const json_t *record, char ret[HASH_TEXT_SIZE], struct cloche_err *e);
CLOCHE_MUST_CHECK int record_save(const struct store *store, const char *id, const json_t *record,
                                  struct cloche_err *e);
/* -CLOCHE_E_NOT_FOUND. */
CLOCHE_MUST_CHECK int record_load(const struct store *store, const char *id, json_t **ret, struct cloche_err *e);
/* *ret: an object of all records, by id. */
CLOCHE_MUST_CHECK int record_load_all(const struct store *store, json_t **ret, struct cloche_err *e);
CLOCHE_MUST_CHECK int record_remove(const struct store *store, const char *id, struct cloche_err *e);
/* The 64 digits of a record's tree; NULL: the record is damaged. */
const char *record_tree(const json_t *record);
bool record_has_tree(const json_t *records, const char *tree, const char *but_id);

/* Find the image of NAME[:TAG], or of a digest. id: its id; reference: the name, "" for an id.
 * -CLOCHE_E_NOT_FOUND. */
CLOCHE_MUST_CHECK int record_find(const struct store *store, const char *text, char id[HASH_TEXT_SIZE],
                                  char reference[STORE_REFERENCE_SIZE], json_t **ret, struct cloche_err *e);

#endif
