/* One request of the API: its path, its body, its requests to the core. Runs in: cloched-engine,
 * on its loop, with the rights of the daemon's user. */
#include "daemon/e2b/template/build.h"

#include "daemon/http/query.h"
#include "daemon/preview/preview.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/handle.h"
#include "wire/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TURN_MS 100 /* streams break off, and have keepalives and deadlines, at multiples of this */

/* -- the sandbox and the port that a request is for -------------------------------------------------------------- */

/* Clients with a URL of their own for sandboxes send both in headers; others have PORT-ID as the
 * first part of the host. That counts more: a page of a sandbox may send its own host any
 * header, and would read another sandbox. Returns the port, 0: the request is for the control
 * plane. ret: NULL, or owned by the caller. */
static unsigned target_of(const struct http_request *request, char **ret)
{
        const char *id = http_request_header(request, "E2b-Sandbox-Id"),
                   *number = http_request_header(request, "E2b-Sandbox-Port"),
                   *host = http_request_header(request, "Host");
        char *end;
        unsigned long port = host ? strtoul(host, &end, 10) : 0;

        *ret = NULL;
        if (port > 0 && port <= 65535 && *end == '-' && strchr(end, '.')) {
                *ret = strndup(end + 1, strcspn(end + 1, "."));
                return (unsigned)port;
        }
        if (!id)
                return 0;
        port = number ? strtoul(number, &end, 10) : E2B_ENVD_PORT;
        *ret = strdup(id);
        return port <= 65535 ? (unsigned)port : 0;
}

/* A signed URL names no sandbox. */
static int is_signed_url(const struct http_request *request)
{
        return strcmp(http_request_path(request), "/files") == 0 &&
               strstr(http_request_query(request), "signature=") != NULL;
}

int e2b_is_known(const struct daemon *d, const struct http_request *request)
{
        const char *key = http_request_header(request, "X-API-KEY");
        char *sandbox;
        int is_known;

        (void)target_of(request, &sandbox);
        is_known = (key && e2b_is_api_key(d, key)) || e2b_is_layer_upload(d, request) ||
                   e2b_is_volume_request(d, request) ||
                   (sandbox && sandboxes_has(d->sandboxes, PRINCIPAL_TOKEN, sandbox));
        free(sandbox);
        return is_known;
}

int e2b_takes_head(const struct http_request *request)
{
        char *sandbox;
        unsigned port = target_of(request, &sandbox);
        int is_port = sandbox && port != E2B_ENVD_PORT && port != E2B_CODE_PORT;

        free(sandbox);
        return is_port ||
               (strcmp(http_request_verb(request), "PUT") == 0 &&
                (strncmp(http_request_path(request), "/templates/", 11) == 0 ||
                 strncmp(http_request_path(request), "/volumecontent/", 15) == 0)) ||
               (strcmp(http_request_path(request), "/files") == 0 && strcmp(http_request_verb(request), "POST") == 0);
}

/* -- requests to the core ---------------------------------------------------------------------------------------- */

DOOR_HOOKS(e2b, e2b_request, e2b_fail)

/* -- life -------------------------------------------------------------------------------------------------------- */

void e2b_request_free(struct e2b_request *q)
{
        e2b_labels_release(q);
        door_done(&q->door);
        if (q->state_done)
                q->state_done(q->state);
        TAILQ_REMOVE(&q->door.daemon->e2b->requests, q, link);
        json_decref(q->described);
        json_decref(q->body);
        for (size_t i = 0; i < DOOR_PARTS; i++)
                free(q->parts[i]);
        free(q);
}

static void on_over(void *data)
{
        e2b_request_free(data);
}

static void on_taken(void *data)
{
        struct e2b_request *q = data;

        e2b_stream_hold(q);
        if (q->on_taken)
                q->on_taken(q);
}

static void on_body(void *data, const void *bytes, size_t size)
{
        struct e2b_request *q = data;

        if (q->on_body)
                q->on_body(q, bytes, size);
}

