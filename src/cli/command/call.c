/* cloche call: call one function and print its result on standard output.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "cli/sandbox/call.h"
#include "cli/options/options.h"
#include "cli/output/outcome.h"
#include "cli/output/plain-value.h"
#include "cli/run/session.h"

#include "wire/base64.h"
#include "wire/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VALUE_BYTES_MAX (1u << 30) /* more digits than a value's maximum size (spec/limits.def, resultBytes) */

/* The failure of the code; its texts may be NULL. */
struct failure {
        const char *status, *type, *message, *stack;
};

/* Compare by text, then by type: syntax errors have their text in pieces, and some errors have
 * none. Errors of limits are our own. */
static int names_error(size_t size, const struct failure *f)
{
        return strcmp(f->status, cloche_status_name(CLOCHE_STATUS_ERROR)) == 0 && size > 0 &&
               ((f->message && *f->message && strstr(f->stack, f->message)) || (f->type && strstr(f->stack, f->type)));
}

/* Print only the stack if it names the error. */
static void print_error(const struct failure *f)
{
        const char *message = f->message;
        size_t size = f->stack ? strlen(f->stack) : 0;

        while (size > 0 && f->stack[size - 1] == '\n')
                size--;
        if (size > 0)
                fprintf(stderr, "%.*s\n", (int)size, f->stack);
        if (!names_error(size, f))
                fprintf(stderr, "cloche: %s: %s%s%s\n", f->status, f->type ? f->type : "error",
                        message && *message ? ": " : "", message ? message : "");
}

/* 0, or 1 after a line was printed. */
static int print_value(const json_t *value)
{
        _cleanup_buf_ struct buf text = BUF_INIT(VALUE_BYTES_MAX);
        int r = plain_value(&text, value);

        if (r < 0)
                return cli_bad("cannot print the value as plain JSON: %s (--json prints it unchanged)", strerror(-r)),
                       1;
        fwrite(text.data, 1, text.size, stdout);
        putchar('\n');
        return 0;
}

static int print_tagged(const char *tagged)
{
        json_t *value = NULL;
        struct cloche_err e = {0};
        int bad = json_load_text(tagged, strlen(tagged), &value, &e) < 0
                          ? (cli_bad("cannot print the value as plain JSON: %s (--json prints it unchanged)", e.msg), 1)
                          : print_value(value);

        json_decref(value);
        return bad;
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
                return print_tagged(cloche_result_value(result));
        print_error(&(struct failure){cloche_status_name(cloche_result_status(result)),
                                      cloche_result_error_type(result), cloche_result_error_message(result),
                                      cloche_result_error_stack(result)});
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

/* -- in a daemon ---------------------------------------------------------------------------------------------- */

/* Output that is not UTF-8 comes a second time, in base64. */
static void print_stream(const json_t *result, const char *name, const char *exact)
{
        const json_t *text = json_object_get(result, name);
        const char *encoded = json_string_value(json_object_get(result, exact));
        _cleanup_buf_ struct buf bytes = BUF_INIT(VALUE_BYTES_MAX);

        if (encoded && base64_decode(&bytes, encoded, strlen(encoded)) == 0)
                fwrite(bytes.data, 1, bytes.size, stderr);
        else
                fwrite(json_string_value(text), 1, json_string_length(text), stderr);
}

static int print_answer(const struct cli_request *request, const json_t *result)
{
        const json_t *error = json_object_get(result, "error");
        const char *status = sandbox_text(result, "status");
        int bad = 0;

        print_stream(result, "stdout", "stdoutBase64");
        print_stream(result, "stderr", "stderrBase64");
        if (strcmp(status, cloche_status_name(CLOCHE_STATUS_SUCCESS)) == 0)
                bad = print_value(json_object_get(result, "result"));
        else
                print_error(&(struct failure){status, json_string_value(json_object_get(error, "type")),
                                              json_string_value(json_object_get(error, "message")),
                                              json_string_value(json_object_get(error, "stack"))});
        return outcome_print_notes_of(stderr, result, request->denials) | bad;
}

static int run_in_daemon(struct cli_request *request)
{
        json_t *result = NULL;
        int code = daemon_call_function(request, &result), bad = 0;

        if (code)
                return code;
        code = (int)json_integer_value(json_object_get(result, "exitCode"));
        if (request->json)
                sandbox_print_json(result);
        else
                bad = print_answer(request, result);
        json_decref(result);
        return code == 0 && bad ? 1 : code;
}

static int run(struct cli_request *request)
{
        if (request->sandbox.socket)
                return run_in_daemon(request);
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
