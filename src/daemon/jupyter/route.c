/* The paths of the gateway. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "daemon/core/auth.h"
#include "daemon/http/query.h"
#include "daemon/web/access.h"
#include "engine/loop/handle.h"
#include "wire/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define JSON_TYPE "application/json"
#define PREFIX "/jupyter"
#define HOME "/workspace"
#define IDLE_NS (UINT64_C(1200) * 1000000000) /* of a kernel without a connection; as sandboxes' */

struct exchange {
        struct gateway *gateway;
        struct http_request *request;
        int64_t principal;
        struct door_part parts[DOOR_PARTS];
        json_t *body;
};

/* -- answers ------------------------------------------------------------------------------------------------- */

void gateway_answer(struct http_request *request, unsigned status, json_t *body)
{
        char *text = body ? json_dump_text(body, JSON_COMPACT) : NULL;

        http_answer(request, status, text ? JSON_TYPE : NULL, text ? text : "", text ? strlen(text) : 0);
        free(text);
        json_decref(body);
}

void gateway_refuse(struct http_request *request, unsigned status, const char *text)
{
        gateway_answer(request, status,
                       json_pack("{s:o, s:n}", "message", json_valid_text(text, strlen(text)), "reason"));
}

void gateway_refuse_request(struct http_request *request, unsigned status, const struct cloche_err *e)
{
        gateway_refuse(request, status, e->msg);
}

/* -- kernelspecs --------------------------------------------------------------------------------------------- */

static json_t *spec_of(const struct jupyter_language *l)
{
        return json_pack("{s:s, s:{s:o, s:s, s:[], s:{}, s:s, s:{}}, s:{}}", "name", l->name, "spec", "display_name",
                         json_sprintf("%s (Cloche)", l->display), "language", l->jupyter, "argv", "env",
                         "interrupt_mode", "message", "metadata", "resources");
}

static void on_api(struct exchange *x)
{
        gateway_answer(x->request, 200, json_pack("{s:s}", "version", CLOCHE_VERSION));
}

static void on_specs(struct exchange *x)
{
        const struct jupyter_language *l;
        json_t *specs = json_object();

        for (size_t i = 0; (l = jupyter_language_at(i)); i++)
                json_object_set_new(specs, l->name, spec_of(l));
        gateway_answer(x->request, 200, json_pack("{s:s, s:o}", "default", "python", "kernelspecs", specs));
}

static const struct jupyter_language *language_of_part(const struct door_part *part)
{
        const struct jupyter_language *l;

        for (size_t i = 0; (l = jupyter_language_at(i)); i++)
                if (strlen(l->name) == part->size && memcmp(l->name, part->at, part->size) == 0)
                        return l;
        return NULL;
}

static void on_spec(struct exchange *x)
{
        const struct jupyter_language *l = language_of_part(&x->parts[0]);

        if (l)
                gateway_answer(x->request, 200, spec_of(l));
        else
                gateway_refuse(x->request, 404, "there is no such kernelspec");
}

const struct jupyter_language *gateway_language(const json_t *name)
{
        return jupyter_language_find(json_is_string(name) ? json_string_value(name) : "python");
}

/* -- kernels ------------------------------------------------------------------------------------------------- */

static size_t count_of(const struct gateway *g, int64_t principal)
{
        const struct gateway_kernel *k;
        size_t count = 0;

        TAILQ_FOREACH (k, &g->kernels, link)
                count += k->principal == principal;
        return count;
}

/* The front end's own directories are not in the sandbox. */
static const char *cwd_of(const json_t *body)
{
        const char *cwd = json_string_value(json_object_get(json_object_get(body, "env"), "KERNEL_WORKING_DIR"));

        return cwd && (strcmp(cwd, HOME) == 0 || strncmp(cwd, HOME "/", sizeof(HOME)) == 0) ? cwd : NULL;
}

