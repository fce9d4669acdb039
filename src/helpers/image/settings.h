/* The meaning of an image's configuration in a box: {env, workingDirectory?, user?, notes}
 * (README.md). */
#ifndef CLOCHE_HELPERS_IMAGE_SETTINGS_H
#define CLOCHE_HELPERS_IMAGE_SETTINGS_H

#include <cloche/error.h>
#include <jansson.h>
#include <stdbool.h>

/* -CLOCHE_E_BAD_ARCHIVE: the configuration has too many variables. */
CLOCHE_MUST_CHECK int settings_check(const json_t *config, struct cloche_err *e);
/* Make the working directory of a new tree if no part of its path is a link.
 * -CLOCHE_E_BAD_ARCHIVE: the configuration has too many variables. */
CLOCHE_MUST_CHECK int settings_prepare(int tree_fd, const json_t *config, struct cloche_err *e);
/* keeps_ids: modes count for others, since the box's user owns nothing in the tree. *ret: an
 * object. */
CLOCHE_MUST_CHECK int settings_make(int tree_fd, bool keeps_ids, const json_t *config, json_t **ret,
                                    struct cloche_err *e);

#endif