static void on_whole(void *data)
{
        struct e2b_request *q = data;

        if (q->on_whole)
                q->on_whole(q);
}

/* The timer runs while a turn may have work: a daemon without requests does not wake up. */
static void start_turns(struct e2b *e2b);

static struct e2b_request *request_new(struct daemon *d, struct http_request *request, int64_t principal)
{
        static const struct http_handler handler = {.on_body = on_body,
                                                    .on_whole = on_whole,
                                                    .on_over = on_over,
                                                    .on_taken = on_taken};
        struct e2b_request *q = calloc(1, sizeof(*q));

        if (!q)
                return NULL;
        q->door = (struct door){.hooks = &hooks, .daemon = d, .principal = principal};
        q->request = request;
        TAILQ_INSERT_TAIL(&d->e2b->requests, q, link);
        start_turns(d->e2b);
        http_request_handle(request, &handler, q);
        return q;
}

/* -- the body ---------------------------------------------------------------------------------------------------- */

#define ENVELOPE_SIZE 5 /* flags, and the length as a big-endian number */

/* The request of a stream is one envelope. Returns the size of its message, or 0. */
static size_t open_envelope(const char **bytes, size_t size)
{
        const unsigned char *head = (const unsigned char *)*bytes;
        size_t length;

        if (size < ENVELOPE_SIZE || head[0] != 0)
                return 0;
        length = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
        *bytes += ENVELOPE_SIZE;
        return length == size - ENVELOPE_SIZE ? length : 0;
}

/* Clients before envd's JSON send protobuf. */
static int is_binary(const struct e2b_request *q)
{
        const char *type = http_request_header(q->request, "Content-Type");

        return type &&
               (strcasecmp(type, "application/proto") == 0 || strcasecmp(type, "application/connect+proto") == 0 ||
                strncasecmp(type, "application/grpc", 16) == 0);
}

/* Not as a stream: it would have to be of that type. */
static void refuse_binary(struct e2b_request *q)
{
        http_add_header(q->request, "Accept-Post", "application/json, application/connect+json");
        e2b_answer(q, 415,
                   json_pack("{s:s, s:s}", "code", "unimplemented", "message",
                             "binary messages (protobuf) are not supported: use a client that sends JSON "
                             "(docs/e2b.md)"));
}

/* True if the body is what the route expects; else the request is refused. An absent
 * body is an empty object. */
static int read_body(struct e2b_request *q)
{
        const struct buf *body = http_request_body(q->request);
        const char *bytes = body->data;
        size_t size = body->size;
        struct cloche_err e = {0};

        if (q->route->plane == E2B_FILES)
                return 1;
        if ((q->route->plane == E2B_UNARY || q->route->plane == E2B_STREAM) && is_binary(q)) {
                refuse_binary(q);
                return 0;
        }
        if (q->route->plane == E2B_STREAM && (size = open_envelope(&bytes, size)) == 0) {
                e2b_refuse(q, 400, "invalid_argument",
                           "the body is not one envelope of application/connect+json, uncompressed");
                return 0;
        }
        if (size == 0)
                q->body = json_object();
        else if (json_load_text(bytes, size, &q->body, &e) < 0)
                e2b_refuse(q, 400, "invalid_argument", "the body: %s", e.msg);
        else if (!json_is_object(q->body))
                e2b_refuse(q, 400, "invalid_argument", "the body must be a JSON object");
        return q->body != NULL && json_is_object(q->body);
}

/* -- handling ---------------------------------------------------------------------------------------------------- */

static int may_send(const struct e2b_request *q)
{
        const char *key = http_request_header(q->request, "X-API-KEY");

        return q->route->plane != E2B_CONTROL || (key && e2b_is_api_key(q->door.daemon, key));
}

static void no_such_port(struct http_request *request, const struct cloche_err *e)
{
        e2b_refuse_request(request, 502, e);
}

