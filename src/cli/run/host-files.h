/* Open files of mounted directories for an unprivileged process. A child that kept the user's
 * rights opens them for reading, beneath directories fixed in advance. No link is followed out of
 * them. */
#ifndef CLOCHE_CLI_RUN_HOST_FILES_H
#define CLOCHE_CLI_RUN_HOST_FILES_H

#include "helper.h"

#include <stddef.h>

struct host_files {
        const char *const *sources; /* borrowed */
        size_t count;
};

/* 0, or a line was printed. */
int host_files_prepare(struct privileged_helper *helper, struct host_files *files);
/* Open a regular file, or return -errno; -EISDIR and the like for other kinds. */
int host_files_open(struct privileged_helper *helper, size_t source, const char *path);

#endif
