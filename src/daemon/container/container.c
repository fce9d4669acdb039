/* The container API over HTTP: requests in, answers and streams out. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALIVE_MS 15000 /* an idle stream sends a sign of life: a proxy between us and the client may cut it off */

/* -- the transport HTTP ---------------------------------------------------------------------------------------- */

static void web_answer(struct container_request *q, unsigned status, const char *type, const char *text, size_t size)
{
        http_answer(q->request, status, type, text, size);
}

static void web_begin(struct container_request *q)
{
        http_stream_raw(q->request, 200, "text/event-stream", -1);
}

static void web_line(struct container_request *q, const char *json, size_t size)
{
        _cleanup_buf_ struct buf line = BUF_INIT(SIZE_MAX / 2);
        const char *before = q->is_bare ? "" : "data: ", *behind = q->is_bare ? "\n" : "\n\n";

        if (q->is_broken)
                return;
        /* One write for each line: clients of both versions decode each piece from the network
         * separately. A lost line ends the stream, without the event that marks it complete. */
        if (buf_append(&line, before, strlen(before)) < 0 || buf_append(&line, json, size) < 0 ||
            buf_append(&line, behind, strlen(behind)) < 0 || http_stream_write(q->request, line.data, line.size) < 0) {
                q->is_broken = 1;
                http_stream_end(q->request);
        }
}

static void web_alive(struct container_request *q)
{
        if (!q->is_broken)
                (void)http_stream_write(q->request, q->is_bare ? "\n" : ":\n\n", q->is_bare ? 1 : 3);
}

static void web_end(struct container_request *q)
{
        http_stream_end(q->request);
}

static size_t web_waiting(const struct container_request *q)
{
        return http_stream_waiting(q->request);
}

static const struct container_carrier carrier = {
        .answer = web_answer,
        .begin = web_begin,
        .line = web_line,
        .alive = web_alive,
        .end = web_end,
        .waiting = web_waiting,
};

/* -- requests -------------------------------------------------------------------------------------------------- */

static void on_over(void *data)
{
        container_request_free(data);
}

static void on_taken(void *data)
{
        container_request_taken(data);
}

static const struct http_handler handler = {.on_over = on_over, .on_taken = on_taken};

/* Origins were checked before, and a permitted one has its header already. */
static void add_cors(struct http_request *request)
{
        if (!http_request_header(request, "Origin"))
                http_add_header(request, "Access-Control-Allow-Origin", "*");
        http_add_header(request, "Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS");
        http_add_header(request, "Access-Control-Allow-Headers", "Content-Type, Authorization");
}

static int takes_events(const struct http_request *request)
{
        const char *accept = http_request_header(request, "Accept");

        return accept && strstr(accept, "text/event-stream") != NULL;
}

void container_refuse_request(struct http_request *request, unsigned status, const struct cloche_err *e)
{
        json_t *body = container_error_body(NULL, e->msg, container_code_name(e->code), json_object(), status);
        char *text = json_dumps(body, JSON_COMPACT);

        add_cors(request);
        if (status == 401)
                http_add_header(request, "WWW-Authenticate", "Bearer");
        http_answer(request, status, "application/json", text ? text : "{}", text ? strlen(text) : 2);
        free(text);
        json_decref(body);
}

int container_takes_head(const struct http_request *request, const char *path)
{
        return strncmp(path, "/proxy/", 7) == 0 && strcmp(http_request_verb(request), "OPTIONS") != 0;
}

void container_handle(struct daemon *d, struct http_request *request, int64_t principal, const char *sandbox,
                      const char *path)
{
        const struct buf *body = http_request_body(request);
        struct container_request *q;

        add_cors(request);
        if (strcmp(http_request_verb(request), "OPTIONS") == 0) {
                http_answer(request, 200, NULL, "", 0);
                return;
        }
        q = container_request_new(d, &carrier, principal, sandbox, http_request_query(request));
        if (!q) {
                http_answer(request, 500, "application/json", "{\"error\":\"out of memory\"}", 25);
                return;
        }
        q->request = request;
        q->is_new = http_request_header(request, "X-Sandbox-Id") != NULL;
        q->has_type = http_request_header(request, "Content-Type") != NULL;
        q->takes_events = takes_events(request);
        http_request_handle(request, &handler, q);
        container_request_handle(q, http_request_verb(request), path, body->data, body->size);
}

/* -- life ------------------------------------------------------------------------------------------------------ */

static void on_timer(uv_timer_t *timer)
{
        struct container *c = timer->data;
        struct container_request *q;

        TAILQ_FOREACH (q, &c->requests, link) {
                if (q->is_streaming && q->was_quiet)
                        q->carrier->alive(q);
                q->was_quiet = 1;
        }
        container_watchers_sweep(c, clock_now_ns());
        container_sockets_sweep(c, clock_now_ns());
}

int container_start(struct daemon *d, struct cloche_err *e)
{
        struct container *c = calloc(1, sizeof(*c));

        if (!c || !(c->timer = handle_timer(&d->loop, c))) {
                free(c);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the container API");
        }
        TAILQ_INIT(&c->requests);
        TAILQ_INIT(&c->sockets);
        TAILQ_INIT(&c->watchers);
        c->begun_ms = clock_real_ms();
        uv_timer_start(c->timer, on_timer, ALIVE_MS, ALIVE_MS);
        uv_unref((uv_handle_t *)c->timer);
        d->container = c;
        container_check_images(d);
        return 0;
}

void container_stop(struct daemon *d)
{
        struct container *c = d->container;

        if (!c)
                return;
        container_watchers_done(c);
        handle_close(c->timer);
        free(c);
        d->container = NULL;
}
