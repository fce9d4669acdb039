/* The image store of a daemon, as sandboxes use it; their data is the daemon. */
#ifndef CLOCHE_DAEMON_IMAGES_COMMIT_H
#define CLOCHE_DAEMON_IMAGES_COMMIT_H

#include "sandbox/core/sandbox.h"

extern const struct sandbox_images images_of_sandboxes;

#endif
