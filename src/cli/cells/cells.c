/* Run a cell and print its output, displays and error. Runs in: the CLI, as its user. */
#include "cells.h"

#include "cli/command/cli.h"
#include "cli/output/print.h"
#include "cli/sandbox/sandbox-options.h"

#include <cloche/limits.h>
#include <string.h>

/* -- parameters ----------------------------------------------------------------------------------------------- */

json_t *cells_params(const struct cells *cells, const char *code, size_t size)
{
        json_t *text = json_stringn(code, size);
        json_t *params = text ? json_pack("{s:s, s:s*, s:s*, s:o, s:b}", "sandbox", cells->sandbox, "context",
                                          cells->context, "language", cells->context ? NULL : cells->language, "code",
                                          text, "input", cells->questions != NULL)
                              : NULL;

        if (params && cells->restart)
                json_object_set_new(params, "restart", json_true());
        if (params && cells->timeout_ms)
                json_object_set_new(params, "timeoutMs",
                                    json_integer(cells->timeout_ms == CLOCHE_UNLIMITED
                                                         ? 0
                                                         : (json_int_t)cells->timeout_ms));
        return params;
}

static int on_event(void *data, const struct daemon_message *message)
{
        struct cells *cells = data;

        if (strcmp(message->event, "display") == 0)
                return displays_show(&cells->displays, message, &cells->follow->out);
        return 0;
}

int cells_run(struct cells *cells, const char *code, size_t size, json_t **ret)
{
        struct follow follow = {
                .client = cells->client,
                .sandbox = cells->sandbox,
                .waits_for = "starting the interpreter",
                .on_event = on_event,
                .data = cells,
                .questions = cells->questions,
                .context = cells->interrupts ? cells->context : NULL,
        };
        json_t *params = cells_params(cells, code, size), *answer = NULL;
        int exit_code;

        /* All output arrives as events; the answer need not repeat it. */
        json_object_set_new(params, "stream", json_true());
        json_object_set_new(params, "outputBytes", json_integer(1));
        cells->follow = &follow;
        exit_code = follow_request(&follow, "context.run", params, &answer);
        cells->follow = NULL;
        cells->ended_by = follow.ended_by;
        cells->is_lost = !follow.is_over;
        cells->ends_line = !follow.out.last || follow.out.last == '\n';
        if (exit_code == 0) {
                cells_print_error(answer);
                exit_code = cells_exit_code(answer);
                if (exit_code)
                        print_denials(stderr, NULL, answer);
        }
        if (ret)
                *ret = answer;
        else
                json_decref(answer);
        return exit_code;
}

/* -- results -------------------------------------------------------------------------------------------------- */

int cells_exit_code(const json_t *answer)
{
        if (json_is_true(json_object_get(answer, "timedOut")))
                return CELL_TIMED_OUT;
        return strcmp(sandbox_text(answer, "status"), "ok") != 0;
}

static void print_line(const json_t *line)
{
        print_bytes(stderr, json_string_value(line) ? json_string_value(line) : "", json_string_length(line),
                    PRINT_TEXT);
        fputc('\n', stderr);
}

void cells_print_error(const json_t *answer)
{
        const json_t *error = json_object_get(answer, "error"), *traceback = json_object_get(error, "traceback"), *line;
        size_t i;

        if (!json_is_object(error))
                return;
        json_array_foreach (traceback, i, line)
                print_line(line);
        if (json_array_size(traceback))
                return;
        print_name(stderr, sandbox_text(error, "name"));
        fputs(": ", stderr);
        print_line(json_object_get(error, "message"));
}
