/* cloche context create, list, get, delete, restart, interrupt, describe, inspect, is-complete,
 * history, fork, checkpoint, checkpoints, rollback, forget. Runs in: the CLI, as its user. */
#include "cli/options/options.h"
#include "cli/output/columns.h"
#include "cli/output/print.h"
#include "cli/sandbox/prefix.h"

#include <stdio.h>
#include <string.h>

static json_t *context_params(const struct cli_request *request)
{
        return json_pack("{s:s, s:s}", "sandbox", request->positional[0], "context", request->positional[1]);
}

/* -- printing ------------------------------------------------------------------------------------------------- */

static void print_context(const json_t *context)
{
        json_t *rows = json_pack("[O]", context);

        TABLE_PRINT(columns_of_contexts, rows, 0);
        json_decref(rows);
}

static void make_files(FILE *out, const json_t *checkpoint, int is_plain)
{
        (void)is_plain;
        fputs(json_is_true(json_object_get(checkpoint, "files")) ? "with files" : "without files", out);
}

static const struct table_column checkpoint_columns[] = {
        {"CHECKPOINT", CELL_NAME, "checkpoint", 12, NULL},
        {"CELLS", CELL_COUNT, "executionCount", 0, NULL},
        {"FILES", CELL_NAME, NULL, 0, make_files},
        {"CREATED", CELL_TIME, "createdAt", 0, NULL},
};

static const struct table_column variable_columns[] = {
        {"NAME", CELL_NAME, "name", 12, NULL},
        {"TYPE", CELL_NAME, "type", 8, NULL},
        {"VALUE", CELL_NAME, "summary", 16, NULL},
};

/* Further lines of a cell stand below its first. */
static void print_cell(const json_t *entry)
{
        const char *code = sandbox_text(entry, "code"), *end;

        printf("%6lld  ", (long long)json_integer_value(json_object_get(entry, "count")));
        for (; (end = strchr(code, '\n')); code = end + 1) {
                print_bytes(stdout, code, (size_t)(end - code), PRINT_TEXT);
                printf("\n%8s", "");
        }
        print_bytes(stdout, code, strlen(code), PRINT_TEXT);
        putchar('\n');
}

static void print_context_name(const json_t *context)
{
        printf("%s\n", sandbox_text(context, "context"));
}

static void print_fork(const json_t *context)
{
        print_context_name(context);
        if (json_is_false(json_object_get(context, "mounts")))
                fputs("cloche: a fork has a copy of /workspace, and none of the mounts of its sandbox\n", stderr);
}

static void print_checkpoint_name(const json_t *checkpoint)
{
        printf("%s\n", sandbox_text(checkpoint, "checkpoint"));
}

