#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* -- for both requests ----------------------------------------------------------------------------------------- */

/* Clients of 0.3 name an existing session "id"; for later ones "sessionId" is created. */
static int is_old(const struct container_ask *a)
{
        return container_text(a, "id") != NULL;
}

static const char *session_of(const struct container_ask *a)
{
        return is_old(a) ? container_text(a, "id") : container_session(a);
}

static json_t *params_of(const struct container_ask *a, int fork)
{
        const char *session = session_of(a);
        json_t *params = json_pack("{s:O, s:b, s:i}", "command", container_field(a, "command"), "fork", fork,
                                   "outputBytes", CONTAINER_OUTPUT_BYTES);

        container_put(params, "session", session ? json_string(session) : NULL);
        container_put(params, "timeoutMs", container_copy(a, "timeoutMs"));
        container_put(params, "env", container_copy(a, "env"));
        return container_put(params, "cwd", container_copy(a, "cwd"));
}

static json_t *with_session(const struct container_ask *a, json_t *object)
{
        const char *session = session_of(a);

        return container_put(object, "sessionId", session ? json_string(session) : NULL);
}

/* True if the session's timeout expired: clients of 0.4 and later throw then. Without a session the
 * result is exit code 124. */
static int is_timeout(const struct container_ask *a, const json_t *result)
{
        return json_is_true(json_object_get(result, "timedOut")) && !is_old(a) && !container_is_sessionless(a);
}

static json_int_t timeout_of(const struct container_ask *a, const json_t *result)
{
        const json_t *said = container_field(a, "timeoutMs");

        return json_integer_value(said ? said : json_object_get(result, "durationMs"));
}

/* -- execute --------------------------------------------------------------------------------------------------- */

static json_t *outcome_of(const struct container_reply *reply)
{
        json_int_t code = json_integer_value(json_object_get(reply->result, "exitCode"));

        return json_pack("{s:b, s:I, s:o, s:o}", "success", code == 0, "exitCode", code, "stdout",
                         container_string(json_object_get(reply->result, "stdout"), reply->attachments), "stderr",
                         container_string(json_object_get(reply->result, "stderr"), reply->attachments));
}

/* The output is a member of the error, and also of its context, which is all that later clients
 * keep of an error. */
static json_t *in_context(json_t *outcome)
{
        json_object_set_new(outcome, "context", json_copy(outcome));
        return outcome;
}

/* The session's shell has exited with the command. The next command starts a new one. */
static void terminated(struct container_ask *a, json_t *outcome)
{
        long long code = json_integer_value(json_object_get(outcome, "exitCode"));

        if (is_old(a))
                container_refuse(a, CONTAINER_COMMAND_EXECUTION_ERROR, a->route->failed, in_context(outcome),
                                 "Control process exited with code %lld", code);
        else
                container_refuse(a, CONTAINER_SESSION_TERMINATED, NULL, in_context(outcome),
                                 "Session '%.120s' shell exited (exit code: %lld)",
                                 session_of(a) ? session_of(a) : "default", code);
}

static void executed(struct container_ask *a, const struct container_reply *reply)
{
        json_t *answer = outcome_of(reply);

        container_network_explain(a, answer, json_object_get(answer, "exitCode"));
        if (is_timeout(a, reply->result)) {
                container_refuse(a, CONTAINER_COMMAND_EXECUTION_ERROR, NULL, in_context(answer),
                                 "Command timeout after %lldms", (long long)timeout_of(a, reply->result));
                return;
        }
        if (json_is_true(json_object_get(reply->result, "sessionEnded"))) {
                terminated(a, answer);
                return;
        }
        container_put(answer, "command", container_copy(a, "command"));
        container_put(answer, "duration", json_incref(json_object_get(reply->result, "durationMs")));
        if (json_is_true(json_object_get(reply->result, "truncated")))
                json_object_set_new(answer, "truncated", json_true());
        container_answer(a, with_session(a, answer));
}

static void execute(struct container_ask *a)
{
        container_call(a, "exec", params_of(a, container_is_sessionless(a)), NULL, executed);
}

static void execute_made(struct container_ask *a, const struct container_reply *reply)
{
        (void)reply;
        execute(a);
}

/* True if the command is not empty; else it is refused. */
static int check_command(struct container_ask *a)
{
        if (strspn(container_text(a, "command"), " \t\n") < strlen(container_text(a, "command")))
                return 1;
        container_refuse(a, CONTAINER_INVALID_COMMAND, a->route->missing, NULL, "'command' is empty");
        return 0;
}

