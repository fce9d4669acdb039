/* cloche call: call one function and print its result on standard output.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "cli/options/options.h"
#include "cli/output/outcome.h"
#include "cli/output/plain-value.h"
#include "cli/run/session.h"

#include "wire/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VALUE_BYTES_MAX (1u << 30) /* more digits than a value's maximum size (spec/limits.def, resultBytes) */

/* Compare by text, then by type: syntax errors have their text in pieces, and some errors have
 * none. Errors of limits are our own. */
static int names_error(const char *stack, size_t size, const cloche_result *result)
{
        const char *type = cloche_result_error_type(result), *message = cloche_result_error_message(result);

        return cloche_result_status(result) == CLOCHE_STATUS_ERROR && size > 0 &&
               ((message && *message && strstr(stack, message)) || strstr(stack, type));
}

/* Print only the stack if it names the error. */
static void print_error(const cloche_result *result)
{
        const char *stack = cloche_result_error_stack(result), *message = cloche_result_error_message(result);
        size_t size = stack ? strlen(stack) : 0;

        while (size > 0 && stack[size - 1] == '\n')
                size--;
        if (size > 0)
                fprintf(stderr, "%.*s\n", (int)size, stack);
        if (!names_error(stack, size, result))
                fprintf(stderr, "cloche: %s: %s%s%s\n", cloche_status_name(cloche_result_status(result)),
                        cloche_result_error_type(result), message && *message ? ": " : "", message ? message : "");
}

/* 0, or 1 after a line was printed. */
static int print_value(const char *tagged)
{
        json_t *value = NULL;
        _cleanup_buf_ struct buf text = BUF_INIT(VALUE_BYTES_MAX);
        struct cloche_err e = {0};
        int r = json_load_text(tagged, strlen(tagged), &value, &e);

        if (r == 0)
                r = plain_value(&text, value);
        json_decref(value);
        if (r < 0)
                return cli_bad("cannot print the value as plain JSON: %s (--json prints it unchanged)",
                               e.code ? e.msg : strerror(-r)),
                       1;
        fwrite(text.data, 1, text.size, stdout);
        putchar('\n');
        return 0;
}

/* Only the result goes to standard output; the guest's output goes to standard error, so that
 * pipelines stay clean. */
static int print_plain(const cloche_result *result)
{
        const char *text;
        size_t size;

        text = cloche_result_stdout(result, &size);
        fwrite(text, 1, size, stderr);
        text = cloche_result_stderr(result, &size);
        fwrite(text, 1, size, stderr);
        if (cloche_result_value(result))
                return print_value(cloche_result_value(result));
        print_error(result);
        return 0;
}

/* Print the answer, and the name of the kept changes. */
static void print_json(const cloche_result *result, const struct outcome *outcome)
{
        const char *text = cloche_result_json(result);

        if (outcome->name[0])
                printf("%.*s,\"changeset\":\"%s\"}\n", (int)strlen(text) - 1, text, outcome->name);
        else
                printf("%s\n", text);
}

static int report(struct cli_request *request, cloche_result *result)
{
        int code = cloche_result_exit_code(result);
        struct outcome outcome;
        int bad = outcome_settle(request, result, &outcome);

        if (request->json)
                print_json(result, &outcome);
        else
                bad |= print_plain(result);
        if (!request->json)
                bad |= outcome_print_notes(stderr, result, request->denials);
        if (!request->json)
                fwrite(outcome.text, 1, outcome.size, stderr);
        if (code == 0 && (bad || outcome.has_failed))
                code = 1;
        outcome_done(&outcome);
        return code;
}

static int run_in(cloche_engine *engine, struct cli_request *request)
{
        cloche_result *result = NULL;
        struct cloche_err e = {0};
        int r = cli_session_run(engine, &request->run, &result, &e);

        r = r < 0 ? options_refuse(request, &e) : report(request, result);
        cloche_result_free(result);
        return r;
}

static int run(struct cli_request *request)
{
        request->run.kind = CLOCHE_CALL;
        return session_whole(request, run_in);
}

const struct cli_handler command_call = {
        .run = run,
        .expected = "a language, or a file of one",
        .positional_min = 1,
        .positional_max = 2,
        .needs_code = 1,
        .language_word = 1,
};