struct gateway_kernel *gateway_make_kernel(struct gateway *g, struct http_request *request, int64_t principal,
                                           const json_t *body)
{
        const struct jupyter_language *language = gateway_language(json_object_get(body, "name"));
        struct gateway_kernel *k;

        if (!language) {
                gateway_refuse(request, 404, "there is no such kernelspec");
                return NULL;
        }
        if (count_of(g, principal) >= GATEWAY_KERNELS_MAX) {
                gateway_refuse(request, 403, "there are 64 kernels: shut some down");
                return NULL;
        }
        k = gateway_kernel_new(g, principal, language, cwd_of(body));
        if (!k)
                gateway_refuse(request, 503, "out of memory");
        return k;
}

static void on_list(struct exchange *x)
{
        json_t *models = json_array();
        const struct gateway_kernel *k;

        TAILQ_FOREACH (k, &x->gateway->kernels, link)
                if (k->principal == x->principal)
                        json_array_append_new(models, gateway_kernel_model(k));
        gateway_answer(x->request, 200, models);
}

static void on_create(struct exchange *x)
{
        const struct gateway_kernel *k = gateway_make_kernel(x->gateway, x->request, x->principal, x->body);

        if (k)
                gateway_answer(x->request, 201, gateway_kernel_model(k));
}

/* NULL after an answer. */
static struct gateway_kernel *kernel_of(struct exchange *x)
{
        struct gateway_kernel *k = gateway_kernel_find(x->gateway, x->principal, x->parts[0].at, x->parts[0].size);

        if (!k)
                gateway_refuse(x->request, 404, "there is no such kernel");
        return k;
}

static void on_get(struct exchange *x)
{
        const struct gateway_kernel *k = kernel_of(x);

        if (k)
                gateway_answer(x->request, 200, gateway_kernel_model(k));
}

static void on_delete(struct exchange *x)
{
        struct gateway_kernel *k = kernel_of(x);

        if (!k)
                return;
        gateway_kernel_remove(k);
        gateway_answer(x->request, 204, NULL);
}

static void on_interrupt(struct exchange *x)
{
        struct gateway_kernel *k = kernel_of(x);

        if (!k)
                return;
        jupyter_kernel_interrupt(k->jupyter);
        gateway_answer(x->request, 204, NULL);
}

static void on_restart(struct exchange *x)
{
        struct gateway_kernel *k = kernel_of(x);

        if (!k)
                return;
        gateway_kernel_touch(k);
        if (gateway_kernel_restart(k) == 0) {
                gateway_answer(x->request, 200, gateway_kernel_model(k));
        } else {
                gateway_kernel_remove(k);
                gateway_refuse(x->request, 503, "out of memory");
        }
}

static void on_channels(struct exchange *x)
{
        struct gateway_kernel *k = kernel_of(x);
        struct cloche_err e = {0};

        if (k && gateway_socket_open(k, x->request, &e) < 0)
                gateway_refuse(x->request, 400, e.msg);
}

static void on_sessions(struct exchange *x)
{
        gateway_on_sessions(x->gateway, x->request, x->principal, x->parts[0].at, x->parts[0].size, x->body);
}

static void on_logo(struct exchange *x)
{
        gateway_refuse(x->request, 404, "kernelspecs have no files here");
}

/* -- routes -------------------------------------------------------------------------------------------------- */

static const struct route {
        const char *verb, *path;
        void (*handler)(struct exchange *x);
} routes[] = {
        {"GET", "/api", on_api},
        {"GET", "/api/kernelspecs", on_specs},
        {"GET", "/api/kernelspecs/{id}", on_spec},
        {"GET", "/kernelspecs/{id}/{rest}", on_logo},
        {"GET", "/api/kernels", on_list},
        {"POST", "/api/kernels", on_create},
        {"GET", "/api/kernels/{id}", on_get},
        {"DELETE", "/api/kernels/{id}", on_delete},
        {"POST", "/api/kernels/{id}/interrupt", on_interrupt},
        {"POST", "/api/kernels/{id}/restart", on_restart},
        {"GET", "/api/kernels/{id}/channels", on_channels},
        {"GET", "/api/sessions", on_sessions},
        {"POST", "/api/sessions", on_sessions},
        {"GET", "/api/sessions/{id}", on_sessions},
        {"PATCH", "/api/sessions/{id}", on_sessions},
        {"DELETE", "/api/sessions/{id}", on_sessions},
};

