/* Saving a box's files: trees as one tar.zst, a stream. */
#ifndef CLOCHE_FILES_PACK_H
#define CLOCHE_FILES_PACK_H

#include <cloche/cloche.h>

/* The directories of these absolute paths, until NULL, to fd; members' names are without the slash at the beginning. What cannot be read, or is a pipe, socket
 * or device, is passed over, and so is a directory that is not there, and what stands on another device than the first directory; of "/" also the links of the image.
 * What changes meanwhile is packed as it is met. */
CLOCHE_MUST_CHECK int pack_save(int fd, char *const *paths, struct cloche_err *e);

#endif
