/* The content type of a file. Pure. */
#ifndef CLOCHE_BOX_FILES_TREE_CONTENTS_H
#define CLOCHE_BOX_FILES_TREE_CONTENTS_H

#include <stddef.h>

/* Detect the type by the first bytes, then by the name; otherwise text/plain for UTF-8 and
 * application/octet-stream. is_text: the bytes are UTF-8. */
const char *contents_type(const char *name, const void *data, size_t size, int is_text);

#endif
