/* The tool run_command. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "daemon/mcp/internal.h"

#include <stdlib.h>
#include <string.h>

#define TIMEOUT_S 60

struct command {
        struct mcp_output output;
        json_t *process; /* in the background; NULL: none */
        int is_made;     /* the session was made for it */
};

static void command_done(void *state)
{
        struct command *command = state;

        mcp_output_done(&command->output);
        json_decref(command->process);
        free(command);
}

static void on_event(struct mcp_exchange *x, const char *event, const json_t *about, const struct buf *attachments)
{
        struct command *command = x->state;

        mcp_output_take(x, &command->output, event, about, attachments);
}

static json_t *content_of(struct mcp_exchange *x, const json_t *structured, const json_t *ended)
{
        json_t *content = json_array(), *line;
        json_int_t code = json_integer_value(json_object_get(structured, "exit_code"));

        mcp_add_text(content, json_object_get(structured, "stdout"));
        mcp_add_text(content, json_object_get(structured, "stderr"));
        mcp_add_warnings(x, content, ended);
        if (code == 0 && json_array_size(content) > 0)
                return content;
        line = json_is_true(json_object_get(structured, "timed_out"))
                       ? json_string("[killed at its timeout]")
                       : json_sprintf("[exit code %lld]", (long long)code);
        mcp_add_text(content, line);
        json_decref(line);
        return content;
}

static void on_ended(struct mcp_exchange *x, const struct door_reply *reply)
{
        const struct command *command = x->state;
        const json_t *ended = reply->result, *code = json_object_get(ended, "exitCode");
        int is_short = mcp_output_is_short(&command->output);
        json_t *structured =
                json_pack("{s:O, s:o, s:o, s:O, s:b, s:O*, s:O*}", "exit_code", code, "stdout",
                          mcp_cut_text(&command->output.stdout), "stderr", mcp_cut_text(&command->output.stderr),
                          "timed_out", json_object_get(ended, "timedOut"), "truncated", is_short, "cwd",
                          json_object_get(ended, "cwd"), "output", is_short ? json_object_get(ended, "output") : NULL);

        mcp_tool_answer(x, content_of(x, structured, ended), structured, json_integer_value(code) != 0);
}

static void run(struct mcp_exchange *x);

static void on_made(struct mcp_exchange *x, const struct door_reply *reply)
{
        (void)reply;
        run(x);
}

/* A session is made on its first use. */
static void on_failed(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct command *command = x->state;
        json_t *session = json_object_get(x->arguments, "session");

        if (reply->e->code != CLOCHE_E_NOT_FOUND || !session || command->is_made) {
                mcp_tool_fail(x, reply->e);
                return;
        }
        command->is_made = 1;
        mcp_call(x, "session.create", json_pack("{s:O}", "session", session), NULL, on_made);
}

static void answer_process(struct mcp_exchange *x, const json_t *process)
{
        const char *id = mcp_text(process, "process");

        mcp_tool_answer_text(x, json_sprintf("the process %s runs: read_output has its output", id),
                             json_pack("{s:s, s:s, s:b, s:b, s:s}", "stdout", "", "stderr", "", "timed_out", 0,
                                       "truncated", 0, "process", id),
                             0);
}

static void on_input_sent(struct mcp_exchange *x, const struct door_reply *reply)
{
        const struct command *command = x->state;

        (void)reply;
        answer_process(x, command->process);
}

/* With stdin its input is that text and ends; else it stays open for send_input. */
static void on_started(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct command *command = x->state;
        json_t *input = json_object_get(x->arguments, "stdin");

        if (!input) {
                answer_process(x, reply->result);
                return;
        }
        command->process = json_deep_copy(reply->result);
        mcp_call(x, "process.input",
                 json_pack("{s:O, s:O, s:b}", "process", json_object_get(command->process, "process"), "data", input,
                           "end", 1),
                 NULL, on_input_sent);
}

static void start(struct mcp_exchange *x)
{
        x->fail = on_failed;
        mcp_call(x, "process.start",
                 json_pack("{s:O, s:O*, s:O*, s:O*, s:I, s:b}", "command", json_object_get(x->arguments, "command"),
                           "cwd", json_object_get(x->arguments, "cwd"), "env", json_object_get(x->arguments, "env"),
                           "session", json_object_get(x->arguments, "session"), "timeoutMs",
                           mcp_count(x, "timeout_s", 0) * 1000, "stdin", 1),
                 NULL, on_started);
}

static void run(struct mcp_exchange *x)
{
        if (json_is_true(json_object_get(x->arguments, "background"))) {
                start(x);
                return;
        }
        x->on_event = on_event;
        x->fail = on_failed;
        mcp_call(x, "exec",
                 json_pack("{s:O, s:O*, s:O*, s:O*, s:O*, s:I, s:b, s:i}", "command",
                           json_object_get(x->arguments, "command"), "cwd", json_object_get(x->arguments, "cwd"), "env",
                           json_object_get(x->arguments, "env"), "stdin", json_object_get(x->arguments, "stdin"),
                           "session", json_object_get(x->arguments, "session"), "timeoutMs",
                           mcp_count(x, "timeout_s", TIMEOUT_S) * 1000, "stream", 1, "outputBytes", 0),
                 NULL, on_ended);
}

void mcp_run_command(struct mcp_exchange *x)
{
        struct command *command = calloc(1, sizeof(*command));

        if (!command) {
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
                return;
        }
        mcp_output_init(&command->output);
        x->state = command;
        x->state_done = command_done;
        run(x);
}
