/* One request of the API: its body, its requests to sandboxes, its answer. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/err.h"
#include "wire/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_TYPE "text/plain; charset=utf-8"

/* -- requests to the core -------------------------------------------------------------------------------------- */

DOOR_HOOKS(container, container_request, container_fail)

/* -- life ------------------------------------------------------------------------------------------------------ */

struct container_request *container_request_new(struct daemon *d, const struct container_carrier *carrier,
                                                int64_t principal, const char *sandbox, const char *query)
{
        struct container_request *q = calloc(1, sizeof(*q));

        if (!q)
                return NULL;
        q->door = (struct door){.hooks = &hooks, .daemon = d, .principal = principal, .sandbox = strdup(sandbox)};
        q->carrier = carrier;
        q->query = strdup(query);
        TAILQ_INSERT_TAIL(&d->container->requests, q, link);
        if (q->door.sandbox && q->query)
                return q;
        container_request_free(q);
        return NULL;
}

void container_request_free(struct container_request *q)
{
        door_done(&q->door);
        if (q->state_done)
                q->state_done(q->state);
        TAILQ_REMOVE(&q->door.daemon->container->requests, q, link);
        json_decref(q->body);
        json_decref(q->socket_id);
        free(q->part);
        free(q->query);
        free(q->directory);
        free(q);
}

/* -- the body -------------------------------------------------------------------------------------------------- */

static int is_env(const json_t *value)
{
        const char *name;
        json_t *one;

        if (!json_is_object(value))
                return 0;
        json_object_foreach ((json_t *)value, name, one)
                if (!json_is_string(one) && !json_is_null(one))
                        return 0;
        return 1;
}

static int are_texts(const json_t *value)
{
        for (size_t i = 0; i < json_array_size(value); i++)
                if (!json_is_string(json_array_get(value, i)))
                        return 0;
        return json_is_array(value);
}

static int is_of(const json_t *value, enum container_type type)
{
        switch (type) {
        case TYPE_TEXT:
        case TYPE_PATH:
                return json_is_string(value);
        case TYPE_COUNT:
                return json_is_integer(value) && json_integer_value(value) >= 0;
        case TYPE_FLAG:
                return json_is_boolean(value);
        case TYPE_TEXTS:
                return are_texts(value);
        case TYPE_ENV:
                return is_env(value);
        case TYPE_OBJECT:
                return json_is_object(value);
        }
        return 0;
}

static const char *const type_names[] = {
        [TYPE_TEXT] = "a string",
        [TYPE_PATH] = "a string",
        [TYPE_COUNT] = "a whole number, 0 or more",
        [TYPE_FLAG] = "true or false",
        [TYPE_TEXTS] = "an array of strings",
        [TYPE_ENV] = "an object of strings",
        [TYPE_OBJECT] = "an object",
};

/* True if the field is valid; else the request is refused. */
static int check_field(struct container_request *q, const struct container_field *field)
{
        const json_t *value = json_object_get(q->body, field->name);

        if (json_is_null(value)) { /* undefined in the client's JavaScript */
                json_object_del(q->body, field->name);
                value = NULL;
        }
        if (!value && field->is_required) {
                container_refuse(q, CONTAINER_VALIDATION_FAILED, q->route->missing, NULL,
                                 "'%s' is missing, expected %s", field->name, type_names[field->type]);
                return 0;
        }
        if (value && !is_of(value, field->type)) {
                container_refuse(q, CONTAINER_VALIDATION_FAILED, field->is_required ? q->route->missing : NULL, NULL,
                                 "'%s' must be %s", field->name, type_names[field->type]);
                return 0;
        }
        if (json_is_string(value) && strcmp(field->name, "content") != 0 &&
            strlen(json_string_value(value)) != json_string_length(value)) {
                container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL, "'%s' has NUL in it", field->name);
                return 0;
        }
        return 1;
}

static int read_body(struct container_request *q, const char *text, size_t size)
{
        struct cloche_err e = {0};

        if (!q->route->fields)
                return 1;
        if (!q->body && json_load_text(text ? text : "", size, &q->body, &e) < 0) {
                container_refuse(q, CONTAINER_VALIDATION_FAILED, "Invalid JSON in request body", NULL, "the body: %s",
                                 e.msg);
                return 0;
        }
        if (!json_is_object(q->body)) {
                json_decref(q->body);
                q->body = NULL;
                container_refuse(q, CONTAINER_VALIDATION_FAILED, q->route->missing, NULL,
                                 "the body must be a JSON object");
                return 0;
        }
        for (const struct container_field *field = q->route->fields; field->name; field++)
                if (!check_field(q, field))
                        return 0;
        return 1;
}

