/* Processes in the background: start, list, kill, and their output. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* -- a process in the form of clients -------------------------------------------------------------------------- */

static json_t *member(const json_t *process, const char *name)
{
        return json_incref(json_object_get(process, name));
}

/* has_nulls: missing values are null, for 0.3. */
static json_t *process_of(const json_t *process, const struct buf *attachments, int has_nulls)
{
        json_t *p = json_object(), *ended = member(process, "endedAt"), *code = member(process, "exitCode");

        door_put(p, "id", member(process, "process"));
        door_put(p, "pid", member(process, "pid"));
        door_put(p, "command", door_string(json_object_get(process, "command"), attachments));
        door_put(p, "status", member(process, "status"));
        door_put(p, "startTime", member(process, "startedAt"));
        door_put(p, "endTime", ended ? ended : has_nulls ? json_null() : NULL);
        door_put(p, "exitCode", code ? code : has_nulls ? json_null() : NULL);
        return door_put(p, "sessionId", member(process, "session"));
}

/* 0.3 sends Content-Type even without a body. */
static int is_old(const struct container_request *q)
{
        return q->has_type && !q->is_new;
}

static json_t *params_of(const struct container_request *q)
{
        return json_pack("{s:s}", "process", q->part);
}

/* -- start ----------------------------------------------------------------------------------------------------- */

static void started(struct container_request *q, const struct door_reply *reply)
{
        json_t *p = process_of(reply->result, reply->attachments, 1);
        json_t *answer = json_pack("{s:b, s:O?, s:O?, s:O}", "success", 1, "processId", json_object_get(p, "id"), "pid",
                                   json_object_get(p, "pid"), "command", container_field(q, "command"));

        container_answer(q, door_put(answer, "process", p));
}

/* 0.3 has the options in "options", with "timeout" among them; later clients have them beside the
 * command, with "timeoutMs". */
static json_t *option(const struct container_request *q, const char *name, const char *old_name)
{
        const json_t *options = container_field(q, "options");
        json_t *value = options ? json_object_get(options, old_name) : container_field(q, name);

        return json_is_null(value) ? NULL : json_incref(value);
}

static int check_options(struct container_request *q)
{
        static const struct {
                const char *name;
                int type;
                const char *expected;
        } rows[] = {
                {"processId", JSON_STRING, "a string"},
                {"cwd", JSON_STRING, "a string"},
                {"timeout", JSON_INTEGER, "a whole number, 0 or more"},
                {"env", JSON_OBJECT, "an object of strings"},
        };
        const json_t *options = container_field(q, "options");

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const json_t *value = json_object_get(options, rows[i].name);

                if (value && !json_is_null(value) && (int)json_typeof(value) != rows[i].type) {
                        container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL, "'options.%s' must be %s",
                                         rows[i].name, rows[i].expected);
                        return 0;
                }
        }
        return 1;
}

/* An id is never used twice, not even by a later daemon: clients keep ids. */
static json_t *made_up_id(void)
{
        char random[13];

        container_random(random, 12);
        return json_sprintf("proc_%llu_%s", (unsigned long long)clock_real_ms(), random);
}

static void start(struct container_request *q)
{
        const char *session = container_session(q);
        json_t *params = json_pack("{s:O}", "command", container_field(q, "command")),
               *id = option(q, "processId", "processId");

        door_put(params, "session", session ? json_string(session) : NULL);
        door_put(params, "process", id ? id : made_up_id());
        door_put(params, "cwd", option(q, "cwd", "cwd"));
        door_put(params, "env", option(q, "env", "env"));
        door_put(params, "timeoutMs", option(q, "timeoutMs", "timeout"));
        door_put(params, "autoCleanup", option(q, "autoCleanup", "autoCleanup"));
        container_call(q, "process.start", params, NULL, started);
}

static void start_made(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        start(q);
}

void container_process_start(struct container_request *q)
{
        if (strspn(container_text(q, "command"), " \t\n") == strlen(container_text(q, "command")))
                container_refuse(q, CONTAINER_INVALID_COMMAND, q->route->missing, NULL, "'command' is empty");
        else if (!check_options(q))
                return;
        else if (container_field(q, "options") && container_session(q))
                container_call_session(q, container_session(q), start);
        else
                container_make_session(q, start_made);
}

