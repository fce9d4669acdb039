/* The tools for processes in the background. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "daemon/mcp/internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

json_t *mcp_process_of(const json_t *process)
{
        return json_pack("{s:O, s:O, s:O, s:O*, s:O}", "process", json_object_get(process, "process"), "command",
                         json_object_get(process, "command"), "status", json_object_get(process, "status"), "exit_code",
                         json_object_get(process, "exitCode"), "started_at", json_object_get(process, "startedAt"));
}

/* structured: stolen. */
static void answer_with(struct mcp_exchange *x, json_t *structured)
{
        char *line = json_dump_text(structured, JSON_COMPACT);

        mcp_tool_answer_text(x, json_string(line ? line : ""), structured, 0);
        free(line);
}

/* -- read_output ------------------------------------------------------------------------------------------------- */

struct reading {
        json_t *process; /* as it was before its output was read */
        int has_waited;
};

static void reading_done(void *state)
{
        struct reading *reading = state;

        json_decref(reading->process);
        free(reading);
}

static const char *stream_of(const struct mcp_exchange *x)
{
        const char *stream = mcp_text(x->arguments, "stream");

        return stream ? stream : "stdout";
}

static json_t *page_params(const struct mcp_exchange *x, const char *of)
{
        return json_pack("{s:O, s:I, s:I}", of, json_object_get(x->arguments, of), "offset", mcp_count(x, "offset", 0),
                         "limit", mcp_count(x, "limit", MCP_TEXT_BYTES));
}

/* process: NULL: of a command. */
static void answer_page(struct mcp_exchange *x, json_t *data, json_t *next, int is_end, const json_t *process)
{
        json_t *content = json_array();

        mcp_add_text(content, data);
        if (json_array_size(content) == 0)
                json_array_append_new(content, json_pack("{s:s, s:s}", "type", "text", "text",
                                                         is_end ? "(no more output)" : "(no output yet)"));
        mcp_tool_answer(x, content,
                        json_pack("{s:o, s:O, s:b, s:O*, s:O*}", "data", data, "next", next, "end", is_end, "status",
                                  json_object_get(process, "status"), "exit_code",
                                  json_object_get(process, "exitCode")),
                        0);
}

static void on_output_page(struct mcp_exchange *x, const struct door_reply *reply)
{
        answer_page(x, door_string(json_object_get(reply->result, "data"), reply->attachments),
                    json_object_get(reply->result, "next"), json_is_true(json_object_get(reply->result, "end")), NULL);
}

static void look(struct mcp_exchange *x);

static void on_waited(struct mcp_exchange *x, const struct door_reply *reply)
{
        (void)reply;
        x->deadline_ns = 0;
        look(x);
}

static void on_deadline(struct mcp_exchange *x)
{
        mcp_call_off(x);
        look(x);
}

/* Any output ends the wait; that which was there before it is not sent again. */
static void on_more(struct mcp_exchange *x, const char *event, const json_t *about, const struct buf *attachments)
{
        const char *stream = mcp_text(about, "stream");

        (void)attachments;
        if (strcmp(event, "output") == 0 && stream && strcmp(stream, stream_of(x)) == 0)
                x->deadline_ns = 1; /* the timer's next turn */
}

static void wait_for_more(struct mcp_exchange *x)
{
        x->on_event = on_more;
        mcp_set_deadline(x, clock_now_ns() + (uint64_t)mcp_count(x, "wait_s", 0) * 1000000000, on_deadline);
        mcp_call(x, "process.follow",
                 json_pack("{s:O, s:b}", "process", json_object_get(x->arguments, "process"), "replay", 0), NULL,
                 on_waited);
}

static void on_logs(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct reading *reading = x->state;
        int is_stderr = strcmp(stream_of(x), "stderr") == 0,
            has_ended = strcmp(mcp_text(reading->process, "status"), "running") != 0;
        json_t *next = json_object_get(reply->result, is_stderr ? "stderrNext" : "stdoutNext"), *data;
        json_int_t total =
                json_integer_value(json_object_get(reply->result, is_stderr ? "stderrTotal" : "stdoutTotal"));

        if (total <= mcp_count(x, "offset", 0) && !has_ended && !reading->has_waited && mcp_count(x, "wait_s", 0) > 0) {
                reading->has_waited = 1;
                wait_for_more(x);
                return;
        }
        data = door_string(json_object_get(reply->result, is_stderr ? "stderr" : "stdout"), reply->attachments);
        answer_page(x, data, next, has_ended && json_integer_value(next) >= total, reading->process);
}

static void on_process(struct mcp_exchange *x, const struct door_reply *reply)
{
        struct reading *reading = x->state;

        json_decref(reading->process);
        reading->process = json_deep_copy(reply->result);
        mcp_call(x, "process.logs", page_params(x, "process"), NULL, on_logs);
}

/* The state first: a process that has ended by then prints no more. */
static void look(struct mcp_exchange *x)
{
        mcp_call(x, "process.get", json_pack("{s:O}", "process", json_object_get(x->arguments, "process")), NULL,
                 on_process);
}

void mcp_read_output(struct mcp_exchange *x)
{
        json_t *output = json_object_get(x->arguments, "output"), *params;

        if (!output == !json_object_get(x->arguments, "process")) {
                mcp_refuse(x, MCP_BAD_PARAMS, "read_output: expected either 'process' or 'output'");
                return;
        }
        if (output) {
                params = page_params(x, "output");
                json_object_set_new(params, "stream", json_string(stream_of(x)));
                mcp_call(x, "output.read", params, NULL, on_output_page);
                return;
        }
        x->state = calloc(1, sizeof(struct reading));
        x->state_done = x->state ? reading_done : NULL;
        if (x->state)
                look(x);
        else
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
}

/* -- the others -------------------------------------------------------------------------------------------------- */

static void on_sent(struct mcp_exchange *x, const struct door_reply *reply)
{
        (void)reply;
        answer_with(x, json_object());
}

void mcp_send_input(struct mcp_exchange *x)
{
        mcp_call(x, "process.input",
                 json_pack("{s:O, s:O*, s:O*}", "process", json_object_get(x->arguments, "process"), "data",
                           json_object_get(x->arguments, "data"), "end", json_object_get(x->arguments, "end")),
                 NULL, on_sent);
}

static void on_stopped(struct mcp_exchange *x, const struct door_reply *reply)
{
        answer_with(x, json_pack("{s:o}", "process", mcp_process_of(reply->result)));
}

void mcp_stop_process(struct mcp_exchange *x)
{
        mcp_call(x, "process.kill",
                 json_pack("{s:O, s:O*}", "process", json_object_get(x->arguments, "process"), "signal",
                           json_object_get(x->arguments, "signal")),
                 NULL, on_stopped);
}

static void on_processes(struct mcp_exchange *x, const struct door_reply *reply)
{
        json_t *processes = json_array(), *process;
        size_t i;

        json_array_foreach (json_object_get(reply->result, "processes"), i, process)
                json_array_append_new(processes, mcp_process_of(process));
        answer_with(x, json_pack("{s:o}", "processes", processes));
}

void mcp_list_processes(struct mcp_exchange *x)
{
        mcp_call(x, "process.list", json_object(), NULL, on_processes);
}
