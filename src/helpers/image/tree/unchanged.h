/* The archive of a sandbox that changes nothing. */
#ifndef CLOCHE_HELPERS_IMAGE_TREE_UNCHANGED_H
#define CLOCHE_HELPERS_IMAGE_TREE_UNCHANGED_H

#include "helpers/image/read/change.h"

/* Read an archive until its first member that would change the tree below or that only a commit
 * can judge. 1: there is none; 0; or an error of the archive. Times are no change: the digest of a
 * tree has none. name: of the archive, for messages. */
int image_tree_is_unchanged(struct archive *archive, int base_fd, bool keeps_ids, const struct changes *changes,
                            const char *name, struct cloche_err *e);

#endif
