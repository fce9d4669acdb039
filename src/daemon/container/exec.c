/* Commands: POST /api/execute and /api/execute/stream. Runs in: cloched-engine, on its loop, with
 * the rights of the daemon's user. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* -- for both requests ----------------------------------------------------------------------------------------- */

/* Clients of 0.3 name an existing session "id"; for later ones "sessionId" is created. */
static int is_old(const struct container_request *q)
{
        return container_text(q, "id") != NULL;
}

static const char *session_of(const struct container_request *q)
{
        return is_old(q) ? container_text(q, "id") : container_session(q);
}

static json_t *params_of(const struct container_request *q, int fork)
{
        const char *session = session_of(q);
        json_t *params = json_pack("{s:O, s:b, s:i}", "command", container_field(q, "command"), "fork", fork,
                                   "outputBytes", CONTAINER_OUTPUT_BYTES);

        door_put(params, "session", session ? json_string(session) : NULL);
        door_put(params, "timeoutMs", container_copy(q, "timeoutMs"));
        door_put(params, "env", container_copy(q, "env"));
        return door_put(params, "cwd", container_copy(q, "cwd"));
}

static json_t *with_session(const struct container_request *q, json_t *object)
{
        const char *session = session_of(q);

        return door_put(object, "sessionId", session ? json_string(session) : NULL);
}

/* True if the session's timeout expired: clients of 0.4 and later throw then. Without a session the
 * result is exit code 124. */
static int is_timeout(const struct container_request *q, const json_t *result)
{
        return json_is_true(json_object_get(result, "timedOut")) && !is_old(q) && !container_is_sessionless(q);
}

static json_int_t timeout_of(const struct container_request *q, const json_t *result)
{
        const json_t *value = container_field(q, "timeoutMs");

        return json_integer_value(value ? value : json_object_get(result, "durationMs"));
}

/* -- execute --------------------------------------------------------------------------------------------------- */

static json_t *outcome_of(const struct door_reply *reply)
{
        json_int_t code = json_integer_value(json_object_get(reply->result, "exitCode"));

        return json_pack("{s:b, s:I, s:o, s:o}", "success", code == 0, "exitCode", code, "stdout",
                         door_string(json_object_get(reply->result, "stdout"), reply->attachments), "stderr",
                         door_string(json_object_get(reply->result, "stderr"), reply->attachments));
}

/* The output is a member of the error, and also of its context, which is all that later clients
 * keep of an error. */
static json_t *in_context(json_t *outcome)
{
        json_object_set_new(outcome, "context", json_copy(outcome));
        return outcome;
}

/* The session's shell has exited with the command. The next command starts a new one. */
static void terminated(struct container_request *q, json_t *outcome)
{
        long long code = json_integer_value(json_object_get(outcome, "exitCode"));

        if (is_old(q))
                container_refuse(q, CONTAINER_COMMAND_EXECUTION_ERROR, q->route->failed, in_context(outcome),
                                 "Control process exited with code %lld", code);
        else
                container_refuse(q, CONTAINER_SESSION_TERMINATED, NULL, in_context(outcome),
                                 "Session '%.120s' shell exited (exit code: %lld)",
                                 session_of(q) ? session_of(q) : "default", code);
}

static void executed(struct container_request *q, const struct door_reply *reply)
{
        json_t *answer = outcome_of(reply);

        container_network_explain(q, answer, json_object_get(answer, "exitCode"));
        if (is_timeout(q, reply->result)) {
                container_refuse(q, CONTAINER_COMMAND_EXECUTION_ERROR, NULL, in_context(answer),
                                 "Command timeout after %lldms", (long long)timeout_of(q, reply->result));
                return;
        }
        if (json_is_true(json_object_get(reply->result, "sessionEnded"))) {
                terminated(q, answer);
                return;
        }
        door_put(answer, "command", container_copy(q, "command"));
        door_put(answer, "duration", json_incref(json_object_get(reply->result, "durationMs")));
        if (json_is_true(json_object_get(reply->result, "truncated")))
                json_object_set_new(answer, "truncated", json_true());
        container_answer(q, with_session(q, answer));
}

static void execute(struct container_request *q)
{
        container_call(q, "exec", params_of(q, container_is_sessionless(q)), NULL, executed);
}

static void execute_made(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        execute(q);
}