void container_execute(struct container_ask *a)
{
        if (!check_command(a))
                return;
        if (is_old(a))
                container_call_session(a, container_text(a, "id"), execute);
        else
                container_make_session(a, execute_made);
}

/* -- execute/stream -------------------------------------------------------------------------------------------- */

struct streams {
        struct container_utf8 out, err;
        struct container_network network;
};

static void tell(struct container_ask *a, json_t *event)
{
        container_put(event, "command", container_copy(a, "command"));
        container_line(a, with_session(a, event));
}

static void tell_text(struct container_ask *a, const char *stream, const char *bytes, size_t size, int is_end)
{
        struct streams *streams = a->state;
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        struct container_utf8 *utf8 = strcmp(stream, "stderr") == 0 ? &streams->err : &streams->out;

        if (container_utf8_append(utf8, bytes, size, is_end, &text) < 0 || text.size == 0)
                return;
        tell(a, json_pack("{s:s, s:s%}", "type", stream, "data", text.data, text.size));
        if (utf8 == &streams->err)
                container_network_look(&streams->network, &text);
}

static void explain_stream(struct container_ask *a, const json_t *result)
{
        const struct streams *streams = a->state;
        char *line = streams->network.words.is_found && json_integer_value(json_object_get(result, "exitCode")) != 0
                             ? container_network_line(a)
                             : NULL;

        if (line)
                tell(a, json_pack("{s:s, s:s}", "type", "stderr", "data", line));
        free(line);
}

static void on_output(struct container_ask *a, const char *event, const json_t *about, const struct buf *attachments)
{
        const char *stream = json_string_value(json_object_get(about, "stream")), *bytes;
        size_t size;

        if (strcmp(event, "output") == 0 && stream &&
            container_bytes(json_object_get(about, "data"), attachments, &bytes, &size))
                tell_text(a, stream, bytes, size, 0);
}

static void stream_ended(struct container_ask *a, const struct container_reply *reply)
{
        json_t *event;

        tell_text(a, "stdout", "", 0, 1);
        tell_text(a, "stderr", "", 0, 1);
        explain_stream(a, reply->result);
        if (is_timeout(a, reply->result))
                event = json_pack("{s:s, s:o}", "type", "error", "error",
                                  json_sprintf("Command timeout after %lldms",
                                               (long long)timeout_of(a, reply->result)));
        else
                event = json_pack("{s:s, s:O}", "type", "complete", "exitCode",
                                  json_object_get(reply->result, "exitCode"));
        container_put(event, "data", json_incref(json_object_get(event, "error")));
        if (is_old(a))
                container_put(event, "result", outcome_of(reply));
        tell(a, event);
        container_end(a);
}

static void stream_failed(struct container_ask *a, const struct container_reply *reply)
{
        tell(a, json_pack("{s:s, s:o, s:o, s:o}", "type", "error", "error", container_words(reply->e->msg), "data",
                          container_words(reply->e->msg), "message", container_words(reply->e->msg)));
        container_end(a);
}

/* Clients of 0.3 stream in the session's shell, later ones in a process beside it. */
static void execute_stream(struct container_ask *a)
{
        json_t *params = params_of(a, !is_old(a));

        a->state = calloc(1, sizeof(struct streams));
        a->state_done = free;
        if (!a->state) {
                json_decref(params);
                container_refuse(a, CONTAINER_INTERNAL_ERROR, a->route->failed, NULL, "out of memory");
                return;
        }
        json_object_set_new(params, "stream", json_true());
        if (!is_old(a)) /* the output is not read a second time */
                json_object_set_new(params, "outputBytes", json_integer(0));
        container_begin(a);
        tell(a, json_pack("{s:s}", "type", "start"));
        a->fail = stream_failed;
        a->on_event = on_output;
        container_call(a, "exec", params, NULL, stream_ended);
}

static void execute_stream_made(struct container_ask *a, const struct container_reply *reply)
{
        (void)reply;
        execute_stream(a);
}

void container_execute_stream(struct container_ask *a)
{
        if (!check_command(a))
                return;
        if (is_old(a))
                container_call_session(a, container_text(a, "id"), execute_stream);
        else
                container_make_session(a, execute_stream_made);
}
