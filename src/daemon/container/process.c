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

        container_put(p, "id", member(process, "process"));
        container_put(p, "pid", member(process, "pid"));
        container_put(p, "command", container_string(json_object_get(process, "command"), attachments));
        container_put(p, "status", member(process, "status"));
        container_put(p, "startTime", member(process, "startedAt"));
        container_put(p, "endTime", ended ? ended : has_nulls ? json_null() : NULL);
        container_put(p, "exitCode", code ? code : has_nulls ? json_null() : NULL);
        return container_put(p, "sessionId", member(process, "session"));
}

/* 0.3 sends Content-Type even without a body. */
static int is_old(const struct container_ask *a)
{
        return a->has_type && !a->is_new;
}

static json_t *params_of(const struct container_ask *a)
{
        return json_pack("{s:s}", "process", a->part);
}

/* -- start ----------------------------------------------------------------------------------------------------- */

static void started(struct container_ask *a, const struct container_reply *reply)
{
        json_t *p = process_of(reply->result, reply->attachments, 1);
        json_t *answer = json_pack("{s:b, s:O?, s:O?, s:O}", "success", 1, "processId", json_object_get(p, "id"), "pid",
                                   json_object_get(p, "pid"), "command", container_field(a, "command"));

        container_answer(a, container_put(answer, "process", p));
}

/* 0.3 has the options in "options", with "timeout" among them; later clients have them beside the
 * command, with "timeoutMs". */
static json_t *option(const struct container_ask *a, const char *name, const char *old_name)
{
        const json_t *options = container_field(a, "options");
        json_t *value = options ? json_object_get(options, old_name) : container_field(a, name);

        return json_is_null(value) ? NULL : json_incref(value);
}

