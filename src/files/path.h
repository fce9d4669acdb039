/* The text of paths; nothing is looked up. Pure. */
#ifndef CLOCHE_FILES_PATH_H
#define CLOCHE_FILES_PATH_H

#include <cloche/cloche.h>

#define PATH_BYTES_MAX 4095

/* given, below directory when it is relative; "//", "." and slashes at the end are gone, ".." stays, for links decide what it means. *ret is
 * owned by the caller. -CLOCHE_E_INVALID_ARGUMENT: empty, or over PATH_BYTES_MAX. */
CLOCHE_MUST_CHECK int path_absolute(const char *directory, const char *given, char **ret, struct cloche_err *e);
/* directory and name with one slash between them; owned by the caller, NULL without memory. name "" is the directory itself. */
char *path_join(const char *directory, const char *name);
/* What is behind the last slash. */
const char *path_name(const char *path);
/* The directory an absolute path is in; owned by the caller, NULL without memory. */
char *path_parent(const char *path);
/* Whether a name is one of temporary files of ours. */
int path_is_temporary(const char *name);

#define PATH_TEMPORARY_PREFIX ".cloche-"
#define PATH_TEMPORARY_DIGITS 16

#endif
