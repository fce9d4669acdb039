/* A call in a daemon instead of in an engine of this command. */
#ifndef CLOCHE_CLI_SANDBOX_CALL_H
#define CLOCHE_CLI_SANDBOX_CALL_H

#include "cli/options/options.h"

/* Call the function of the request in the daemon of --socket. 0: *ret is the Result in text form, a
 * new reference; otherwise the exit code after a line was printed. */
int daemon_call_function(const struct cli_request *request, json_t **ret);

#endif
