/* cloche context run: run a cell in a context. Runs in: the CLI, as its user. */
#include "cli/cells/cells.h"
#include "cli/options/options.h"

#include <stdlib.h>
#include <string.h>

/* Checks that need no daemon. */
static int check(const struct cli_request *request)
{
        const struct sandbox_options *options = &request->sandbox;

        if (options->context && options->language)
                return cli_bad("--language and --context exclude each other: a named context has a language");
        if (request->json && options->input)
                return cli_bad("--json and -i exclude each other");
        if (request->json && options->displays)
                return cli_bad("--save-displays and --json exclude each other: the JSON answer contains the displays");
        if (options->input && request->is_code_stdin)
                return cli_bad("-i: the code is read from standard input; use -c or -f for the code");
        return 0;
}

static int run_json(struct cells *cells, json_t *params)
{
        struct follow follow = {.client = cells->client, .sandbox = cells->sandbox};
        json_t *answer = NULL;
        int code = follow_request(&follow, "context.run", params, &answer);

        if (code == 0) {
                sandbox_make_text(answer, "stdout");
                sandbox_make_text(answer, "stderr");
                sandbox_print_json(answer);
                code = cells_exit_code(answer);
        }
        json_decref(answer);
        return code;
}

static int run(struct cli_request *request)
{
        struct questions questions;
        struct daemon_client client;
        struct cells cells = {
                .client = &client,
                .sandbox = request->positional[0],
                .context = request->sandbox.context,
                .language = request->sandbox.language,
                .timeout_ms = request->run.limits.wall_ms,
                .questions = request->sandbox.input ? &questions : NULL,
                .restart = request->sandbox.restart,
                .displays = {.sandbox = request->positional[0],
                             .directory = request->sandbox.displays,
                             .saves = request->sandbox.displays ? DISPLAYS_ALL : DISPLAYS_NAMED},
        };
        int code = check(request);

        if (code == 0)
                code = sandbox_open(request, &client);
        if (code)
                return code;
        sandbox_print_lost(&client, request, request->positional[0]);
        questions_init(&questions, request->positional[0]);
        code = request->json ? run_json(&cells, cells_params(&cells, request->code, request->code_size))
                             : cells_run(&cells, request->code, request->code_size, NULL);
        questions_done(&questions);
        daemon_close(&client);
        return code;
}

const struct cli_handler command_context_run = {
        .run = run,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
        .needs_code = 1,
};
