/* Set-ups of `cloche prefix create` for a daemon. */
#ifndef CLOCHE_CLI_SANDBOX_PREFIX_H
#define CLOCHE_CLI_SANDBOX_PREFIX_H

#include "sandbox-options.h"

#include "cli/options/options.h"

/* The name by which the daemon finds the prefix of --prefix, a new reference. A saved one is sent
 * first, and lasts as long as the connection; another name is one of the daemon's own. 0, or the
 * exit code after a line was printed. */
int sandbox_prefix(struct daemon_client *c, const struct cli_request *request, json_t **ret);

#endif
