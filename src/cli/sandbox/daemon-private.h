/* A daemon of this process alone: it ends, with its sandboxes, when the connection closes. */
#ifndef CLOCHE_CLI_SANDBOX_DAEMON_PRIVATE_H
#define CLOCHE_CLI_SANDBOX_DAEMON_PRIVATE_H

#include "daemon-client.h"

#include <sys/types.h>

struct daemon_private {
        pid_t pid;
        int log_fd;
};

/* options: more words of its command line; NULL ends them. */
CLOCHE_MUST_CHECK int daemon_private_start(const char *const *options, struct daemon_private *ret,
                                           struct daemon_client *ret_client, struct cloche_err *e);
/* Close the connection, and wait until all that it had is gone. */
void daemon_private_stop(struct daemon_private *daemon, struct daemon_client *client);

#endif
