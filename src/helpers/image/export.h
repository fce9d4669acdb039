/* Write an image as an OCI layout in a tar archive. */
#ifndef CLOCHE_HELPERS_IMAGE_EXPORT_H
#define CLOCHE_HELPERS_IMAGE_EXPORT_H

#include "helpers/image/store/store.h"

/* name: NAME[:TAG] or sha256:ID. out_fd: a file or a pipe. *ret: the answer. The same image gives
 * the same bytes. */
CLOCHE_MUST_CHECK int export_run(const struct store *store, const char *name, int out_fd, struct work *work,
                                 json_t **ret, struct cloche_err *e);

/* The layer of a tree; for export.c. */
CLOCHE_MUST_CHECK int export_layer(int tree_fd, bool keeps_ids, int out_fd, struct work *work, uint64_t expected,
                                   struct cloche_err *e);

#endif
