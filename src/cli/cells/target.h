/* The sandbox and context in which cells run. A sandbox or context that the caller does not name is
 * created here and deleted at the end, so signals are blocked; requests read them meanwhile. */
#ifndef CLOCHE_CLI_CELLS_TARGET_H
#define CLOCHE_CLI_CELLS_TARGET_H

#include "cli/sandbox/daemon-client.h"
#include "cli/sandbox/sandbox-options.h"

#include <signal.h>

struct cells_target {
        struct daemon_client *client;       /* borrowed */
        char *sandbox, *context, *language; /* owned; language: the context's */
        int owns_sandbox, owns_context;
        sigset_t signals; /* mask before blocking */
};

/* options: the sandbox, or the image and the packages of the one that is made. context,
 * language: borrowed, NULL: not given. 0, or the exit code after a line was printed. Call
 * cells_target_close() in either case. */
int cells_target_open(struct cells_target *target, struct daemon_client *client, const struct sandbox_options *options,
                      const char *context, const char *language);
/* Delete the created ones. 0, or the exit code. */
int cells_target_close(struct cells_target *target);

#endif
