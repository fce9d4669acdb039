/* Check one member of an archive on its own: its path and its link. Pure. */
#ifndef CLOCHE_BOX_FILES_ARCHIVE_MEMBER_H
#define CLOCHE_BOX_FILES_ARCHIVE_MEMBER_H

#include <cloche/error.h>
#include <stddef.h>

#define MEMBER_PATH_MAX 4095
#define MEMBER_NAME_MAX 255

/* Normalize given into path (room for MEMBER_PATH_MAX + 1): removes "./", "//" and trailing
 * slashes; "" is the top. -CLOCHE_E_BAD_ARCHIVE: absolute, with "..", or too long. */
CLOCHE_MUST_CHECK int member_path(const char *given, char *path, struct cloche_err *e);
/* Check the target of a symbolic link at path: helpers/fs/rules/link.h. -CLOCHE_E_BAD_ARCHIVE. */
CLOCHE_MUST_CHECK int member_check_link(const char *path, const char *target, struct cloche_err *e);

#endif