static void no_such_path(struct container_request *q, const char *verb, const char *path, const char *allowed)
{
        if (!*allowed) {
                q->carrier->answer(q, 404, TEXT_TYPE, "Not Found", 9);
                return;
        }
        container_refuse(q, CONTAINER_METHOD_NOT_ALLOWED, "Method not allowed", NULL,
                         "%.20s is not for %.100s, expected %s", verb, path, allowed);
}

/* -- relative paths -------------------------------------------------------------------------------------------- */

static int has_relative_path(const struct container_request *q)
{
        for (const struct container_field *field = q->route->fields; field && field->name; field++) {
                const char *path = field->type == TYPE_PATH ? container_text(q, field->name) : NULL;

                if (path && *path && *path != '/')
                        return 1;
        }
        return 0;
}

/* A session that does not exist yet begins in /workspace, as relative paths of the core do. */
static void on_directories(struct container_request *q, const struct door_reply *reply)
{
        const json_t *sessions = json_object_get(reply->result, "sessions");
        const char *session = container_session(q);

        for (size_t i = 0; i < json_array_size(sessions); i++) {
                const json_t *one = json_array_get(sessions, i);
                const char *name = json_string_value(json_object_get(one, "session")),
                           *cwd = json_string_value(json_object_get(one, "cwd"));

                if (name && cwd && strcmp(name, session ? session : "default") == 0)
                        q->directory = strdup(cwd);
        }
        q->route->handle(q);
}

json_t *container_path(const struct container_request *q, const char *name)
{
        const char *path = container_text(q, name);

        if (!q->directory || !path || !*path || *path == '/')
                return container_copy(q, name);
        return json_sprintf("%s/%s", strcmp(q->directory, "/") == 0 ? "" : q->directory, path);
}

/* Relative paths start at the working directory of the session; without a session at /workspace. */
void container_handle_named(struct container_request *q)
{
        if (has_relative_path(q) && !container_is_sessionless(q))
                container_call(q, "session.list", json_object(), NULL, on_directories);
        else
                q->route->handle(q);
}

void container_request_handle(struct container_request *q, const char *verb, const char *path, const char *text,
                              size_t size)
{
        char allowed[64];

        q->route = container_route_find(verb, path, &q->part, allowed, sizeof(allowed));
        if (!q->route || (strchr(q->route->path, '{') && !q->part))
                no_such_path(q, verb, path, q->route ? "" : allowed);
        else if (strcmp(q->route->verb, "*") != 0 && !container_query_is_good(q))
                container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "the query has a malformed %%XX in it, or is no UTF-8");
        else if (read_body(q, text, size))
                container_handle_image(q);
}

json_t *container_field(const struct container_request *q, const char *name)
{
        return json_object_get(q->body, name);
}

json_t *container_copy(const struct container_request *q, const char *name)
{
        return json_incref(json_object_get(q->body, name));
}

const char *container_text(const struct container_request *q, const char *name)
{
        return json_string_value(json_object_get(q->body, name));
}

int container_flag(const struct container_request *q, const char *name)
{
        return json_is_true(json_object_get(q->body, name));
}

int container_has_in_order(const struct container_request *q, const char *first, const char *second)
{
        const char *name;
        json_t *value;
        int seen = 0;

        json_object_foreach (q->body, name, value) {
                if (strcmp(name, second) == 0)
                        return seen;
                seen |= strcmp(name, first) == 0;
        }
        return 0;
}

int container_is_sessionless(const struct container_request *q)
{
        const char *session = container_text(q, "sessionId");

        return session && strcmp(session, CONTAINER_SESSIONLESS) == 0;
}

const char *container_session(const struct container_request *q)
{
        const char *session = container_text(q, "sessionId");

        return session && *session && !container_is_sessionless(q) ? session : NULL;
}

json_t *container_env(const struct container_request *q, const char *name)
{
        json_t *env = json_object_get(q->body, name), *set = env ? json_object() : NULL, *value;
        const char *variable;

        json_object_foreach (env, variable, value)
                if (json_is_string(value))
                        json_object_set(set, variable, value);
        return set;
}

/* -- requests for an existing session -------------------------------------------------------------------------- */

struct wanted_session {
        char *name;
        void (*then)(struct container_request *q);
};

static void wanted_session_done(void *state)
{
        struct wanted_session *wanted = state;

        free(wanted->name);
        free(wanted);
}

static void no_such_session(struct container_request *q, const char *name, const json_t *sessions)
{
        json_t *names = json_array();
        char text[200];

        for (size_t i = 0; i < json_array_size(sessions); i++)
                json_array_append(names, json_object_get(json_array_get(sessions, i), "session"));
        snprintf(text, sizeof(text), "Session '%.120s' not found", name);
        container_refuse(q, CONTAINER_SESSION_NOT_FOUND, text, json_pack("{s:o}", "availableSessions", names), "%s",
                         text);
}

