/* Links the files of a tree into a new one, by two threads: the second is made before the filter of
 * system calls, which forbids threads, and has every restriction of the first (confine.h). It takes
 * no memory and reads no byte of a file. */
#ifndef CLOCHE_HELPERS_IMAGE_TREE_LINKER_H
#define CLOCHE_HELPERS_IMAGE_TREE_LINKER_H

#include <cloche/error.h>

struct linker;

/* Make the thread; it lives until the process ends. There is one in a process. */
CLOCHE_MUST_CHECK int linker_start(struct linker **ret, struct cloche_err *e);
/* Link name from one directory into another, now or until linker_finish(). The directories are
 * borrowed until this returns; path: of the file, for messages. */
CLOCHE_MUST_CHECK int linker_add(struct linker *l, int from_fd, int to_fd, const char *name, const char *path,
                                 struct cloche_err *e);
/* The next file is of other directories. */
CLOCHE_MUST_CHECK int linker_turn(struct linker *l, struct cloche_err *e);
/* Wait until every file is linked. After an error of any of these, too: the directories are in
 * use until then. */
CLOCHE_MUST_CHECK int linker_finish(struct linker *l, struct cloche_err *e);

#endif