/* -- list and get ---------------------------------------------------------------------------------------------- */

static void listed(struct container_request *q, const struct door_reply *reply)
{
        const json_t *all = json_object_get(reply->result, "processes");
        json_t *processes = json_array();

        for (size_t i = 0; i < json_array_size(all); i++)
                json_array_append_new(processes, process_of(json_array_get(all, i), reply->attachments, is_old(q)));
        container_answer(q, json_pack("{s:b, s:i, s:o}", "success", 1, "count", (int)json_array_size(processes),
                                      "processes", processes));
}

/* Return the parameters for the session in the query, if there is one. */
static json_t *session_params(struct container_request *q)
{
        char *session = container_query(q, "session");
        json_t *params = door_put(json_object(), "session", session ? json_string(session) : NULL);

        free(session);
        return params;
}

static void in_session(struct container_request *q, void (*then)(struct container_request *q))
{
        char *session = container_query(q, "session");

        if (session)
                container_call_session(q, session, then);
        else
                then(q);
        free(session);
}

static void list(struct container_request *q)
{
        container_call(q, "process.list", session_params(q), NULL, listed);
}

void container_process_list(struct container_request *q)
{
        in_session(q, list);
}

static void got(struct container_request *q, const struct door_reply *reply)
{
        container_answer(q, json_pack("{s:b, s:o}", "success", 1, "process",
                                      process_of(reply->result, reply->attachments, is_old(q))));
}

void container_process_get(struct container_request *q)
{
        container_call(q, "process.get", params_of(q), NULL, got);
}

/* -- kill ------------------------------------------------------------------------------------------------------ */

static void killed(struct container_request *q, const struct door_reply *reply)
{
        json_t *answer = json_pack("{s:b, s:s, s:o}", "success", 1, "processId", q->part, "message",
                                   json_sprintf("Process %s killed", q->part));

        container_answer(q, door_put(answer, "sessionId", json_incref(json_object_get(reply->result, "session"))));
}

/* The process has ended already: there is nothing to kill. */
static void not_killed(struct container_request *q, const struct door_reply *reply)
{
        if (reply->e->code == CLOCHE_E_PROCESS_ENDED || reply->e->code == CLOCHE_E_STATE)
                container_call(q, "process.get", params_of(q), NULL, killed);
        else
                container_fail(q, reply);
}

void container_process_kill(struct container_request *q)
{
        q->fail = not_killed;
        container_call(q, "process.kill", params_of(q), NULL, killed);
}

static void all_killed(struct container_request *q, const struct door_reply *reply)
{
        json_int_t count = json_integer_value(json_object_get(reply->result, "count"));

        container_answer(q, json_pack("{s:b, s:I, s:I, s:o}", "success", 1, "killedCount", count, "cleanedCount", count,
                                      "message",
                                      json_sprintf("Killed %lld process%s", (long long)count, count == 1 ? "" : "es")));
}

static void kill_all(struct container_request *q)
{
        container_call(q, "process.killAll", session_params(q), NULL, all_killed);
}

void container_process_kill_all(struct container_request *q)
{
        in_session(q, kill_all);
}

/* -- output ---------------------------------------------------------------------------------------------------- */

static void logged(struct container_request *q, const struct door_reply *reply)
{
        json_t *answer = json_pack("{s:b, s:s, s:o, s:o}", "success", 1, "processId", q->part, "stdout",
                                   door_string(json_object_get(reply->result, "stdout"), reply->attachments), "stderr",
                                   door_string(json_object_get(reply->result, "stderr"), reply->attachments));
        const json_t *process = q->state;

        container_network_explain(q, answer, json_object_get(process, "exitCode")); /* also for a running process */
        container_answer(q, door_put(answer, "sessionId", json_incref(json_object_get(process, "session"))));
}

static void release(void *process)
{
        json_decref(process);
}

static void log_of(struct container_request *q, const struct door_reply *reply)
{
        json_t *params = params_of(q);

        q->state = json_copy((json_t *)reply->result);
        q->state_done = release;
        json_object_set_new(params, "limit", json_integer(CONTAINER_OUTPUT_BYTES));
        container_call(q, "process.logs", params, NULL, logged);
}