/* The host as the sandbox's creator wants it, owned by the caller; NULL: that of the request. */
static char *host_of(const json_t *network, unsigned port)
{
        static const char word[] = "${PORT}";
        const char *mask = e2b_text(network, "maskRequestHost"), *at = mask ? strstr(mask, word) : NULL;
        char *host = NULL;

        if (!at)
                return mask ? strdup(mask) : NULL;
        if (asprintf(&host, "%.*s%u%s", (int)(at - mask), mask, port, at + sizeof(word) - 1) < 0)
                return NULL;
        return host;
}

static int may_reach(const struct daemon *d, const struct http_request *request, const char *sandbox,
                     const json_t *network)
{
        const char *token = http_request_header(request, E2B_TRAFFIC_HEADER);

        return !json_is_false(json_object_get(network, "allowPublicTraffic")) ||
               (token && e2b_is_traffic_token(d, sandbox, token));
}

/* A port of a program in the sandbox. */
static void forward(struct daemon *d, struct http_request *request, int64_t principal, const char *sandbox,
                    unsigned port)
{
        const json_t *labels = sandboxes_labels(d->sandboxes, principal, sandbox), *network;
        json_t *described = json_pack("{s:O*}", "labels", (json_t *)labels), *options = e2b_options(described);
        struct cloche_err e = {0};
        unsigned status = 502;
        char *host;

        network = json_object_get(options, "network");
        host = host_of(network, port);
        const struct proxy_target to = {.principal = principal,
                                        .sandbox = sandbox,
                                        .port = port,
                                        .host = host,
                                        .target = http_request_target(request),
                                        .failed = no_such_port};

        if (!labels) {
                err_set(&e, CLOCHE_E_NOT_FOUND, "The sandbox was not found");
        } else if (!may_reach(d, request, sandbox, network)) {
                err_set(&e, CLOCHE_E_FORBIDDEN, "the header e2b-traffic-access-token is missing or wrong");
                status = 403;
        } else if (proxy_begin(d, request, &to, &e) == 0) {
                status = 0;
        }
        json_decref(described);
        json_decref(options);
        free(host);
        if (status)
                e2b_refuse_request(request, status, &e);
}

/* A part of a path may be encoded: NAME%3ATAG. False: the request was refused. */
static int decode_parts(struct e2b_request *q)
{
        for (size_t i = 0; i < DOOR_PARTS; i++) {
                struct cloche_err e = {0};
                json_t *text, *pair = NULL;

                if (!q->parts[i] || !strchr(q->parts[i], '%'))
                        continue;
                text = json_sprintf("part=%s", q->parts[i]);
                free(q->parts[i]);
                q->parts[i] = NULL;
                if (query_parse(text ? json_string_value(text) : "", &pair, &e) == 0 && e2b_text(pair, "part"))
                        q->parts[i] = strdup(e2b_text(pair, "part"));
                json_decref(pair);
                json_decref(text);
                if (!q->parts[i]) {
                        e2b_refuse(q, 400, "invalid_argument", "the path: %s", e.code ? e.msg : "malformed");
                        return 0;
                }
        }
        return 1;
}

/* The route is found and the sender may use it. */
static void handle(struct e2b_request *q)
{
        if (!decode_parts(q))
                return;
        if (strstr(q->route->path, "/sandboxes/{id}")) {
                q->door.sandbox = q->parts[0];
                q->parts[0] = NULL;
        }
        if (read_body(q))
                q->route->handle(q);
}

