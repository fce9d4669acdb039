/* cloche exec, start, shell: run commands in a sandbox, with our streams, in the background, or on
 * a terminal.
 * Runs in: the CLI, as its user. */
#include "cli/options/options.h"
#include "cli/output/print.h"
#include "cli/sandbox/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMED_OUT 124

/* -- parameters ----------------------------------------------------------------------------------------------- */

/* Parameters shared by exec and process.start; command is stolen. */
static json_t *command_params(const struct cli_request *request, json_t *command)
{
        uint64_t timeout_ms = request->run.limits.wall_ms;
        json_t *params = json_pack("{s:s, s:o, s:s*, s:s*, s:o*}", "sandbox", request->positional[0], "command",
                                   command, "session", request->sandbox.session, "cwd", request->sandbox.cwd, "env",
                                   sandbox_env(request));

        if (params && timeout_ms && timeout_ms != CLOCHE_UNLIMITED)
                json_object_set_new(params, "timeoutMs", json_integer((json_int_t)timeout_ms));
        return params;
}

static json_t *process_params(const struct cli_request *request, json_t *command)
{
        json_t *params = command_params(request, command);
        unsigned cols, rows;

        terminal_size(&cols, &rows);
        if (params && request->sandbox.process)
                json_object_set_new(params, "process", json_string(request->sandbox.process));
        if (params && request->sandbox.input)
                json_object_set_new(params, "stdin", json_true());
        if (params && (request->sandbox.input || request->sandbox.terminal))
                json_object_set_new(params, "paced", json_true()); /* it is followed until it ends */
        if (params && request->sandbox.terminal)
                json_object_set_new(params, "terminal",
                                    json_pack("{s:I, s:I}", "cols", (json_int_t)cols, "rows", (json_int_t)rows));
        return params;
}

/* 0, or a line was printed. */
static int need_command(const struct cli_request *request, const char *usage)
{
        return request->run.argc ? 0 : cli_bad("expected a command after '--' (usage: cloche %s)", usage);
}

/* The command's own exit code; for exec and for processes. */
static int exit_code(const json_t *ended)
{
        if (json_is_true(json_object_get(ended, "timedOut")))
                return TIMED_OUT;
        return (int)json_integer_value(json_object_get(ended, "exitCode"));
}

/* As of calls and runs. */
static void print_late(const struct cli_request *request, const json_t *ended)
{
        uint64_t timeout_ms = request->run.limits.wall_ms;

        if (json_is_true(json_object_get(ended, "timedOut")) && timeout_ms && timeout_ms != CLOCHE_UNLIMITED)
                fprintf(stderr, "cloche: timeout: the command was stopped; the limit is %llu ms\n",
                        (unsigned long long)timeout_ms);
}

/* -- without standard input ----------------------------------------------------------------------------------- */

/* Print the reasons that the daemon adds to a command that failed: the connections that the network
 * refused; without a network, the line that names who can allow one. */
static void print_reasons(const json_t *ended)
{
        const json_t *warning;
        size_t i;

        if (exit_code(ended) == 0 || print_denials(stderr, NULL, ended) > 0)
                return;
        json_array_foreach (json_object_get(ended, "warnings"), i, warning) {
                fputs("cloche: ", stderr);
                print_advice(stderr, json_string_value(warning), PRINT_NAME);
                fputc('\n', stderr);
        }
}

static int exec_plain(struct cli_request *request, struct daemon_client *client)
{
        struct follow f = {.client = client};
        json_t *params = command_params(request, sandbox_command(request)), *ended;
        int code;

        if (params && !request->json) {
                /* All output arrives as events; the answer need not repeat it. */
                json_object_set_new(params, "stream", json_true());
                json_object_set_new(params, "outputBytes", json_integer(1));
        }
        code = follow_request(&f, "exec", params, &ended);
        if (code == 0 && request->json) {
                sandbox_make_text(ended, "stdout");
                sandbox_make_text(ended, "stderr");
                sandbox_print_json(ended);
        }
        if (code == 0 && !request->json)
                print_reasons(ended);
        if (code == 0)
                print_late(request, ended);
        if (code == 0)
                code = exit_code(ended);
        json_decref(ended);
        return code;
}

/* -- with standard input: a process --------------------------------------------------------------------------- */

static void print_left(const struct cli_request *request, const char *process)
{
        fprintf(stderr, "\r\ncloche: detached from the process ");
        print_name(stderr, process);
        fprintf(stderr, " (cloche shell %s --process ", request->positional[0]);
        print_name(stderr, process);
        fprintf(stderr, " attaches to it again)\n");
}