static void on_sessions(struct container_request *q, const struct door_reply *reply)
{
        const json_t *sessions = json_object_get(reply->result, "sessions");
        struct wanted_session *wanted = q->state;
        void (*then)(struct container_request * q) = wanted->then;
        int is_there = 0;

        for (size_t i = 0; i < json_array_size(sessions); i++) {
                const char *name = json_string_value(json_object_get(json_array_get(sessions, i), "session"));

                is_there |= name && strcmp(name, wanted->name) == 0;
        }
        if (!is_there) {
                no_such_session(q, wanted->name, sessions);
                return;
        }
        wanted_session_done(wanted);
        q->state = NULL;
        q->state_done = NULL;
        then(q);
}

void container_call_session(struct container_request *q, const char *session, void (*then)(struct container_request *q))
{
        struct wanted_session *wanted = calloc(1, sizeof(*wanted));

        if (wanted)
                wanted->name = strdup(session);
        if (!wanted || !wanted->name) {
                free(wanted);
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
                return;
        }
        wanted->then = then;
        q->state = wanted;
        q->state_done = wanted_session_done;
        container_call(q, "session.list", json_object(), NULL, on_sessions);
}

void container_make_session(struct container_request *q, container_then then)
{
        const char *session = container_session(q);

        if (session)
                container_call(q, "session.create", json_pack("{s:s}", "session", session), NULL, then);
        else
                then(q, NULL);
}

/* -- answers --------------------------------------------------------------------------------------------------- */

static void answer_status(struct container_request *q, unsigned status, json_t *body)
{
        char *text;

        json_object_set_new(body, "timestamp", container_now());
        text = json_dump_text(body, JSON_COMPACT);
        json_decref(body);
        q->carrier->answer(q, text ? status : 500, "application/json", text ? text : "{}", text ? strlen(text) : 2);
        free(text);
}

void container_answer(struct container_request *q, json_t *body)
{
        answer_status(q, 200, body);
}

void container_begin(struct container_request *q)
{
        q->is_streaming = 1;
        q->carrier->begin(q);
}

int container_is_full(const struct container_request *q)
{
        return q->carrier->waiting(q) > DOOR_WAITING_BYTES;
}

void container_line(struct container_request *q, json_t *event)
{
        char *text;

        if (!json_object_get(event, "timestamp"))
                json_object_set_new(event, "timestamp", container_now());
        text = json_dump_text(event, q->is_ascii ? JSON_COMPACT | JSON_ENSURE_ASCII : JSON_COMPACT);
        json_decref(event);
        if (text)
                q->carrier->line(q, text, strlen(text));
        free(text);
        q->was_quiet = 0;
        door_hold(&q->door, q->carrier->waiting(q));
}

void container_request_taken(struct container_request *q)
{
        door_hold(&q->door, q->carrier->waiting(q));
        if (q->on_room && q->carrier->waiting(q) <= DOOR_WAITING_BYTES / 4)
                q->on_room(q);
}

void container_end(struct container_request *q)
{
        q->carrier->end(q);
}

/* -- errors ---------------------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        unsigned status;
} codes[] = {
#define ROW(name, status) [CONTAINER_##name] = {#name, status},
        CONTAINER_CODES(ROW)
#undef ROW
};

/* 503 is used only when the daemon ends: on it, clients of 0.4 and later retry for two minutes. */
static const enum container_code codes_of[CLOCHE_CODE_COUNT] = {
        [CLOCHE_E_INVALID_ARGUMENT] = CONTAINER_VALIDATION_FAILED,
        [CLOCHE_E_INVALID_JSON] = CONTAINER_VALIDATION_FAILED,
        [CLOCHE_E_UNKNOWN_LANGUAGE] = CONTAINER_VALIDATION_FAILED,
        [CLOCHE_E_TOO_LARGE] = CONTAINER_FILE_TOO_LARGE,
        [CLOCHE_E_STATE] = CONTAINER_RESOURCE_BUSY,
        [CLOCHE_E_QUEUE_FULL] = CONTAINER_RESOURCE_BUSY,
        [CLOCHE_E_UNAUTHORIZED] = CONTAINER_PERMISSION_DENIED,
        [CLOCHE_E_FORBIDDEN] = CONTAINER_PERMISSION_DENIED,
        [CLOCHE_E_NOT_FOUND] = CONTAINER_NOT_FOUND,
        [CLOCHE_E_TIMEOUT] = CONTAINER_PROCESS_READY_TIMEOUT,
        [CLOCHE_E_CANCELLED] = CONTAINER_OPERATION_INTERRUPTED,
        [CLOCHE_E_FILE_NOT_FOUND] = CONTAINER_FILE_NOT_FOUND,
        [CLOCHE_E_FILE_EXISTS] = CONTAINER_FILE_EXISTS,
        [CLOCHE_E_FILE_KIND] = CONTAINER_IS_DIRECTORY,
        [CLOCHE_E_FILE_DENIED] = CONTAINER_PERMISSION_DENIED,
        [CLOCHE_E_DISK_FULL] = CONTAINER_NO_SPACE,
        [CLOCHE_E_BAD_ARCHIVE] = CONTAINER_BACKUP_RESTORE_FAILED,
        [CLOCHE_E_SANDBOX_ENDED] = CONTAINER_OPERATION_INTERRUPTED,
        [CLOCHE_E_SESSION_ENDED] = CONTAINER_SESSION_TERMINATED,
        [CLOCHE_E_CONTEXT_ENDED] = CONTAINER_CODE_EXECUTION_ERROR,
        [CLOCHE_E_PROCESS_ENDED] = CONTAINER_PROCESS_EXITED_BEFORE_READY,
        [CLOCHE_E_PORT_CLOSED] = CONTAINER_SERVICE_NOT_RESPONDING,
        [CLOCHE_E_GIT] = CONTAINER_GIT_OPERATION_FAILED,
        [CLOCHE_E_GIT_NOT_FOUND] = CONTAINER_GIT_REPOSITORY_NOT_FOUND,
        [CLOCHE_E_GIT_AUTH] = CONTAINER_GIT_AUTH_FAILED,
        [CLOCHE_E_GIT_NETWORK] = CONTAINER_GIT_NETWORK_ERROR,
        [CLOCHE_E_STOPPING] = CONTAINER_CONTAINER_UNAVAILABLE,
};

