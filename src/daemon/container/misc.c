/* Sessions, git, health and version: operations of a few lines each. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "daemon/web/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the server itself ----------------------------------------------------------------------------------------- */

void container_greet(struct container_request *q)
{
        static const char text[] = "A Cloche sandbox: its container API is below /api.\n";

        q->carrier->answer(q, 200, "text/plain; charset=utf-8", text, strlen(text));
}

void container_health(struct container_request *q)
{
        container_answer(q, json_pack("{s:b, s:s}", "success", 1, "status", "healthy"));
}

/* 0.3 sends Content-Type here, and expects "ready". */
void container_ping(struct container_request *q)
{
        container_answer(q, json_pack("{s:b, s:s, s:s, s:s, s:i}", "success", 1, "message", "pong", "status",
                                      q->has_type && !q->is_new ? "ready" : "healthy", "system", "cloche", "progress",
                                      100));
}

void container_version(struct container_request *q)
{
        container_answer(q, json_pack("{s:b, s:s}", "success", 1, "version", CLOCHE_VERSION));
}

/* -- commands -------------------------------------------------------------------------------------------------- */

static void found_commands(struct container_request *q, const struct door_reply *reply)
{
        json_t *text = door_string(json_object_get(reply->result, "stdout"), reply->attachments), *names = json_array();

        for (const char *at = json_string_value(text); at && *at;) {
                size_t size = strcspn(at, "\n");

                if (size > 0)
                        json_array_append_new(names, json_stringn(at, size));
                at += size + (at[size] == '\n');
        }
        json_decref(text);
        container_answer(q, json_pack("{s:b, s:i, s:o}", "success", 1, "count", (int)json_array_size(names),
                                      "availableCommands", names));
}

void container_commands(struct container_request *q)
{
        container_call(q, "exec",
                       json_pack("{s:s, s:b, s:i}", "command", "compgen -c | sort -u", "fork", 1, "outputBytes",
                                 CONTAINER_OUTPUT_BYTES),
                       NULL, found_commands);
}

/* -- sessions -------------------------------------------------------------------------------------------------- */

static void created(struct container_request *q, const struct door_reply *reply)
{
        const char *id = container_text(q, "id");
        int is_isolated = json_is_true(json_object_get(reply->result, "isolation"));

        /* 0.3 continues with the existing session; later clients get an error to decide on. */
        if (!json_is_true(json_object_get(reply->result, "created")) &&
            (q->is_new || container_field(q, "commandTimeoutMs"))) {
                container_refuse(q, CONTAINER_SESSION_ALREADY_EXISTS, NULL, json_pack("{s:n}", "containerPlacementId"),
                                 "Session '%.120s' already exists", id);
                return;
        }
        container_answer(q,
                         json_pack("{s:b, s:s, s:o, s:{s:s, s:O}, s:n}", "success", 1, "id", id, "message",
                                   json_sprintf("Session '%s' created with%s isolation", id, is_isolated ? "" : "out"),
                                   "data", "id", id, "cwd", json_object_get(reply->result, "cwd"),
                                   "containerPlacementId"));
}

void container_session_create(struct container_request *q)
{
        const char *id = container_text(q, "id");
        json_t *params = json_pack("{s:s}", "session", id);

        if (!*id) {
                json_decref(params);
                container_refuse(q, CONTAINER_VALIDATION_FAILED, q->route->missing, NULL, "'id' is empty");
                return;
        }
        door_put(params, "cwd", container_copy(q, "cwd"));
        door_put(params, "env", container_env(q, "env"));
        door_put(params, "isolation", container_copy(q, "isolation"));
        door_put(params, "timeoutMs", container_copy(q, "commandTimeoutMs"));
        container_call(q, "session.create", params, NULL, created);
}

