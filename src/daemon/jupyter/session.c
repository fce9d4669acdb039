/* Sessions: the names by which front ends keep a kernel for a notebook. Runs in: cloched-engine,
 * on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 4096

static json_t *model_of(const struct gateway_session *s)
{
        json_t *model = json_deep_copy(s->about);

        json_object_set_new(model, "id", json_string(s->id));
        json_object_set_new(model, "kernel", gateway_kernel_model(s->kernel));
        json_object_set_new(model, "notebook", json_deep_copy(s->about));
        return model;
}

static void session_free(struct gateway *g, struct gateway_session *s)
{
        TAILQ_REMOVE(&g->sessions, s, link);
        json_decref(s->about);
        free(s);
}

void gateway_sessions_drop(struct gateway *g, const struct gateway_kernel *k)
{
        struct gateway_session *s, *next;

        for (s = TAILQ_FIRST(&g->sessions); s; s = next) {
                next = TAILQ_NEXT(s, link);
                if (s->kernel == k)
                        session_free(g, s);
        }
}

static struct gateway_session *find(const struct gateway *g, int64_t principal, const char *id, size_t size)
{
        struct gateway_session *s;

        TAILQ_FOREACH (s, &g->sessions, link)
                if (s->principal == principal && strlen(s->id) == size && memcmp(s->id, id, size) == 0)
                        return s;
        return NULL;
}

static struct gateway_session *find_path(const struct gateway *g, int64_t principal, const json_t *path)
{
        struct gateway_session *s;

        TAILQ_FOREACH (s, &g->sessions, link)
                if (s->principal == principal && path && json_equal(json_object_get(s->about, "path"), path))
                        return s;
        return NULL;
}

/* Take the texts of the request that a session has. */
static int take_texts(json_t *about, const json_t *body)
{
        static const char *const names[] = {"path", "name", "type"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                json_t *text = json_object_get(body, names[i]);

                if (text && (!json_is_string(text) || json_string_length(text) > TEXT_BYTES_MAX))
                        return -1;
                if (text)
                        json_object_set(about, names[i], text);
        }
        return 0;
}

/* A kernel of the request: the one with its id, or a new one. NULL after an answer. */
static struct gateway_kernel *kernel_of(struct gateway *g, struct http_request *request, int64_t principal,
                                        const json_t *about)
{
        const json_t *id = json_object_get(about, "id");
        struct gateway_kernel *k;

        if (!json_is_string(id))
                return gateway_make_kernel(g, request, principal, about);
        k = gateway_kernel_find(g, principal, json_string_value(id), json_string_length(id));
        if (!k)
                gateway_refuse(request, 404, "there is no kernel of that id");
        return k;
}

static size_t count_of(const struct gateway *g, int64_t principal)
{
        const struct gateway_session *s;
        size_t count = 0;

        TAILQ_FOREACH (s, &g->sessions, link)
                count += s->principal == principal;
        return count;
}

static void create(struct gateway *g, struct http_request *request, int64_t principal, const json_t *body)
{
        struct gateway_session *s = find_path(g, principal, json_object_get(body, "path"));
        json_t *about;

        if (s) {
                gateway_answer(request, 201, model_of(s));
                return;
        }
        about = json_pack("{s:s, s:s, s:s}", "path", "", "name", "", "type", "notebook");
        if (take_texts(about, body) < 0 || count_of(g, principal) >= GATEWAY_SESSIONS_MAX) {
                json_decref(about);
                gateway_refuse(request, 400, "path, name and type must be short texts, and sessions at most 64");
                return;
        }
        s = calloc(1, sizeof(*s));
        if (!s)
                gateway_refuse(request, 503, "out of memory");
        else if ((s->kernel = kernel_of(g, request, principal, json_object_get(body, "kernel")))) {
                s->principal = principal;
                s->about = about;
                gateway_make_id(s->id);
                TAILQ_INSERT_TAIL(&g->sessions, s, link);
                gateway_answer(request, 201, model_of(s));
                return;
        }
        free(s);
        json_decref(about);
}

static void update(struct gateway *g, struct http_request *request, struct gateway_session *s, const json_t *body)
{
        const json_t *kernel = json_object_get(body, "kernel");
        int is_named = json_is_string(json_object_get(kernel, "id")) || json_is_string(json_object_get(kernel, "name"));
        json_t *about = json_deep_copy(s->about);
        struct gateway_kernel *k = s->kernel;

        if (take_texts(about, body) < 0) { /* before a kernel is made for it */
                json_decref(about);
                gateway_refuse(request, 400, "path, name and type must be short texts");
                return;
        }
        if (is_named && !(k = kernel_of(g, request, s->principal, kernel))) {
                json_decref(about);
                return;
        }
        json_decref(s->about);
        s->about = about;
        if (k != s->kernel) { /* nobody else has the earlier one, as on notebook servers */
                struct gateway_kernel *earlier = s->kernel;

                s->kernel = k;
                gateway_kernel_remove(earlier);
        }
        gateway_answer(request, 200, model_of(s));
}

static void list(const struct gateway *g, struct http_request *request, int64_t principal)
{
        json_t *models = json_array();
        const struct gateway_session *s;

        TAILQ_FOREACH (s, &g->sessions, link)
                if (s->principal == principal)
                        json_array_append_new(models, model_of(s));
        gateway_answer(request, 200, models);
}

void gateway_on_sessions(struct gateway *g, struct http_request *request, int64_t principal, const char *id,
                         size_t size, const json_t *body)
{
        const char *verb = http_request_verb(request);
        struct gateway_session *s = id ? find(g, principal, id, size) : NULL;

        if (!id && strcmp(verb, "GET") == 0) {
                list(g, request, principal);
        } else if (!id && strcmp(verb, "POST") == 0) {
                create(g, request, principal, body);
        } else if (!s) {
                gateway_refuse(request, 404, "there is no such session");
        } else if (strcmp(verb, "DELETE") == 0) {
                gateway_kernel_remove(s->kernel); /* with its sessions */
                gateway_answer(request, 204, NULL);
        } else if (strcmp(verb, "PATCH") == 0) {
                update(g, request, s, body);
        } else {
                gateway_answer(request, 200, model_of(s));
        }
}