enum container_code container_code_of(const struct container_request *q, enum cloche_code code)
{
        for (const struct container_exception *x = q->route ? q->route->exceptions : NULL; x && x->to; x++)
                if (x->from == code)
                        return x->to;
        return (unsigned)code < CLOCHE_CODE_COUNT && codes_of[code] ? codes_of[code] : CONTAINER_INTERNAL_ERROR;
}

const char *container_code_name(enum cloche_code code)
{
        return codes[(unsigned)code < CLOCHE_CODE_COUNT && codes_of[code] ? codes_of[code] : CONTAINER_INTERNAL_ERROR]
                .name;
}

/* The fields of the request, for the clients' error classes. */
static json_t *context_of(const struct container_request *q)
{
        static const char *const names[] = {"path",    "oldPath", "sourcePath", "sessionId", "command",    "port",
                                            "repoUrl", "branch",  "targetDir",  "dir",       "archivePath"};
        json_t *context = json_object();

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                door_put(context, names[i], container_copy(q, names[i]));
        if (q->body && json_object_get(q->body, "id"))
                door_put(context, "sessionId", container_copy(q, "id"));
        door_put(context, "contextId", container_copy(q, "context_id"));
        if (q->part && q->route && strcmp(q->route->path, "/api/contexts/{id}") == 0)
                door_put(context, "contextId", json_string(q->part));
        if (q->part && q->route && strncmp(q->route->path, "/api/process/", 13) == 0)
                door_put(context, "processId", json_string(q->part));
        return context;
}

json_t *container_error_body(const char *short_text, const char *message, const char *code, json_t *context,
                             unsigned status)
{
        return json_pack("{s:o, s:o, s:s, s:o, s:i, s:o}", "error", container_words(short_text ? short_text : message),
                         "message", container_words(message), "code", code, "context", context, "httpStatus",
                         (int)status, "timestamp", container_now());
}

void container_refuse(struct container_request *q, enum container_code code, const char *short_text, json_t *more,
                      const char *format, ...)
{
        char message[1400];
        json_t *context, *body;
        va_list args;

        va_start(args, format);
        vsnprintf(message, sizeof(message), format, args);
        va_end(args);
        /* The error's own context adds to the fields of the request. */
        context = context_of(q);
        json_object_update(context, json_object_get(more, "context"));
        json_object_del(more, "context");
        body = container_error_body(short_text, message, codes[code].name, context, codes[code].status);
        if (more)
                json_object_update(body, more);
        json_decref(more);
        answer_status(q, codes[code].status, body);
}

/* Clients of 0.3 expect the bare id as the message. */
static void no_such_process(struct container_request *q)
{
        const char *id = q->part ? q->part : container_text(q, "processId");

        container_refuse(q, CONTAINER_PROCESS_NOT_FOUND, q->route->failed, NULL,
                         q->has_type && !q->is_new && q->part ? "%.200s" : "Process %.200s not found", id);
}

void container_fail(struct container_request *q, const struct door_reply *reply)
{
        if (container_code_of(q, reply->e->code) == CONTAINER_PROCESS_NOT_FOUND &&
            (q->part || container_text(q, "processId")))
                no_such_process(q);
        else
                container_refuse(q, container_code_of(q, reply->e->code), q->route->failed, NULL, "%s", reply->e->msg);
}
