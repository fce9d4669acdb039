/* An engine with one run in it, as every subcommand wants it: signals cancel, privilege goes early. */
#ifndef CLOCHE_CLI_SESSION_H
#define CLOCHE_CLI_SESSION_H

#include "options.h"

/* Of the engine as root starts it: not nobody's, which others run as, and who could then reach into it. */
#define SESSION_ENGINE_UID 0x6ffffffeu

/* Print once which guards are missing. */
void session_notice(const struct cli_request *request, const cloche_engine *engine);
/* Start the engine, call session_notice, then give up this process' own privilege: from here on it reads what guests write. */
int session_open(const struct cli_request *request, cloche_engine **ret, struct cloche_err *e);
/* Several engines, before that. */
int session_start(const struct cloche_engine_options *opt, cloche_engine **ret, struct cloche_err *e);
int session_drop_privilege(struct cloche_err *e);
/* Bring a set-up up. 0, or the exit code: what it threw, or why it cannot be forked, was printed. */
int session_set_up(cloche_engine *engine, const struct cloche_prefix_options *opt, cloche_prefix **ret);
/* From now on SIGINT and SIGTERM end this process at once; the keeper takes everything down. */
void session_end_by_signal(int at_once);
/* Run to the end; SIGINT and SIGTERM cancel; the run's terminal, if it has one, has the size of ours. */
int session_run(cloche_engine *engine, const struct cloche_run_options *opt, cloche_result **ret, struct cloche_err *e);

/* The stored prefix is read while we may, the engine started, the set-up brought up, run_in called, all ended. The exit code. */
int session_whole(struct cli_request *request, int (*run_in)(cloche_engine *engine, struct cli_request *request));

#endif
