/* Path text without file system access. Pure. */
#ifndef CLOCHE_BOX_FILES_TREE_PATH_H
#define CLOCHE_BOX_FILES_TREE_PATH_H

#include <cloche/error.h>

#define PATH_BYTES_MAX 4095

/* Make given absolute; a relative path is below directory. Removes "//", "." and trailing slashes
 * but keeps "..", because links decide its meaning. *ret is owned by the caller.
 * -CLOCHE_E_INVALID_ARGUMENT: empty, or over PATH_BYTES_MAX. */
CLOCHE_MUST_CHECK int path_absolute(const char *directory, const char *given, char **ret, struct cloche_err *e);
/* Join directory and name with one slash; owned by the caller, NULL when out of memory. name "" is
 * the directory itself. */
char *path_join(const char *directory, const char *name);
/* The part after the last slash. */
const char *path_name(const char *path);
/* The parent directory of an absolute path; owned by the caller, NULL when out of memory. */
char *path_parent(const char *path);
/* True if a name is one of our temporary files. */
int path_is_temporary(const char *name);

#define PATH_TEMPORARY_PREFIX ".cloche-"
#define PATH_TEMPORARY_DIGITS 16

#endif
