/* cloche run: run a script with its streams, arguments and environment passed through.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "cli/options/options.h"
#include "cli/output/outcome.h"
#include "cli/output/print.h"
#include "cli/output/signals.h"
#include "cli/run/session.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Timeout for the last message, in case the reader has gone. */
#define PATIENCE_MS 1000
#define UNREAD (128 + SIGPIPE)

static void print_result(const cloche_result *result)
{
        char line[PIPE_BUF];
        int n = snprintf(line, sizeof(line), "cloche: %s: %s: %s\n", cloche_status_name(cloche_result_status(result)),
                         cloche_result_error_type(result), cloche_result_error_message(result));

        if (n > 0)
                (void)print_at_once(line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1, PATIENCE_MS);
}

static int is_own_status(const cloche_result *result)
{
        return cloche_result_status(result) == CLOCHE_STATUS_ERROR &&
               strcmp(cloche_result_error_type(result), "ExitStatus") == 0;
}

/* Print warnings, and connections that network rules refused. 1: output was lost. */
static int print_notices(const struct cli_request *request, const cloche_result *result)
{
        char *text = NULL;
        size_t size = 0;
        int is_lost = 0;
        FILE *out = open_memstream(&text, &size);

        if (out) {
                is_lost = outcome_print_notes(out, result, request->denials);
                if (fclose(out) == 0)
                        (void)print_at_once(text, size, PATIENCE_MS);
        }
        free(text);
        return is_lost;
}

/* As in a shell, print nothing for the script's own exit status, Ctrl-C or a closed reader. */
static int is_quiet(const cloche_result *result)
{
        int code = cloche_result_exit_code(result);

        return cloche_result_status(result) == CLOCHE_STATUS_SUCCESS || is_own_status(result) || code == UNREAD ||
               (code == SIGNALS_INTERRUPTED && signals_is_interrupted(code));
}

static int report(struct cli_request *request, cloche_result *result)
{
        int code = cloche_result_exit_code(result);
        struct outcome outcome;
        int bad = outcome_settle(request, result, &outcome);

        bad |= print_notices(request, result);
        if (!is_quiet(result))
                print_result(result);
        (void)print_at_once(outcome.text, outcome.size, PATIENCE_MS);
        if (code == 0 && (bad || outcome.has_failed))
                code = 1;
        outcome_done(&outcome);
        return code;
}

static int run_in(cloche_engine *engine, struct cli_request *request)
{
        cloche_result *result = NULL;
        struct cloche_err e = {0};
        int code = request->sandbox.terminal ? terminal_raw(&request->terminal) : 0, r;

        if (code)
                return code;
        r = cli_session_run(engine, &request->run, &result, &e);
        terminal_restore(&request->terminal);
        code = r < 0 ? options_refuse(request, &e) : report(request, result);
        cloche_result_free(result);
        return code;
}

static void unlimited_unless_given(uint64_t *limit)
{
        *limit = *limit ? *limit : CLOCHE_UNLIMITED;
}

/* Pass TERM, so that programs use the terminal's capabilities. */
static int pass_kind(struct cli_request *request)
{
        const char *kind = getenv("TERM");
        char *entry = NULL;

        for (size_t i = 0; i < request->run.env_count; i++)
                if (strncmp(request->env[i], "TERM=", 5) == 0)
                        return 0;
        if (!kind || request->run.env_count == CLI_ENV_MAX)
                return 0;
        if (asprintf(&entry, "TERM=%s", kind) < 0)
                return cli_bad("out of memory");
        request->env[request->run.env_count++] = entry;
        return 0;
}

static int prepare_terminal(struct cli_request *request)
{
        int bad = terminal_check("-t");

        if (bad == 0 && request->prefix)
                bad = cli_bad("-t and --prefix exclude each other: a script forked from a set-up has no terminal");
        if (bad == 0)
                bad = pass_kind(request);
        if (bad == 0)
                bad = terminal_prepare(&request->terminal);
        terminal_size(&request->run.cols, &request->run.rows);
        unlimited_unless_given(&request->run.limits.wall_ms);
        unlimited_unless_given(&request->run.limits.cpu_ms);
        return bad;
}

static int run(struct cli_request *request)
{
        int code = request->sandbox.terminal ? prepare_terminal(request) : 0;

        if (code)
                return code;
        request->run.kind = CLOCHE_SCRIPT;
        request->run.stream_fds = 1;
        request->run.stdin_fd = STDIN_FILENO;
        request->run.stdout_fd = STDOUT_FILENO;
        request->run.stderr_fd = STDERR_FILENO;
        request->run.omit_changes = 1;
        code = session_whole(request, run_in);
        terminal_restore(&request->terminal);
        return code;
}

const struct cli_handler command_run = {
        .run = run,
        .expected = "a language, or a file of one",
        .positional_min = 1,
        .positional_max = 1,
        .needs_code = 1,
        .language_word = 1,
        .takes_rest = 1,
        .words_are_rest = 1,
};