static void listed(struct container_request *q, const struct door_reply *reply)
{
        const json_t *all = json_object_get(reply->result, "sessions");
        json_t *names = json_array();

        for (size_t i = 0; i < json_array_size(all); i++)
                json_array_append(names, json_object_get(json_array_get(all, i), "session"));
        container_answer(q, json_pack("{s:b, s:i, s:o}", "success", 1, "count", (int)json_array_size(names), "sessions",
                                      names));
}

void container_session_list(struct container_request *q)
{
        container_call(q, "session.list", json_object(), NULL, listed);
}

static void deleted(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        container_answer(q, json_pack("{s:b, s:O}", "success", 1, "sessionId", container_field(q, "sessionId")));
}

void container_session_delete(struct container_request *q)
{
        container_call(q, "session.delete", json_pack("{s:O}", "session", container_field(q, "sessionId")), NULL,
                       deleted);
}

/* -- git ------------------------------------------------------------------------------------------------------- */

/* Only clients of 0.4 and later send a timeout. */
static int is_old_git(const struct container_request *q)
{
        return !q->is_new && !container_field(q, "timeoutMs");
}

static json_t *git_answer(const struct container_request *q, int success, const char *stdout_text,
                          const char *stderr_text)
{
        json_t *dir = q->state;
        json_t *answer = json_pack("{s:b, s:i, s:O, s:O?, s:s, s:s}", "success", success, "exitCode", success ? 0 : 128,
                                   "repoUrl", container_field(q, "repoUrl"), "targetDir", dir, "stdout",
                                   stdout_text ? stdout_text : "", "stderr", stderr_text ? stderr_text : "");

        return door_put(answer, "branch", container_copy(q, "branch"));
}

static void cloned(struct container_request *q, const struct door_reply *reply)
{
        json_t *out = door_string(json_object_get(reply->result, "stdout"), reply->attachments);
        json_t *err = door_string(json_object_get(reply->result, "stderr"), reply->attachments);
        json_t *answer = git_answer(q, 1, json_string_value(out), json_string_value(err));

        json_decref(out);
        json_decref(err);
        door_put(answer, "repoUrl", json_incref(json_object_get(reply->result, "url")));
        door_put(answer, "branch", json_incref(json_object_get(reply->result, "branch")));
        door_put(answer, "commit", json_incref(json_object_get(reply->result, "commit")));
        if (!q->state) /* else it is in the answer, as given */
                door_put(answer, "targetDir", json_incref(json_object_get(reply->result, "dir")));
        container_answer(q, answer);
}

static void git_failed(struct container_request *q, const struct door_reply *reply, const char *printed)
{
        enum container_code code = container_code_of(q, reply->e->code);
        const json_t *exit_code = json_object_get(reply->about, "exitCode");
        json_t *url = json_object_get(reply->about, "url"); /* without credentials */
        json_t *context =
                json_pack("{s:{s:O?, s:O?, s:O?, s:O?, s:o}}", "context", "repoUrl", url, "repository", url,
                          "targetDir", (json_t *)q->state, "exitCode", exit_code, "stderr", container_words(printed));

        char why[800] = "";

        if (reply->e->code == CLOCHE_E_GIT_NETWORK)
                (void)sandboxes_explain_network(q->door.daemon->sandboxes, q->door.principal, q->door.sandbox, why,
                                                sizeof(why));
        if (code == CONTAINER_GIT_REPOSITORY_NOT_FOUND && !strcasestr(printed, "repository not found"))
                code = CONTAINER_GIT_OPERATION_FAILED;
        container_refuse(q, code, q->route->failed, context, "Failed to clone repository '%.150s': %.260s%s",
                         json_string_value(url), printed, why);
}

