/* cloche notebook run: run the cells of a notebook in a temporary context.
 * Runs in: the CLI, as its user. */
#include "cli/cells/notebook.h"
#include "cli/cells/cells.h"
#include "cli/cells/notebook-outputs.h"
#include "cli/cells/target.h"
#include "cli/options/options.h"
#include "cli/output/print.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
        const struct cli_request *request;
        struct notebook notebook;
        struct notebook_outputs outputs;
        struct daemon_client client;
        struct cells_target target;
        size_t failed; /* number of cells */
};

/* -- progress ------------------------------------------------------------------------------------------------- */

static void print_progress(const struct run *run, size_t number, const char *what)
{
        if (isatty(STDERR_FILENO) && !run->request->json)
                fprintf(stderr, "cell %zu of %zu: %s\n", number + 1, json_array_size(run->notebook.cells), what);
}

static void print_error(size_t number, const json_t *answer)
{
        fprintf(stderr, "cloche: cell %zu failed: ", number + 1);
        print_name(stderr, sandbox_text(json_object_get(answer, "error"), "name"));
        fputs(": ", stderr);
        print_name(stderr, sandbox_text(json_object_get(answer, "error"), "message"));
        fputc('\n', stderr);
}

/* -- a cell --------------------------------------------------------------------------------------------------- */

static int on_event(void *data, const struct daemon_message *message)
{
        struct run *run = data;
        struct cloche_err e = {0};

        return notebook_outputs_take(&run->outputs, message, &e) < 0 ? sandbox_fail(&e) : 0;
}

static int is_blank(const char *text, size_t size)
{
        while (size > 0 && isspace((unsigned char)text[size - 1]))
                size--;
        return size == 0;
}

/* 0: run the next cell; otherwise the exit code. */
static int judge(struct run *run, size_t number, const json_t *cell, const json_t *answer)
{
        int code = cells_exit_code(answer);

        if (code == 0 || notebook_has_tag(cell, "raises-exception"))
                return 0;
        print_error(number, answer);
        run->failed++;
        /* No cell can run after the interpreter has exited. */
        if (run->request->sandbox.allow_errors && !json_is_true(json_object_get(answer, "ended")))
                return 0;
        return code;
}

static int run_cell(struct run *run, size_t number, json_t *cell, const char *source, size_t size)
{
        struct cells cells = {.sandbox = run->target.sandbox,
                              .context = run->target.context,
                              .timeout_ms = run->request->run.limits.wall_ms};
        struct follow follow = {.client = &run->client,
                                .sandbox = run->target.sandbox,
                                .on_event = on_event,
                                .takes_output = 1,
                                .data = run};
        json_t *params = cells_params(&cells, source, size), *answer = NULL;
        int code;

        json_object_set_new(params, "stream", json_true());
        json_object_set_new(params, "outputBytes", json_integer(1));
        print_progress(run, number, "running");
        notebook_outputs_cell(&run->outputs, cell);
        code = follow_request(&follow, "context.run", params, &answer);
        notebook_outputs_end(&run->outputs, answer);
        if (code == 0)
                code = judge(run, number, cell, answer);
        json_decref(answer);
        return code;
}

static int take_cell(struct run *run, size_t number, json_t *cell)
{
        size_t size;
        char *source;
        int code;

        if (!notebook_is_code(cell) || notebook_has_tag(cell, "skip-execution"))
                return 0;
        source = notebook_source(cell, &size);
        if (!source)
                return cli_bad("%s: cell %zu: no memory for its source", run->notebook.path, number + 1), 1;
        if (is_blank(source, size)) {
                notebook_outputs_cell(&run->outputs, cell);
                code = 0;
        } else {
                code = run_cell(run, number, cell, source, size);
        }
        free(source);
        return code;
}

/* -- all cells ------------------------------------------------------------------------------------------------ */

static int run_cells(struct run *run)
{
        json_t *cell;
        size_t i;
        int code = 0;

        json_array_foreach (run->notebook.cells, i, cell)
                if (code == 0)
                        code = take_cell(run, i, cell);
        return code ? code : run->failed > 0;
}

static void print_outcome(const struct run *run, const char *path, int code)
{
        json_t *summary;

        if (!run->request->json)
                return;
        summary = json_pack("{s:s, s:I, s:I, s:i}", "notebook", path, "cells",
                            (json_int_t)json_array_size(run->notebook.cells), "failed", (json_int_t)run->failed,
                            "exitCode", code);
        sandbox_print_json(summary);
        json_decref(summary);
}

/* Write the outputs so far, whether the cells succeeded or not. */
static int run_and_write(struct run *run)
{
        const char *output = run->request->sandbox.output ? run->request->sandbox.output : run->notebook.path;
        int code = run_cells(run), bad = notebook_write(&run->notebook, output);

        code = code ? code : bad;
        print_outcome(run, output, code);
        return code;
}

static int run_notebook(struct run *run, const char *language)
{
        int code = sandbox_open(run->request, &run->client), bad;

        if (code)
                return code;
        notebook_outputs_init(&run->outputs);
        code = cells_target_open(&run->target, &run->client, &run->request->sandbox, NULL, language);
        if (code == 0)
                code = run_and_write(run);
        bad = cells_target_close(&run->target);
        notebook_outputs_done(&run->outputs);
        daemon_close(&run->client);
        return code ? code : bad;
}

static int notebook_run(struct cli_request *request)
{
        struct run run = {.request = request};
        const char *language = request->sandbox.language;
        int code;

        if (request->json && request->sandbox.output && strcmp(request->sandbox.output, "-") == 0)
                return cli_bad("-o - and --json exclude each other: both write to standard output");
        code = notebook_read(&run.notebook, request->positional[0]);
        if (code == 0 && !language)
                code = notebook_language(&run.notebook, &language);
        if (code == 0)
                code = run_notebook(&run, language);
        notebook_done(&run.notebook);
        return code;
}

const struct cli_handler command_notebook_run = {
        .run = notebook_run,
        .expected = "a notebook",
        .positional_min = 1,
        .positional_max = 1,
};
