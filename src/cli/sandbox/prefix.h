/* Set-ups of `cloche prefix create` for a daemon. */
#ifndef CLOCHE_CLI_SANDBOX_PREFIX_H
#define CLOCHE_CLI_SANDBOX_PREFIX_H

#include "sandbox-options.h"

#include "cli/options/options.h"

/* The name by which the daemon finds the prefix of --prefix, a new reference. A saved one is sent
 * first, and lasts as long as the connection; another name is one of the daemon's own. 0, or the
 * exit code after a line was printed. */
int sandbox_prefix(struct daemon_client *c, const struct cli_request *request, json_t **ret);
/* The same for a call, which has no sandbox. */
int sandbox_prefix_of_call(struct daemon_client *c, const struct cli_request *request, json_t **ret);

/* Bytes, and files by path, of a request, whose contents are appended to its attachments. NULL:
 * they have no room, or a path is not UTF-8. */
json_t *prefix_bytes(const char *data, size_t size, struct buf *attachments);
json_t *prefix_files(const struct cloche_file *rows, size_t count, struct buf *attachments);

#endif