static void not_cloned(struct container_request *q, const struct door_reply *reply)
{
        /* The error has one line of the output of git. */
        const json_t *printed = json_object_get(reply->about, "stderr");
        const char *text = printed ? json_string_value(printed) : reply->e->msg;

        if (printed && is_old_git(q)) {
                json_t *answer = door_put(git_answer(q, 0, NULL, NULL), "stderr", container_words(text));

                container_network_explain(q, answer, json_object_get(reply->about, "exitCode"));
                container_answer(q, answer);
        } else if (printed)
                git_failed(q, reply, text);
        else if (reply->e->code == CLOCHE_E_INVALID_ARGUMENT)
                container_refuse(q, CONTAINER_INVALID_GIT_URL, "Invalid repository URL format", NULL, "%s",
                                 reply->e->msg);
        else
                container_fail(q, reply);
}

static void release(void *dir)
{
        json_decref(dir);
}

/* The default directory for 0.3. */
static json_t *made_up_dir(void)
{
        char random[13];

        container_random(random, 12);
        return json_sprintf("/workspace/repo_%lld_%s", (long long)clock_real_ms(), random);
}

static void clone_it(struct container_request *q, const struct door_reply *reply)
{
        const char *session = container_session(q);
        json_t *params = json_pack("{s:O}", "url", container_field(q, "repoUrl"));

        (void)reply;
        door_put(params, "dir", json_incref(q->state));
        door_put(params, "branch", container_copy(q, "branch"));
        door_put(params, "depth", container_copy(q, "depth"));
        door_put(params, "timeoutMs", container_copy(q, "timeoutMs"));
        door_put(params, "session", session ? json_string(session) : NULL);
        q->fail = not_cloned;
        container_call(q, "git.checkout", params, NULL, cloned);
}

void container_git(struct container_request *q)
{
        q->state = container_field(q, "targetDir") ? container_copy(q, "targetDir")
                   : is_old_git(q)                 ? made_up_dir()
                                                   : NULL;
        q->state_done = release;
        container_make_session(q, clone_it);
}

/* -- not supported --------------------------------------------------------------------------------------------- */

/* Clients of 0.12 show the message of this code alone, else that the container cannot be reached.
 * With its usual status, 503, they would try again for two minutes. */
void container_rpc(struct container_request *q)
{
        container_refuse(q, CONTAINER_NOT_IMPLEMENTED, NULL, json_pack("{s:s}", "code", "CONTAINER_UNAVAILABLE"),
                         "The transport \"rpc\" (capnweb) is not served; use \"http\" or \"websocket\"");
}

void container_backup_upload(struct container_request *q)
{
        container_refuse(q, CONTAINER_NOT_IMPLEMENTED, NULL, NULL,
                         "Archives are not uploaded from here; read the archive with /api/read/stream");
}

/* -- terminal -------------------------------------------------------------------------------------------------- */

static unsigned number(const struct container_request *q, const char *name)
{
        char *text = container_query(q, name);
        unsigned long value = text ? strtoul(text, NULL, 10) : 0;

        free(text);
        return value <= 1000 ? (unsigned)value : 1000;
}

static void open_terminal(struct container_request *q, const struct door_reply *reply)
{
        char *session = container_query(q, "sessionId"), *shell = container_query(q, "shell");
        const struct terminal_options options = {.session = session,
                                                 .shell = shell,
                                                 .cols = number(q, "cols"),
                                                 .rows = number(q, "rows")};
        struct cloche_err e = {0};

        (void)reply;
        if (terminal_open(q->door.daemon, q->request, q->door.principal, q->door.sandbox, &options, &e) < 0)
                container_refuse(q, container_code_of(q, e.code), NULL, NULL, "%s", e.msg);
        else
                container_request_free(q); /* the terminal owns the request now */
        free(session);
        free(shell);
}

void container_terminal(struct container_request *q)
{
        char *session = container_query(q, "sessionId");

        if (!q->request)
                container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL, "a terminal is a WebSocket of its own");
        else if (session)
                container_call(q, "session.create", json_pack("{s:s}", "session", session), NULL, open_terminal);
        else
                open_terminal(q, NULL);
        free(session);
}
