/* Enumerate the files that "path", "include" and "exclude" select. Shared by search and replace. */
#ifndef CLOCHE_BOX_FILES_SEARCH_SEARCH_H
#define CLOCHE_BOX_FILES_SEARCH_SEARCH_H

#include "box/files/request.h"
#include "box/files/tree/walk.h"

/* fd: open for reading; path: absolute, for answers; entry: its location. WALK_ON, WALK_STOP or
 * an error. */
typedef int (*search_take)(void *data, int fd, const char *path, const struct walk_entry *entry, struct cloche_err *e);

/* Visit regular files only; unreadable files below the path are skipped. */
CLOCHE_MUST_CHECK int search_each(struct files_request *q, search_take take, void *data, struct cloche_err *e);

#endif
