/* "An entry" of spec/sandbox.md. */
#ifndef CLOCHE_BOX_FILES_TREE_ENTRY_H
#define CLOCHE_BOX_FILES_TREE_ENTRY_H

#include "box/files/request.h"

/* "file", "directory", "symlink" or "other". */
const char *entry_type(mode_t mode);
/* Return a new reference. name is in dir_fd; path is absolute. NULL when out of memory. */
json_t *entry_describe(struct files_request *q, int dir_fd, const char *name, const char *path, const char *relative,
                       const struct stat *status);

#endif
