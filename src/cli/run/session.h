/* An engine with one run, shared by the subcommands: signals cancel the run, and
 * privilege is dropped early. */
#ifndef CLOCHE_CLI_RUN_SESSION_H
#define CLOCHE_CLI_RUN_SESSION_H

#include "cli/options/options.h"

/* The engine's uid when root starts it. Not nobody's: other processes of nobody could access it. */
#define SESSION_ENGINE_UID 0x6ffffffeu

/* Print once which guards are missing. */
void session_notice(const struct cli_request *request, const cloche_engine *engine);
/* Start the engine, call session_notice, then drop this process' privilege: from here on it reads
 * data written by guests. */
int session_open(const struct cli_request *request, cloche_engine **ret, struct cloche_err *e);
/* The single steps, for several engines. */
int session_start(const struct cloche_engine_options *opt, cloche_engine **ret, struct cloche_err *e);
int session_drop_privilege(struct cloche_err *e);
/* Start a set-up. 0, or the exit code after its error was printed. */
int session_set_up(struct cli_request *request, cloche_engine *engine, const struct cloche_prefix_options *opt,
                   cloche_prefix **ret);
/* From now on SIGINT and SIGTERM end this process at once; the keeper cleans up. */
void session_end_by_signal(int at_once);
/* Run to the end. SIGINT and SIGTERM cancel; a run's terminal follows the size of ours. */
int cli_session_run(cloche_engine *engine, const struct cloche_run_options *opt, cloche_result **ret,
                    struct cloche_err *e);

/* Read the stored prefix while permitted, start the engine and the set-up, call run_in, and end
 * all. Returns the exit code. */
int session_whole(struct cli_request *request, int (*run_in)(cloche_engine *engine, struct cli_request *request));

#endif
