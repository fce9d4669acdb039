/* An engine with one run in it, as every subcommand wants it: signals cancel, privilege goes early. */
#ifndef CLOCHE_CLI_SESSION_H
#define CLOCHE_CLI_SESSION_H

#include "options.h"

/* Start the engine, then give up this process' own privilege: from here on it reads what guests write. */
int session_open(const struct cli_request *request, cloche_engine **ret, struct cloche_err *e);
/* Run to the end; SIGINT and SIGTERM cancel. */
int session_run(cloche_engine *engine, const struct cloche_run_options *opt, cloche_result **ret, struct cloche_err *e);

#endif
