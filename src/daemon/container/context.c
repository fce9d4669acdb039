/* Contexts of the code interpreter: create, list, delete. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

#define UUID_SIZE 37

/* -- parameters of requests for both files --------------------------------------------------------------------- */

json_t *container_code_env(const struct container_request *q)
{
        return container_env(q, container_field(q, "env_vars") ? "env_vars" : "envVars");
}

json_t *container_code_timeout(const struct container_request *q)
{
        static const char *const names[] = {"timeout_ms", "timeoutMs", "timeout"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (container_field(q, names[i]))
                        return container_copy(q, names[i]);
        return NULL;
}

/* -- failures -------------------------------------------------------------------------------------------------- */

static enum container_code code_of_missing(const char *language)
{
        static const struct {
                const char *language;
                enum container_code code;
        } missing[] = {
                {"python", CONTAINER_PYTHON_NOT_AVAILABLE},
                {"javascript", CONTAINER_JAVASCRIPT_NOT_AVAILABLE},
                {"typescript", CONTAINER_JAVASCRIPT_NOT_AVAILABLE},
        };

        for (size_t i = 0; language && i < sizeof(missing) / sizeof(missing[0]); i++)
                if (strcmp(missing[i].language, language) == 0)
                        return missing[i].code;
        return CONTAINER_NOT_IMPLEMENTED;
}

void container_code_fail(struct container_request *q, const char *id, const char *language,
                         const struct door_reply *reply)
{
        char text[200];

        if (reply->e->code == CLOCHE_E_MISSING_RUNTIME) {
                container_refuse(q, code_of_missing(language), q->route->failed, NULL, "%s", reply->e->msg);
        } else if (id && reply->e->code == CLOCHE_E_NOT_FOUND) {
                snprintf(text, sizeof(text), "Context %.120s not found", id); /* 0.3 parses the id out of it */
                container_refuse(q, CONTAINER_CONTEXT_NOT_FOUND, text, NULL, "%s", text);
        } else {
                container_fail(q, reply);
        }
}

/* -- create ---------------------------------------------------------------------------------------------------- */

/* The object has the members of old and new clients. */
static json_t *context_of(const json_t *context)
{
        static const struct {
                const char *theirs, *ours;
        } members[] = {{"id", "context"},          {"language", "language"},   {"cwd", "cwd"},
                       {"createdAt", "createdAt"}, {"lastUsed", "lastUsedAt"}, {"state", "state"}};
        json_t *all = json_object();

        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
                door_put(all, members[i].theirs, json_incref(json_object_get(context, members[i].ours)));
        return all;
}

static const char *language_of(const struct container_request *q)
{
        const char *language = container_text(q, "language");

        return language && *language ? language : "python";
}

static void created(struct container_request *q, const struct door_reply *reply)
{
        json_t *answer = context_of(reply->result);

        json_object_set_new(answer, "success", json_true());
        container_answer(q, door_put(answer, "contextId", json_incref(json_object_get(answer, "id"))));
}

static void not_created(struct container_request *q, const struct door_reply *reply)
{
        container_code_fail(q, NULL, language_of(q), reply);
}

/* A random UUID, version 4. */
static void make_uuid(char to[UUID_SIZE])
{
        char random[33];

        container_random(random, 32);
        random[16] = "89ab"[random[16] & 3];
        snprintf(to, UUID_SIZE, "%.8s-%.4s-4%.3s-%.4s-%.12s", random, random + 8, random + 13, random + 16,
                 random + 20);
}

static void create(struct container_request *q, const char *language, container_then failed)
{
        char uuid[UUID_SIZE];
        json_t *params;

        make_uuid(uuid);
        params = json_pack("{s:s, s:s}", "context", uuid, "language", language);
        door_put(params, "cwd", container_copy(q, "cwd"));
        door_put(params, "env", container_code_env(q));
        door_put(params, "timeoutMs", container_code_timeout(q));
        q->fail = failed;
        container_call(q, "context.create", params, NULL, created);
}

/* 0.3 treats an unknown language as Python. */
static void not_at_once(struct container_request *q, const struct door_reply *reply)
{
        if (reply->e->code == CLOCHE_E_UNKNOWN_LANGUAGE && !q->is_new)
                create(q, "python", not_created);
        else
                not_created(q, reply);
}

void container_context_create(struct container_request *q)
{
        create(q, language_of(q), not_at_once);
}

/* -- the other requests ---------------------------------------------------------------------------------------- */

static void listed(struct container_request *q, const struct door_reply *reply)
{
        const json_t *all = json_object_get(reply->result, "contexts");
        json_t *contexts = json_array();

        for (size_t i = 0; i < json_array_size(all); i++)
                json_array_append_new(contexts, context_of(json_array_get(all, i)));
        container_answer(q, json_pack("{s:b, s:i, s:o}", "success", 1, "count", (int)json_array_size(contexts),
                                      "contexts", contexts));
}

void container_context_list(struct container_request *q)
{
        container_call(q, "context.list", json_object(), NULL, listed);
}

static void deleted(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        container_answer(q, json_pack("{s:b, s:s}", "success", 1, "contextId", q->part));
}

static void not_deleted(struct container_request *q, const struct door_reply *reply)
{
        container_code_fail(q, q->part, NULL, reply);
}

void container_context_delete(struct container_request *q)
{
        q->fail = not_deleted;
        container_call(q, "context.delete", json_pack("{s:s}", "context", q->part), NULL, deleted);
}

static void healthy(struct container_request *q, const struct door_reply *reply)
{
        container_answer(q, json_pack("{s:b, s:s, s:b, s:b, s:i, s:i}", "success", 1, "status", "ready", "ready", 1,
                                      "initializing", 0, "progress", 100, "contexts",
                                      (int)json_array_size(json_object_get(reply->result, "contexts"))));
}

/* It is ready as soon as the sandbox is: interpreters are forked on demand. */
void container_interpreter_health(struct container_request *q)
{
        container_call(q, "context.list", json_object(), NULL, healthy);
}
