/* The channel: requests in, answers and events out, until it closes. */
#ifndef CLOCHE_BOX_FILES_SERVE_H
#define CLOCHE_BOX_FILES_SERVE_H

#include <cloche/error.h>

/* directory: base of relative paths. 0: the channel has closed; otherwise it failed. */
CLOCHE_MUST_CHECK int serve(int channel_fd, const char *directory, struct cloche_err *e);

#endif
