/* Files of mounted directories, for a process that gave up its privilege: a child that kept the user's own rights opens them, to be
 * read, beneath the directories it was told of before. Nothing is followed out of them. */
#ifndef CLOCHE_CLI_HOST_FILES_H
#define CLOCHE_CLI_HOST_FILES_H

#include "errand.h"

#include <stddef.h>

struct host_files {
        const char *const *sources; /* borrowed */
        size_t count;
};

/* 0, or a line was printed. */
int host_files_prepare(struct errand *errand, struct host_files *files);
/* A regular file, or -errno; -EISDIR and the like for what is none. */
int host_files_open(struct errand *errand, size_t source, const char *path);

#endif