void container_process_logs(struct container_request *q)
{
        container_call(q, "process.get", params_of(q), NULL, log_of);
}

struct follow {
        struct container_utf8 out, err;
        struct container_network network;
        json_t *session;
};

static void follow_done(void *state)
{
        struct follow *follow = state;

        json_decref(follow->session);
        free(follow);
}

static void send_event(struct container_request *q, json_t *event)
{
        const struct follow *follow = q->state;

        json_object_set_new(event, "processId", json_string(q->part));
        container_line(q, door_put(event, "sessionId", json_incref(follow->session)));
}

static void send_text(struct container_request *q, const char *stream, const char *bytes, size_t size, int is_end)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        struct follow *follow = q->state;
        int is_err = strcmp(stream, "stderr") == 0;

        if (container_utf8_append(is_err ? &follow->err : &follow->out, bytes, size, is_end, &text) < 0 ||
            text.size == 0)
                return;
        send_event(q, json_pack("{s:s, s:s%}", "type", is_err ? "stderr" : "stdout", "data", text.data, text.size));
        if (is_err)
                container_network_search(&follow->network, &text);
}

/* Send our line once: when the line with the failure is complete, because the process may run for
 * long, or at the end. */
static void explain_network(struct container_request *q, int is_end)
{
        struct container_network *network = &((struct follow *)q->state)->network;
        char *line = network->words.is_found && !network->is_explained && (is_end || network->is_line_complete)
                             ? container_network_line(q)
                             : NULL;

        network->is_explained |= line != NULL;
        if (line)
                send_event(q, json_pack("{s:s, s:o}", "type", "stderr", "data",
                                        json_sprintf("%s%s", network->is_in_line ? "\n" : "", line)));
        free(line);
}

static void on_output(struct container_request *q, const char *event, const json_t *about,
                      const struct buf *attachments)
{
        const char *stream = json_string_value(json_object_get(about, "stream")), *bytes;
        size_t size;

        if (strcmp(event, "output") == 0 && stream &&
            door_bytes(json_object_get(about, "data"), attachments, &bytes, &size)) {
                send_text(q, stream, bytes, size, 0);
                explain_network(q, 0);
        }
}

/* 0.3 expects "complete", later clients "exit". Only 0.3 sends Accept: text/event-stream here. */
static int is_old_stream(const struct container_request *q)
{
        return q->takes_events && !q->is_new;
}

static void followed(struct container_request *q, const struct door_reply *reply)
{
        json_t *code = json_object_get(reply->result, "exitCode");
        json_t *event = json_pack("{s:s, s:O?}", "type", is_old_stream(q) ? "complete" : "exit", "exitCode", code);

        send_text(q, "stdout", "", 0, 1);
        send_text(q, "stderr", "", 0, 1);
        explain_network(q, 1);
        door_put(event, "status", json_incref(json_object_get(reply->result, "status")));
        json_object_set_new(event, "data",
                            json_sprintf("Process exited with code %lld", (long long)json_integer_value(code)));
        send_event(q, event);
        container_end(q);
}

static void not_followed(struct container_request *q, const struct door_reply *reply)
{
        send_event(q, json_pack("{s:s, s:o, s:o}", "type", "error", "error", container_words(reply->e->msg), "data",
                                container_words(reply->e->msg)));
        container_end(q);
}

static void follow(struct container_request *q, const struct door_reply *reply)
{
        struct follow *follow = calloc(1, sizeof(*follow));

        if (!follow) {
                container_refuse(q, CONTAINER_INTERNAL_ERROR, NULL, NULL, "out of memory");
                return;
        }
        follow->session = json_incref(json_object_get(reply->result, "session"));
        q->state = follow;
        q->state_done = follow_done;
        container_begin(q);
        if (!is_old_stream(q)) {
                json_t *event = json_pack("{s:s, s:O}", "type", "process_info", "status",
                                          json_object_get(reply->result, "status"));

                send_event(q, door_put(event, "command",
                                       door_string(json_object_get(reply->result, "command"), reply->attachments)));
        }
        q->on_event = on_output;
        q->fail = not_followed;
        container_call(q, "process.follow", params_of(q), NULL, followed);
}

void container_process_stream(struct container_request *q)
{
        container_call(q, "process.get", params_of(q), NULL, follow);
}