static int follow_process(struct cli_request *request, struct daemon_client *client, const char *process)
{
        struct terminal terminal = {0};
        struct follow f = {
                .client = client,
                .sandbox = request->positional[0],
                .process = process,
                .passes_input = 1,
                .terminal = request->sandbox.terminal ? &terminal : NULL,
        };
        json_t *ended = NULL;
        int code = f.terminal ? terminal_raw(&terminal) : 0;

        if (code == 0)
                code = follow_request(&f, "process.follow",
                                      json_pack("{s:s, s:s}", "sandbox", f.sandbox, "process", process), &ended);
        terminal_restore(&terminal);
        if (code == 0 && !ended)
                print_left(request, process);
        if (code == 0 && ended) {
                print_reasons(ended);
                print_late(request, ended);
        }
        if (code == 0 && ended)
                code = exit_code(ended);
        /* No other client uses this process. */
        if (ended)
                (void)sandbox_request(client, "process.cleanup",
                                      json_pack("{s:s, s:s}", "sandbox", f.sandbox, "process", process), NULL);
        json_decref(ended);
        return code;
}

/* command is stolen. */
static int run_process(struct cli_request *request, struct daemon_client *client, json_t *command)
{
        json_t *started = NULL;
        int code = sandbox_request(client, "process.start", process_params(request, command), &started);

        if (code == 0)
                code = follow_process(request, client, sandbox_text(started, "process"));
        json_decref(started);
        return code;
}

static int exec(struct cli_request *request)
{
        int has_streams = request->sandbox.input || request->sandbox.terminal;
        struct daemon_client client;
        int code = need_command(request, "exec SANDBOX -- COMMAND…");

        if (code == 0 && request->json && has_streams)
                code = cli_bad("--json and -i or -t exclude each other");
        if (code == 0 && request->sandbox.terminal)
                code = terminal_check("-t");
        if (code == 0)
                code = sandbox_open(request, &client);
        if (code)
                return code;
        code = sandbox_session(&client, request);
        if (code == 0)
                code = has_streams ? run_process(request, &client, sandbox_command(request))
                                   : exec_plain(request, &client);
        daemon_close(&client);
        return code;
}

/* -- shell ---------------------------------------------------------------------------------------------------- */

/* The terminal still has its former viewer's size. */
static int take_up(struct cli_request *request, struct daemon_client *client)
{
        const char *process = request->sandbox.process;
        unsigned cols, rows;
        int code;

        terminal_size(&cols, &rows);
        code = sandbox_request(client, "process.resize",
                               json_pack("{s:s, s:s, s:I, s:I}", "sandbox", request->positional[0], "process", process,
                                         "cols", (json_int_t)cols, "rows", (json_int_t)rows),
                               NULL);
        return code ? code : follow_process(request, client, process);
}

static int shell(struct cli_request *request)
{
        struct daemon_client client;
        int code = terminal_check("shell");

        if (code == 0 && request->sandbox.process && request->run.argc)
                code = cli_bad("--process attaches to a running terminal: remove the command");
        if (code == 0)
                code = sandbox_open(request, &client);
        if (code)
                return code;
        request->sandbox.terminal = 1;
        code = sandbox_session(&client, request);
        if (code == 0 && request->sandbox.process)
                code = take_up(request, &client);
        else if (code == 0)
                code = run_process(request, &client,
                                   request->run.argc ? sandbox_command(request) : json_string("exec bash"));
        daemon_close(&client);
        return code;
}

/* -- start ---------------------------------------------------------------------------------------------------- */

static int start(struct cli_request *request)
{
        struct daemon_client client;
        json_t *started = NULL;
        int code = need_command(request, "start SANDBOX -- COMMAND…");

        if (code == 0)
                code = sandbox_open(request, &client);
        if (code)
                return code;
        code = sandbox_session(&client, request);
        if (code == 0)
                code = sandbox_request(&client, "process.start", process_params(request, sandbox_command(request)),
                                       &started);
        daemon_close(&client);
        if (code == 0 && request->json)
                sandbox_print_json(started);
        else if (code == 0)
                printf("%s\n", sandbox_text(started, "process"));
        json_decref(started);
        return code;
}

const struct cli_handler command_exec = {
        .run = exec,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
        .takes_rest = 1,
        .word_begins_rest = 1,
};

const struct cli_handler command_start = {
        .run = start,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
        .takes_rest = 1,
};

const struct cli_handler command_shell = {
        .run = shell,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
        .takes_rest = 1,
};
