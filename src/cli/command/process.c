/* cloche ps, logs, kill: processes of a sandbox. Runs in: the CLI, as its user. */
#include "base/err.h"
#include "base/fd.h"
#include "cli/options/options.h"
#include "cli/output/columns.h"
#include "cli/output/print.h"
#include "cli/sandbox/follow.h"

#include <stdio.h>
#include <string.h>

#define PAGE_BYTES (1 << 20)

static json_t *process_params(const struct cli_request *request)
{
        return json_pack("{s:s, s:s}", "sandbox", request->positional[0], "process", request->positional[1]);
}

static int has_failed(const json_t *process)
{
        return json_integer_value(json_object_get(process, "exitCode")) != 0 ||
               json_is_true(json_object_get(process, "timedOut"));
}

/* -- ps ------------------------------------------------------------------------------------------------------- */

static void print_denied(const json_t *process)
{
        if (has_failed(process))
                print_denials(stderr, sandbox_text(process, "process"), process);
}

static int ps(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "process.list", sandbox_params(request), &answer);

        if (code == 0)
                TABLE_PRINT(columns_of_processes, json_object_get(answer, "processes"), request->json);
        if (code == 0 && !request->json) {
                fflush(stdout);
                print_rows(json_object_get(answer, "processes"), 0, print_denied);
        }
        json_decref(answer);
        return code;
}

/* -- logs ----------------------------------------------------------------------------------------------------- */

static json_int_t number(const struct daemon_message *message, const char *stream, const char *what)
{
        char name[40];

        snprintf(name, sizeof(name), "%s%s", stream, what);
        return json_integer_value(json_object_get(message->body, name));
}

/* Print one page of one stream. 1: more pages remain. */
static int print_page(struct daemon_client *client, const struct cli_request *request, const char *stream, int fd,
                      json_int_t *offset, struct cloche_err *e)
{
        json_t *params = process_params(request);
        struct daemon_message message;
        const void *data;
        size_t size;
        int r;

        if (params)
                json_object_update_new(params, json_pack("{s:I, s:i}", "offset", *offset, "limit", PAGE_BYTES));
        r = daemon_call(client, "process.logs", params, NULL, 0, &message, e);
        if (r < 0)
                return r;
        if (*offset == 0 && number(&message, stream, "Dropped") > 0)
                cli_bad("%lld bytes of %s were not kept", (long long)number(&message, stream, "Dropped"), stream);
        r = daemon_bytes(&message, json_object_get(message.body, stream), stream, &data, &size, e);
        if (r == 0 && fd_write_full(fd, data, size) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "write output");
        *offset = number(&message, stream, "Next");
        if (r == 0)
                r = size > 0 && *offset < number(&message, stream, "Total");
        daemon_message_done(&message);
        return r;
}

static int print_stream(struct daemon_client *client, const struct cli_request *request, const char *stream, int fd)
{
        struct cloche_err e = {0};
        json_int_t offset = 0;
        int r;

        do
                r = print_page(client, request, stream, fd, &offset, &e);
        while (r == 1);
        return r < 0 ? sandbox_fail(&e) : 0;
}

/* As of a command that failed. ended: NULL if it is not known. */
static void print_logs_denied(const json_t *ended)
{
        if (ended && has_failed(ended))
                print_denials(stderr, NULL, ended);
}

/* The denials of a process that has ended are known with its output. */
static int print_end(const struct cli_request *request, struct daemon_client *client)
{
        json_t *process = NULL;
        int code = sandbox_request(client, "process.get", process_params(request), &process);

        print_logs_denied(process);
        json_decref(process);
        return code;
}

static int follow(struct cli_request *request, struct daemon_client *client)
{
        struct follow f = {.client = client, .ends_unread = 1};
        struct cloche_err e = {0};
        json_t *ended;
        json_int_t id;
        int code;

        if (daemon_request(client, "process.follow", process_params(request), NULL, 0, &id, &e) < 0)
                return sandbox_fail(&e);
        code = follow_run(&f, id, &ended);
        print_logs_denied(ended);
        json_decref(ended);
        return code;
}

static int logs(struct cli_request *request)
{
        struct daemon_client client;
        int code = sandbox_open(request, &client);

        if (code)
                return code;
        if (request->sandbox.follow) {
                code = follow(request, &client);
        } else {
                code = print_stream(&client, request, "stdout", STDOUT_FILENO);
                if (code == 0)
                        code = print_stream(&client, request, "stderr", STDERR_FILENO);
                if (code == 0)
                        code = print_end(request, &client);
        }
        daemon_close(&client);
        return code;
}

/* -- kill ----------------------------------------------------------------------------------------------------- */

static int kill_process(struct cli_request *request)
{
        json_t *params = process_params(request), *process = NULL;
        int code;

        if (params && request->sandbox.signal)
                json_object_set_new(params, "signal", json_string(request->sandbox.signal));
        code = sandbox_request_once(request, "process.kill", params, &process);
        if (code == 0 && request->json)
                sandbox_print_json(process);
        json_decref(process);
        return code;
}

const struct cli_handler command_ps = {
        .run = ps,
        .of_existing = 1,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};

const struct cli_handler command_logs = {
        .run = logs,
        .of_existing = 1,
        .expected = "a sandbox and a process",
        .positional_min = 2,
        .positional_max = 2,
};

const struct cli_handler command_kill = {
        .run = kill_process,
        .of_existing = 1,
        .expected = "a sandbox and a process",
        .positional_min = 2,
        .positional_max = 2,
};