/* True if the command is not empty; else it is refused. */
static int check_command(struct container_request *q)
{
        if (strspn(container_text(q, "command"), " \t\n") < strlen(container_text(q, "command")))
                return 1;
        container_refuse(q, CONTAINER_INVALID_COMMAND, q->route->missing, NULL, "'command' is empty");
        return 0;
}

void container_execute(struct container_request *q)
{
        if (!check_command(q))
                return;
        if (is_old(q))
                container_call_session(q, container_text(q, "id"), execute);
        else
                container_make_session(q, execute_made);
}

/* -- execute/stream -------------------------------------------------------------------------------------------- */

struct streams {
        struct container_utf8 out, err;
        struct container_network network;
};

static void send_event(struct container_request *q, json_t *event)
{
        door_put(event, "command", container_copy(q, "command"));
        container_line(q, with_session(q, event));
}

static void send_text(struct container_request *q, const char *stream, const char *bytes, size_t size, int is_end)
{
        struct streams *streams = q->state;
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        struct container_utf8 *utf8 = strcmp(stream, "stderr") == 0 ? &streams->err : &streams->out;

        if (container_utf8_append(utf8, bytes, size, is_end, &text) < 0 || text.size == 0)
                return;
        send_event(q, json_pack("{s:s, s:s%}", "type", stream, "data", text.data, text.size));
        if (utf8 == &streams->err)
                container_network_search(&streams->network, &text);
}

static void explain_stream(struct container_request *q, const json_t *result)
{
        const struct streams *streams = q->state;
        char *line = streams->network.words.is_found && json_integer_value(json_object_get(result, "exitCode")) != 0
                             ? container_network_line(q)
                             : NULL;

        if (line)
                send_event(q, json_pack("{s:s, s:s}", "type", "stderr", "data", line));
        free(line);
}

static void on_output(struct container_request *q, const char *event, const json_t *about,
                      const struct buf *attachments)
{
        const char *stream = json_string_value(json_object_get(about, "stream")), *bytes;
        size_t size;

        if (strcmp(event, "output") == 0 && stream &&
            door_bytes(json_object_get(about, "data"), attachments, &bytes, &size))
                send_text(q, stream, bytes, size, 0);
}

static void stream_ended(struct container_request *q, const struct door_reply *reply)
{
        json_t *event;

        send_text(q, "stdout", "", 0, 1);
        send_text(q, "stderr", "", 0, 1);
        explain_stream(q, reply->result);
        if (is_timeout(q, reply->result))
                event = json_pack("{s:s, s:o}", "type", "error", "error",
                                  json_sprintf("Command timeout after %lldms",
                                               (long long)timeout_of(q, reply->result)));
        else
                event = json_pack("{s:s, s:O}", "type", "complete", "exitCode",
                                  json_object_get(reply->result, "exitCode"));
        door_put(event, "data", json_incref(json_object_get(event, "error")));
        if (is_old(q))
                door_put(event, "result", outcome_of(reply));
        send_event(q, event);
        container_end(q);
}

static void stream_failed(struct container_request *q, const struct door_reply *reply)
{
        send_event(q, json_pack("{s:s, s:o, s:o, s:o}", "type", "error", "error", container_words(reply->e->msg),
                                "data", container_words(reply->e->msg), "message", container_words(reply->e->msg)));
        container_end(q);
}

/* Clients of 0.3 stream in the session's shell, later ones in a process beside it. */
static void execute_stream(struct container_request *q)
{
        json_t *params = params_of(q, !is_old(q));

        q->state = calloc(1, sizeof(struct streams));
        q->state_done = free;
        if (!q->state) {
                json_decref(params);
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
                return;
        }
        json_object_set_new(params, "stream", json_true());
        if (!is_old(q)) /* the output is not read a second time */
                json_object_set_new(params, "outputBytes", json_integer(0));
        container_begin(q);
        send_event(q, json_pack("{s:s}", "type", "start"));
        q->fail = stream_failed;
        q->on_event = on_output;
        container_call(q, "exec", params, NULL, stream_ended);
}

static void execute_stream_made(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        execute_stream(q);
}

void container_execute_stream(struct container_request *q)
{
        if (!check_command(q))
                return;
        if (is_old(q))
                container_call_session(q, container_text(q, "id"), execute_stream);
        else
                container_make_session(q, execute_stream_made);
}