int gateway_is_path(const struct daemon *d, const char *path)
{
        size_t size = sizeof(PREFIX) - 1;

        return d->gateway && strncmp(path, PREFIX, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* Clients send "token T" or "Bearer T", and with a WebSocket alone the token in the query. */
int gateway_has_token(const struct daemon *d, const struct http_request *request)
{
        const char *text = http_request_header(request, "Authorization");
        json_t *query = NULL, *token;
        struct cloche_err e;
        int r;

        if (text && strncasecmp(text, "token ", 6) == 0)
                return auth_is_token_text(&d->options, text + 6, strlen(text + 6));
        if (text)
                return web_has_token(&d->options, request);
        if (!http_request_header(request, "Upgrade") || query_parse(http_request_query(request), &query, &e) < 0)
                return 0;
        token = json_object_get(query, "token");
        r = json_is_string(token) &&
            auth_is_token_text(&d->options, json_string_value(token), json_string_length(token));
        json_decref(query);
        return r;
}

/* A body is an object, or empty. */
static int read_body(struct exchange *x, struct cloche_err *e)
{
        const struct buf *body = http_request_body(x->request);
        int r = body->size ? json_load_text(body->data, body->size, &x->body, e) : 0;

        if (r == 0 && x->body && !json_is_object(x->body) && !json_is_null(x->body))
                r = err_set(e, CLOCHE_E_INVALID_JSON, "the body must be a JSON object");
        return r;
}

void gateway_handle(struct daemon *d, struct http_request *request, int64_t principal)
{
        struct exchange x = {.gateway = d->gateway, .request = request, .principal = principal};
        const char *path = http_request_path(request) + sizeof(PREFIX) - 1;
        struct cloche_err e = {0};
        const struct route *found = NULL;
        int is_path = 0;

        for (size_t i = 0; !found && i < sizeof(routes) / sizeof(routes[0]); i++) {
                int matches = door_matches(routes[i].path, path, x.parts);

                is_path |= matches;
                if (matches && strcmp(routes[i].verb, http_request_verb(request)) == 0)
                        found = &routes[i];
        }
        if (!found)
                gateway_refuse(request, is_path ? 405 : 404, is_path ? "this path has other methods" : "no such path");
        else if (read_body(&x, &e) < 0)
                gateway_refuse(request, 400, e.msg);
        else
                found->handler(&x);
        json_decref(x.body);
}

/* -- life ---------------------------------------------------------------------------------------------------- */

int gateway_start(struct daemon *d, struct cloche_err *e)
{
        struct gateway *g = calloc(1, sizeof(*g));

        if (!g || !(g->turn = handle_timer(&d->loop, g))) {
                free(g);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the gateway of Jupyter");
        }
        TAILQ_INIT(&g->kernels);
        TAILQ_INIT(&g->calls);
        TAILQ_INIT(&g->sessions);
        g->daemon = d;
        uv_unref((uv_handle_t *)g->turn);
        d->gateway = g;
        return 0;
}

void gateway_stop(struct daemon *d)
{
        struct gateway *g = d->gateway;

        if (!g)
                return;
        gateway_free_kernels(g);
        gateway_free_calls(g);
        handle_close(g->turn);
        d->gateway = NULL;
        free(g);
}

void gateway_sweep(struct daemon *d, uint64_t now_ns)
{
        struct gateway_kernel *k, *next;

        if (!d->gateway)
                return;
        for (k = TAILQ_FIRST(&d->gateway->kernels); k; k = next) {
                next = TAILQ_NEXT(k, link);
                if (k->socket_count == 0 && !k->is_ended && now_ns > k->used_ns + IDLE_NS &&
                    strcmp(jupyter_kernel_state(k->jupyter), "busy") != 0)
                        gateway_kernel_remove(k);
        }
}