static int check_options(struct container_ask *a)
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
        const json_t *options = container_field(a, "options");

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const json_t *value = json_object_get(options, rows[i].name);

                if (value && !json_is_null(value) && (int)json_typeof(value) != rows[i].type) {
                        container_refuse(a, CONTAINER_VALIDATION_FAILED, NULL, NULL, "'options.%s' must be %s",
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

static void start(struct container_ask *a)
{
        const char *session = container_session(a);
        json_t *params = json_pack("{s:O}", "command", container_field(a, "command")),
               *id = option(a, "processId", "processId");

        container_put(params, "session", session ? json_string(session) : NULL);
        container_put(params, "process", id ? id : made_up_id());
        container_put(params, "cwd", option(a, "cwd", "cwd"));
        container_put(params, "env", option(a, "env", "env"));
        container_put(params, "timeoutMs", option(a, "timeoutMs", "timeout"));
        container_put(params, "autoCleanup", option(a, "autoCleanup", "autoCleanup"));
        container_call(a, "process.start", params, NULL, started);
}

static void start_made(struct container_ask *a, const struct container_reply *reply)
{
        (void)reply;
        start(a);
}

void container_process_start(struct container_ask *a)
{
        if (strspn(container_text(a, "command"), " \t\n") == strlen(container_text(a, "command")))
                container_refuse(a, CONTAINER_INVALID_COMMAND, a->route->missing, NULL, "'command' is empty");
        else if (!check_options(a))
                return;
        else if (container_field(a, "options") && container_session(a))
                container_call_session(a, container_session(a), start);
        else
                container_make_session(a, start_made);
}

/* -- list and get ---------------------------------------------------------------------------------------------- */

static void listed(struct container_ask *a, const struct container_reply *reply)
{
        const json_t *all = json_object_get(reply->result, "processes");
        json_t *processes = json_array();

        for (size_t i = 0; i < json_array_size(all); i++)
                json_array_append_new(processes, process_of(json_array_get(all, i), reply->attachments, is_old(a)));
        container_answer(a, json_pack("{s:b, s:i, s:o}", "success", 1, "count", (int)json_array_size(processes),
                                      "processes", processes));
}

/* Return the parameters for the session in the query, if there is one. */
static json_t *session_params(struct container_ask *a)
{
        char *session = container_query(a, "session");
        json_t *params = container_put(json_object(), "session", session ? json_string(session) : NULL);

        free(session);
        return params;
}

static void in_session(struct container_ask *a, void (*then)(struct container_ask *a))
{
        char *session = container_query(a, "session");

        if (session)
                container_call_session(a, session, then);
        else
                then(a);
        free(session);
}

static void list(struct container_ask *a)
{
        container_call(a, "process.list", session_params(a), NULL, listed);
}

void container_process_list(struct container_ask *a)
{
        in_session(a, list);
}

static void got(struct container_ask *a, const struct container_reply *reply)
{
        container_answer(a, json_pack("{s:b, s:o}", "success", 1, "process",
                                      process_of(reply->result, reply->attachments, is_old(a))));
}

void container_process_get(struct container_ask *a)
{
        container_call(a, "process.get", params_of(a), NULL, got);
}

/* -- kill ------------------------------------------------------------------------------------------------------ */

static void killed(struct container_ask *a, const struct container_reply *reply)
{
        json_t *answer = json_pack("{s:b, s:s, s:o}", "success", 1, "processId", a->part, "message",
                                   json_sprintf("Process %s killed", a->part));

        container_answer(a, container_put(answer, "sessionId", json_incref(json_object_get(reply->result, "session"))));
}

/* The process has ended already: there is nothing to kill. */
static void not_killed(struct container_ask *a, const struct container_reply *reply)
{
        if (reply->e->code == CLOCHE_E_PROCESS_ENDED || reply->e->code == CLOCHE_E_STATE)
                container_call(a, "process.get", params_of(a), NULL, killed);
        else
                container_fail(a, reply);
}

void container_process_kill(struct container_ask *a)
{
        a->fail = not_killed;
        container_call(a, "process.kill", params_of(a), NULL, killed);
}

static void all_killed(struct container_ask *a, const struct container_reply *reply)
{
        json_int_t count = json_integer_value(json_object_get(reply->result, "count"));

        container_answer(a, json_pack("{s:b, s:I, s:I, s:o}", "success", 1, "killedCount", count, "cleanedCount", count,
                                      "message",
                                      json_sprintf("Killed %lld process%s", (long long)count, count == 1 ? "" : "es")));
}

static void kill_all(struct container_ask *a)
{
        container_call(a, "process.killAll", session_params(a), NULL, all_killed);
}

void container_process_kill_all(struct container_ask *a)
{
        in_session(a, kill_all);
}

/* -- output ---------------------------------------------------------------------------------------------------- */

static void logged(struct container_ask *a, const struct container_reply *reply)
{
        json_t *answer =
                json_pack("{s:b, s:s, s:o, s:o}", "success", 1, "processId", a->part, "stdout",
                          container_string(json_object_get(reply->result, "stdout"), reply->attachments), "stderr",
                          container_string(json_object_get(reply->result, "stderr"), reply->attachments));
        const json_t *process = a->state;

        container_network_explain(a, answer, json_object_get(process, "exitCode")); /* also for a running process */
        container_answer(a, container_put(answer, "sessionId", json_incref(json_object_get(process, "session"))));
}

static void release(void *process)
{
        json_decref(process);
}

static void log_of(struct container_ask *a, const struct container_reply *reply)
{
        json_t *params = params_of(a);

        a->state = json_copy((json_t *)reply->result);
        a->state_done = release;
        json_object_set_new(params, "limit", json_integer(CONTAINER_OUTPUT_BYTES));
        container_call(a, "process.logs", params, NULL, logged);
}

void container_process_logs(struct container_ask *a)
{
        container_call(a, "process.get", params_of(a), NULL, log_of);
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

static void tell(struct container_ask *a, json_t *event)
{
        const struct follow *follow = a->state;

        json_object_set_new(event, "processId", json_string(a->part));
        container_line(a, container_put(event, "sessionId", json_incref(follow->session)));
}

static void tell_text(struct container_ask *a, const char *stream, const char *bytes, size_t size, int is_end)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        struct follow *follow = a->state;
        int is_err = strcmp(stream, "stderr") == 0;

        if (container_utf8_append(is_err ? &follow->err : &follow->out, bytes, size, is_end, &text) < 0 ||
            text.size == 0)
                return;
        tell(a, json_pack("{s:s, s:s%}", "type", is_err ? "stderr" : "stdout", "data", text.data, text.size));
        if (is_err)
                container_network_look(&follow->network, &text);
}

/* Send our line once: when the line with the failure is complete, because the process may run for
 * long, or at the end. */
static void explain_network(struct container_ask *a, int is_end)
{
        struct container_network *network = &((struct follow *)a->state)->network;
        char *line = network->words.is_found && !network->is_explained && (is_end || network->is_line_over)
                             ? container_network_line(a)
                             : NULL;

        network->is_explained |= line != NULL;
        if (line)
                tell(a, json_pack("{s:s, s:o}", "type", "stderr", "data",
                                  json_sprintf("%s%s", network->is_in_line ? "\n" : "", line)));
        free(line);
}

static void on_output(struct container_ask *a, const char *event, const json_t *about, const struct buf *attachments)
{
        const char *stream = json_string_value(json_object_get(about, "stream")), *bytes;
        size_t size;

        if (strcmp(event, "output") == 0 && stream &&
            container_bytes(json_object_get(about, "data"), attachments, &bytes, &size)) {
                tell_text(a, stream, bytes, size, 0);
                explain_network(a, 0);
        }
}

/* 0.3 expects "complete", later clients "exit". Only 0.3 sends Accept: text/event-stream here. */
static int is_old_stream(const struct container_ask *a)
{
        return a->takes_events && !a->is_new;
}

static void followed(struct container_ask *a, const struct container_reply *reply)
{
        json_t *code = json_object_get(reply->result, "exitCode");
        json_t *event = json_pack("{s:s, s:O?}", "type", is_old_stream(a) ? "complete" : "exit", "exitCode", code);

        tell_text(a, "stdout", "", 0, 1);
        tell_text(a, "stderr", "", 0, 1);
        explain_network(a, 1);
        container_put(event, "status", json_incref(json_object_get(reply->result, "status")));
        json_object_set_new(event, "data",
                            json_sprintf("Process exited with code %lld", (long long)json_integer_value(code)));
        tell(a, event);
        container_end(a);
}

static void not_followed(struct container_ask *a, const struct container_reply *reply)
{
        tell(a, json_pack("{s:s, s:o, s:o}", "type", "error", "error", container_words(reply->e->msg), "data",
                          container_words(reply->e->msg)));
        container_end(a);
}

static void follow(struct container_ask *a, const struct container_reply *reply)
{
        struct follow *follow = calloc(1, sizeof(*follow));

        if (!follow) {
                container_refuse(a, CONTAINER_INTERNAL_ERROR, NULL, NULL, "out of memory");
                return;
        }
        follow->session = json_incref(json_object_get(reply->result, "session"));
        a->state = follow;
        a->state_done = follow_done;
        container_begin(a);
        if (!is_old_stream(a)) {
                json_t *event = json_pack("{s:s, s:O}", "type", "process_info", "status",
                                          json_object_get(reply->result, "status"));

                tell(a, container_put(event, "command",
                                      container_string(json_object_get(reply->result, "command"), reply->attachments)));
        }
        a->on_event = on_output;
        a->fail = not_followed;
        container_call(a, "process.follow", params_of(a), NULL, followed);
}

void container_process_stream(struct container_ask *a)
{
        container_call(a, "process.get", params_of(a), NULL, follow);
}
