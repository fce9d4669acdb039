/* Errors of the engine and the daemon name a member of the request; users of the CLI set it by
 * an option. */
#ifndef CLOCHE_CLI_OPTIONS_MEMBERS_H
#define CLOCHE_CLI_OPTIONS_MEMBERS_H

#include "options.h"

#define MEMBERS_TEXT_BYTES 320

/* The message of a refused run, with the option in place of a member at its start, in ret or
 * unchanged. */
const char *members_of_run(const struct cli_request *request, const char *message, char ret[MEMBERS_TEXT_BYTES]);
/* The same for a request to the daemon. */
const char *members_of_sandbox(const char *message, char ret[MEMBERS_TEXT_BYTES]);

#endif
