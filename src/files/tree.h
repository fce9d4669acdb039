/* Whole trees: copied, removed. Links are never followed. */
#ifndef CLOCHE_FILES_TREE_H
#define CLOCHE_FILES_TREE_H

#include <cloche/cloche.h>
#include <sys/stat.h>

/* from to to, which is a path that is not there, or is replaced; directories are joined. Modes, times, links and holes stay. What was made is removed
 * when it fails and to was not there. */
CLOCHE_MUST_CHECK int tree_copy(const char *from, const char *to, int overwrites, struct cloche_err *e);
/* With all that is in it; count: added to. */
CLOCHE_MUST_CHECK int tree_remove(const char *path, uint64_t *count, struct cloche_err *e);
/* What is in a directory, not itself. */
CLOCHE_MUST_CHECK int tree_empty(const char *path, uint64_t *count, struct cloche_err *e);
/* -CLOCHE_E_FILE_DENIED for the root, directory, /tmp, /home and whatever is mounted. */
CLOCHE_MUST_CHECK int tree_check_removable(const char *path, const char *directory, struct cloche_err *e);
/* -CLOCHE_E_INVALID_ARGUMENT when to is in what status describes, or is it. */
CLOCHE_MUST_CHECK int tree_check_outside(const struct stat *status, const char *from, const char *to, struct cloche_err *e);
/* What is in fd, from its beginning to its end; holes stay holes where size says how long it is. 0 or -errno. */
int tree_copy_data(int from_fd, int to_fd);

#endif