static void print_nothing(const json_t *answer)
{
        (void)answer;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

/* Add the field of --prefix, which only context create has. */
static int add_prefix(struct daemon_client *client, const struct cli_request *request, json_t *params)
{
        json_t *name = NULL;
        int code = request->prefix ? sandbox_prefix(client, request, &name) : 0;

        if (name)
                json_object_set_new(params, "prefix", name);
        return code;
}

static int request_for(const struct cli_request *request, const char *method, json_t *params, json_t **ret)
{
        struct daemon_client client;
        int code = sandbox_open(request, &client);

        if (code) {
                json_decref(params);
                return code;
        }
        sandbox_print_lost(&client, request, request->positional[0]);
        code = add_prefix(&client, request, params);
        if (code)
                json_decref(params);
        else
                code = sandbox_request(&client, method, params, ret);
        daemon_close(&client);
        return code;
}

/* Send one request and print the whole answer. params is stolen. */
static int request_for_each(struct cli_request *request, const char *method, json_t *params,
                            void (*print)(const json_t *answer))
{
        json_t *answer = NULL;
        int code = request_for(request, method, params, &answer);

        if (code == 0 && request->json)
                sandbox_print_json(answer);
        else if (code == 0)
                print(answer);
        json_decref(answer);
        return code;
}

/* The same for an answer that holds rows under a name. */
static int request_rows(struct cli_request *request, const char *method, json_t *params, const char *name,
                        void (*print)(const json_t *row))
{
        json_t *answer = NULL;
        int code = request_for(request, method, params, &answer);

        if (code == 0)
                print_rows(json_object_get(answer, name), request->json, print);
        json_decref(answer);
        return code;
}

static int request_table(struct cli_request *request, const char *method, json_t *params, const char *name,
                         const struct table_column *columns, size_t count)
{
        json_t *answer = NULL;
        int code = request_for(request, method, params, &answer);

        if (code == 0)
                table_print(columns, count, json_object_get(answer, name), request->json);
        json_decref(answer);
        return code;
}

#define COLUMNS(columns) columns, sizeof(columns) / sizeof((columns)[0])

/* A context named like a language was meant to be one of it: the context would be one
 * of Python, of that name. */
static int check_name(const struct cli_request *request)
{
        const char *box = request->positional[0], *name = request->positional[1];

        if (!name || request->sandbox.language || !options_is_language(name))
                return 0;
        return cli_bad("'%s' would be the name of the context, but is a language: use cloche context create %s "
                       "--language %s "
                       "(with --language, the name %s is accepted)",
                       name, box, name, name);
}

static int request_create(struct cli_request *request)
{
        json_t *params = json_pack("{s:s, s:s*, s:s*, s:s*, s:o*}", "sandbox", request->positional[0], "context",
                                   request->positional[1], "language", request->sandbox.language, "cwd",
                                   request->sandbox.cwd, "env", sandbox_env(request));
        uint64_t timeout_ms = request->run.limits.wall_ms;

        if (params && request->sandbox.forkable)
                json_object_set_new(params, "forkable", json_true());
        if (params && timeout_ms && timeout_ms != CLOCHE_UNLIMITED)
                json_object_set_new(params, "timeoutMs", json_integer((json_int_t)timeout_ms));
        return request_for_each(request, "context.create", params, print_context_name);
}

static int create(struct cli_request *request)
{
        int code = check_name(request);

        return code ? code : request_create(request);
}

static int list(struct cli_request *request)
{
        return request_table(request, "context.list", sandbox_params(request), "contexts",
                             COLUMNS(columns_of_contexts));
}

static int get(struct cli_request *request)
{
        return request_for_each(request, "context.get", context_params(request), print_context);
}

static int restart(struct cli_request *request)
{
        return request_for_each(request, "context.restart", context_params(request), print_nothing);
}

static int interrupt(struct cli_request *request)
{
        return request_for_each(request, "context.interrupt", context_params(request), print_nothing);
}

static int describe(struct cli_request *request)
{
        return request_table(request, "context.describe", context_params(request), "variables",
                             COLUMNS(variable_columns));
}

/* -- looks at code -------------------------------------------------------------------------------------------- */

static json_t *code_params(const struct cli_request *request, size_t size)
{
        json_t *params = context_params(request), *code = json_stringn(request->code, size);

        if (!code)
                cli_bad("the code is not UTF-8");
        else if (params && json_object_set_new(params, "code", code) == 0)
                return params;
        json_decref(params);
        return NULL;
}

static int inspect(struct cli_request *request)
{
        json_t *params, *answer = NULL;
        const char *text;
        size_t size = request->code_size;
        int code;

        /* The last line of a file or of standard input ends with one, and no name is behind it. */
        while (request->sandbox.at == UINT64_MAX && size > 0 && request->code[size - 1] == '\n')
                size--;
        params = code_params(request, size);
        if (!params)
                return CLI_BAD_INPUT;
        if (request->sandbox.at != UINT64_MAX)
                json_object_set_new(params, "at", json_integer((json_int_t)request->sandbox.at));
        if (request->sandbox.has_source)
                json_object_set_new(params, "detail", json_integer(1));
        code = request_for(request, "context.inspect", params, &answer);
        text = json_string_value(json_object_get(json_object_get(answer, "data"), "text/plain"));
        if (code == 0 && request->json) {
                sandbox_print_json(answer);
        } else if (code == 0 && text) {
                print_bytes(stdout, text, strlen(text), PRINT_TEXT);
                putchar('\n');
        }
        if (code == 0 && !json_is_true(json_object_get(answer, "found"))) {
                cli_bad("there is no such name in the context \"%s\"", request->positional[1]);
                code = 1;
        }
        json_decref(answer);
        return code;
}

static int is_complete(struct cli_request *request)
{
        json_t *params = code_params(request, request->code_size), *answer = NULL;
        const char *status;
        int code;

        if (!params)
                return CLI_BAD_INPUT;
        code = request_for(request, "context.isComplete", params, &answer);
        if (code)
                return code;
        status = sandbox_text(answer, "status");
        if (request->json) {
                sandbox_print_json(answer);
        } else {
                print_name(stdout, status);
                putchar('\n');
        }
        code = strcmp(status, "complete") != 0;
        json_decref(answer);
        return code;
}

static int history(struct cli_request *request)
{
        json_t *params = context_params(request);

        if (params && request->sandbox.rows_max)
                json_object_set_new(params, "limit", json_integer((json_int_t)request->sandbox.rows_max));
        return request_rows(request, "context.history", params, "entries", print_cell);
}

/* -- forks and checkpoints ------------------------------------------------------------------------------------ */

static int fork_context(struct cli_request *request)
{
        json_t *params = context_params(request);

        if (params && request->sandbox.count)
                json_object_set_new(params, "count", json_integer((json_int_t)request->sandbox.count));
        if (params && request->sandbox.forkable)
                json_object_set_new(params, "forkable", json_true());
        return request_rows(request, "context.fork", params, "contexts", print_fork);
}

static json_t *checkpoint_params(const struct cli_request *request)
{
        return json_pack("{s:s, s:s, s:s*}", "sandbox", request->positional[0], "context", request->positional[1],
                         "checkpoint", request->positional[2]);
}

static int checkpoint(struct cli_request *request)
{
        json_t *params = checkpoint_params(request);

        if (params && request->sandbox.no_files)
                json_object_set_new(params, "files", json_false());
        return request_for_each(request, "context.checkpoint", params, print_checkpoint_name);
}

static int checkpoints(struct cli_request *request)
{
        return request_table(request, "context.checkpoints", context_params(request), "checkpoints",
                             COLUMNS(checkpoint_columns));
}

static int rollback(struct cli_request *request)
{
        return request_for_each(request, "context.rollback", checkpoint_params(request), print_nothing);
}

/* Try all names from that word on; params builds the request for each. */
static int each(struct cli_request *request, const char *method, int first,
                json_t *(*params)(struct cli_request *request, const char *name))
{
        struct daemon_client client;
        int code = sandbox_open(request, &client);

        if (code)
                return code;
        sandbox_print_lost(&client, request, request->positional[0]);
        for (int i = first; i < request->positional_count; i++) {
                int bad = sandbox_request(&client, method, params(request, request->positional[i]), NULL);

                code = bad ? bad : code;
        }
        daemon_close(&client);
        return code;
}

static json_t *of_context(struct cli_request *request, const char *name)
{
        return json_pack("{s:s, s:s}", "sandbox", request->positional[0], "context", name);
}

static json_t *of_checkpoint(struct cli_request *request, const char *name)
{
        return json_pack("{s:s, s:s, s:s}", "sandbox", request->positional[0], "context", request->positional[1],
                         "checkpoint", name);
}

static int drop(struct cli_request *request)
{
        return each(request, "context.delete", 1, of_context);
}

static int forget(struct cli_request *request)
{
        return each(request, "context.forget", 2, of_checkpoint);
}

/* -- commands ------------------------------------------------------------------------------------------------- */

#define A_CONTEXT "a sandbox and a context"

const struct cli_handler command_context_create = {
        .run = create,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 2,
};
const struct cli_handler command_context_list = {
        .run = list,
        .of_existing = 1,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};
const struct cli_handler command_context_get = {
        .run = get,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 2,
};
const struct cli_handler command_context_delete = {
        .run = drop,
        .of_existing = 1,
        .expected = "a sandbox and contexts",
        .positional_min = 2,
        .positional_max = CLI_WORDS_MAX,
};
const struct cli_handler command_context_restart = {
        .run = restart,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 2,
};
const struct cli_handler command_context_interrupt = {
        .run = interrupt,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 2,
};
const struct cli_handler command_context_describe = {
        .run = describe,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 2,
};
const struct cli_handler command_context_inspect = {
        .run = inspect,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 2,
        .needs_code = 1,
};
const struct cli_handler command_context_is_complete = {
        .run = is_complete,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 2,
        .needs_code = 1,
};
const struct cli_handler command_context_history = {
        .run = history,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 2,
};
const struct cli_handler command_context_fork = {
        .run = fork_context,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 2,
};
const struct cli_handler command_context_checkpoint = {
        .run = checkpoint,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 3,
};
const struct cli_handler command_context_checkpoints = {
        .run = checkpoints,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 2,
};
const struct cli_handler command_context_rollback = {
        .run = rollback,
        .of_existing = 1,
        .expected = A_CONTEXT,
        .positional_min = 2,
        .positional_max = 3,
};
const struct cli_handler command_context_forget = {
        .run = forget,
        .of_existing = 1,
        .expected = "a sandbox, a context and checkpoints",
        .positional_min = 3,
        .positional_max = CLI_WORDS_MAX,
};
