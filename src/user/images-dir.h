/* The image store of the user. Runs in: the CLI, cloched; as the user who started them. */
#ifndef CLOCHE_USER_IMAGES_DIR_H
#define CLOCHE_USER_IMAGES_DIR_H

#include <stddef.h>

#define IMAGES_DIR_OF_ROOT "/var/lib/cloche/images"

/* root's, or $XDG_DATA_HOME/cloche/images, or ~/.local/share/cloche/images. It need not exist.
 * NULL: no home directory is known. */
const char *images_dir_find(char *ret, size_t size);

#endif
