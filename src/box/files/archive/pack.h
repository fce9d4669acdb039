/* Save a box's files: trees as one tar.zst stream. */
#ifndef CLOCHE_BOX_FILES_ARCHIVE_PACK_H
#define CLOCHE_BOX_FILES_ARCHIVE_PACK_H

#include <cloche/error.h>

/* Pack the directories at these absolute paths (NULL ends the list) to fd. Members' names omit
 * the leading slash. Unreadable entries, pipes, sockets, devices and missing directories are
 * skipped, and so is everything on another device than the first directory, and of "/" the links
 * of the image. Files that change meanwhile are packed as found. */
CLOCHE_MUST_CHECK int pack_save(int fd, char *const *paths, struct cloche_err *e);
/* The same of "/" without directories that every box has for itself: for an image. */
CLOCHE_MUST_CHECK int pack_system(int fd, struct cloche_err *e);

/* An overlay's attribute, in which user.overlay. is the prefix of one that a user namespace
 * made. */
#define PACK_OPAQUE "user.overlay.opaque"

#endif
