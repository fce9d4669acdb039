/* Links the files of a tree into a new one, by two threads: the second is made before the filter of
 * system calls, which forbids threads, and has every restriction of the first (confine.h). It takes
 * no memory and reads no byte of a file. */
#ifndef CLOCHE_HELPERS_IMAGE_TREE_LINKER_H
#define CLOCHE_HELPERS_IMAGE_TREE_LINKER_H

#include <cloche/error.h>

struct linker;

/* Make the thread; it lives until the process ends. There is one in a process. */
CLOCHE_MUST_CHECK int linker_start(struct linker **ret, struct cloche_err *e);
/* Note a file to link, by its path in both trees. */
CLOCHE_MUST_CHECK int linker_add(struct linker *l, const char *path, struct cloche_err *e);
/* Link all files, whose directories are in both trees. go_on: called between directories; an error
 * of it ends the work. */
CLOCHE_MUST_CHECK int linker_run(struct linker *l, int from_fd, int to_fd,
                                 int (*go_on)(void *data, struct cloche_err *e), void *data, struct cloche_err *e);
/* Forget all files. */
void linker_clear(struct linker *l);

#endif