void e2b_handle(struct daemon *d, struct http_request *request, int64_t principal)
{
        const char *path = http_request_path(request);
        struct e2b_request *q;
        char *sandbox;
        unsigned port = target_of(request, &sandbox);

        if (sandbox && port != E2B_ENVD_PORT && port != E2B_CODE_PORT) {
                forward(d, request, principal, sandbox, port);
                free(sandbox);
                return;
        }
        q = request_new(d, request, principal);
        if (!q) {
                http_answer(request, 500, "application/json", "{\"code\":500,\"message\":\"out of memory\"}", 38);
                free(sandbox);
                return;
        }
        q->door.sandbox = sandbox;
        if (!sandbox && is_signed_url(request))
                port = E2B_ENVD_PORT;
        q->route = e2b_route_find(http_request_verb(request), path, port, q->parts);
        if (!q->route)
                e2b_refuse(q, 404, "unimplemented", "there is nothing at %.20s %.100s", http_request_verb(request),
                           path);
        else if (!may_send(q))
                e2b_refuse(q, 401, "unauthenticated",
                           "the API key is missing or wrong: cloche e2b env prints the one of this daemon");
        else
                handle(q);
}

/* -- parts of requests ------------------------------------------------------------------------------------------- */

const char *e2b_text(const json_t *object, const char *name)
{
        return json_string_value(json_object_get(object, name));
}

char *e2b_query(const struct e2b_request *q, const char *name)
{
        struct cloche_err e = {0};
        json_t *params = NULL;
        const char *text = query_parse(http_request_query(q->request), &params, &e) < 0 ? NULL : e2b_text(params, name);
        char *value = text ? strdup(text) : NULL;

        json_decref(params);
        return value;
}

json_t *e2b_path(const char *path)
{
        if (!path || !*path || strcmp(path, "~") == 0)
                return json_string(E2B_HOME);
        if (path[0] == '/')
                return json_string(path);
        return json_sprintf(E2B_HOME "/%s", path[0] == '~' && path[1] == '/' ? path + 2 : path);
}

/* -- life of the API --------------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
        struct e2b *e2b = timer->data;
        uint64_t now_ns = clock_now_ns();
        struct e2b_request *next;

        e2b_watchers_sweep(e2b, now_ns);
        e2b_builds_sweep(e2b, now_ns);
        for (struct e2b_request *q = TAILQ_FIRST(&e2b->requests); q; q = next) {
                next = TAILQ_NEXT(q, link);
                if (q->is_broken) {
                        http_stream_break(q->request); /* q is freed */
                        continue;
                }
                if (q->alive_every_ns && q->on_alive && now_ns - q->alive_ns >= q->alive_every_ns) {
                        q->alive_ns = now_ns;
                        q->on_alive(q);
                }
                if (q->deadline_ns && now_ns >= q->deadline_ns) {
                        q->deadline_ns = 0;
                        q->on_deadline(q);
                }
        }
        if (TAILQ_EMPTY(&e2b->requests) && TAILQ_EMPTY(&e2b->watchers) && !e2b_builds_wait(e2b))
                uv_timer_stop(timer);
}

static void start_turns(struct e2b *e2b)
{
        if (!uv_is_active((uv_handle_t *)e2b->timer))
                uv_timer_start(e2b->timer, on_timer, TURN_MS, TURN_MS);
}

int e2b_start(struct daemon *d, struct cloche_err *e)
{
        struct e2b *e2b = calloc(1, sizeof(*e2b));

        if (!e2b || !(e2b->timer = handle_timer(&d->loop, e2b))) {
                free(e2b);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the E2B API");
        }
        TAILQ_INIT(&e2b->requests);
        TAILQ_INIT(&e2b->processes);
        TAILQ_INIT(&e2b->builds);
        TAILQ_INIT(&e2b->watchers);
        uv_unref((uv_handle_t *)e2b->timer);
        d->e2b = e2b;
        return 0;
}

void e2b_stop(struct daemon *d)
{
        if (!d->e2b)
                return;
        e2b_builds_done(d->e2b);
        e2b_watchers_done(d->e2b);
        e2b_processes_done(d->e2b);
        handle_close(d->e2b->timer);
        json_decref(d->e2b->secrets);
        free(d->e2b);
        d->e2b = NULL;
}
