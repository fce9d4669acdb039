/* Copy and remove whole trees. Links are never followed. */
#ifndef CLOCHE_BOX_FILES_TREE_TREE_H
#define CLOCHE_BOX_FILES_TREE_TREE_H

#include <cloche/error.h>
#include <sys/stat.h>

/* Copy from to to, a path that is free or is replaced; directories are merged. Modes, times, links
 * and holes are kept. A failed copy is removed if to did not exist before. */
CLOCHE_MUST_CHECK int tree_copy(const char *from, const char *to, int overwrites, struct cloche_err *e);
/* Remove path and its contents; adds to count. */
CLOCHE_MUST_CHECK int tree_remove(const char *path, uint64_t *count, struct cloche_err *e);
/* Remove the contents of a directory, not the directory. */
CLOCHE_MUST_CHECK int tree_empty(const char *path, uint64_t *count, struct cloche_err *e);
/* -CLOCHE_E_FILE_DENIED for the root, directory, /tmp, /home and mount points. */
CLOCHE_MUST_CHECK int tree_check_removable(const char *path, const char *directory, struct cloche_err *e);
/* -CLOCHE_E_INVALID_ARGUMENT if to equals or lies below the entry that status describes. */
CLOCHE_MUST_CHECK int tree_check_outside(const struct stat *status, const char *from, const char *to,
                                         struct cloche_err *e);

#endif
