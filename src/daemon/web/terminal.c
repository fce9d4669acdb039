/* A WebSocket to a terminal of a sandbox. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "terminal.h"
#include "access.h"
#include "sandbox-socket.h"

#include "base/err.h"
#include "daemon/core/client.h"
#include "sandbox/core/sandbox.h"
#include "wire/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX (64u << 10) /* unsent to the terminal; over this the viewer is not read */
#define MESSAGE_BYTES_MAX (1u << 20)
#define TRIES 4 /* other viewers may start or end the terminal in between */
#define SIZE_MAX_CELLS 1000

/* One viewer. The terminal is a process of the sandbox, named by its session; it stays open. */
struct terminal {
        struct sandbox_socket base;
        int64_t principal;
        json_t *sandbox, *session, *shell, *process;
        unsigned cols, rows;
        struct sandbox_request *main, *input,
                *resize; /* open requests: find, start, then follow; write input; resize */
        struct buf in;
        int tries, is_attached, is_held, is_resized;
};

static const struct buf none;

/* -- requests to the core ------------------------------------------------------------------------------------- */

static void fail(struct terminal *t, const struct cloche_err *e, const json_t *about)
{
        json_t *error = client_error(e, about ? json_deep_copy(about) : NULL);

        json_object_set_new(error, "type", json_string("error"));
        sandbox_socket_send(&t->base, error);
        sandbox_socket_finish(&t->base);
}

/* params: stolen; "sandbox" is added. */
static int send_request(struct terminal *t, struct sandbox_request **slot, const char *method, json_t *params,
                        const struct buf *attachments, const struct sandbox_face *face)
{
        struct cloche_err e = {0};
        int r = json_object_set(params, "sandbox", t->sandbox);

        r = r < 0 ? err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "make a request to a sandbox")
                  : sandboxes_request(t->base.daemon->sandboxes, t->principal, method, params, attachments, face, t,
                                      slot, &e);
        json_decref(params);
        if (r < 0)
                face->fail(t, &e, NULL);
        return r;
}

static json_t *of_process(const struct terminal *t)
{
        return json_pack("{s:O}", "process", t->process);
}

static void on_main_failed(void *data, const struct cloche_err *e, const json_t *about)
{
        struct terminal *t = data;

        t->main = NULL;
        fail(t, e, about);
}

/* -- from the viewer ------------------------------------------------------------------------------------------ */

static void send_input(struct terminal *t);

static void on_input_done(void *data, const json_t *result, const struct buf *attachments)
{
        struct terminal *t = data;

        (void)result;
        (void)attachments;
        t->input = NULL;
        send_input(t);
}

static void on_input_failed(void *data, const struct cloche_err *e, const json_t *about)
{
        struct terminal *t = data;

        (void)e; /* the terminal has ended, which is reported as its exit */
        (void)about;
        t->input = NULL;
        t->in.size = 0;
        websocket_hold(t->base.socket, 0);
}

static void send_input(struct terminal *t)
{
        static const struct sandbox_face face = {.result = on_input_done, .fail = on_input_failed};
        json_t *params;

        if (t->is_attached && !t->input && t->in.size > 0) {
                params = of_process(t);
                json_object_set_new(params, "data", json_attachment(0, t->in.size));
                if (send_request(t, &t->input, "process.input", params, &t->in, &face) < 0)
                        return;
                t->in.size = 0;
        }
        websocket_hold(t->base.socket, t->in.size > INPUT_BYTES_MAX);
}

static void send_size(struct terminal *t);

static void on_resized(void *data, const json_t *result, const struct buf *attachments)
{
        struct terminal *t = data;

        (void)result;
        (void)attachments;
        t->resize = NULL;
        send_size(t);
}

static void on_not_resized(void *data, const struct cloche_err *e, const json_t *about)
{
        (void)e;
        (void)about;
        on_resized(data, NULL, NULL);
}

static void send_size(struct terminal *t)
{
        static const struct sandbox_face face = {.result = on_resized, .fail = on_not_resized};
        json_t *params;

        if (!t->is_attached || !t->is_resized || t->resize)
                return;
        t->is_resized = 0;
        params = of_process(t);
        json_object_set_new(params, "cols", json_integer(t->cols));
        json_object_set_new(params, "rows", json_integer(t->rows));
        (void)send_request(t, &t->resize, "process.resize", params, &none, &face);
}

static int read_size(const json_t *object, const char *name, unsigned *ret)
{
        json_int_t value = json_integer_value(json_object_get(object, name));

        *ret = (unsigned)value;
        return value >= 1 && value <= SIZE_MAX_CELLS ? 0 : -1;
}

static int take_text(struct terminal *t, const char *text, size_t size, struct cloche_err *e)
{
        json_t *object = NULL;
        unsigned cols = 0, rows = 0;
        const char *type;
        int r = json_load_text(text, size, &object, e);

        if (r == 0) {
                type = json_string_value(json_object_get(object, "type"));
                if (!type || strcmp(type, "resize") != 0 || read_size(object, "cols", &cols) < 0 ||
                    read_size(object, "rows", &rows) < 0)
                        r = err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                    "a text message must be {\"type\": \"resize\", \"cols\": 1 to %d, \"rows\": 1 to "
                                    "%d}",
                                    SIZE_MAX_CELLS, SIZE_MAX_CELLS);
        }
        json_decref(object);
        if (r < 0)
                return r;
        t->cols = cols;
        t->rows = rows;
        t->is_resized = 1;
        send_size(t);
        return 0;
}

/* -- from the terminal ---------------------------------------------------------------------------------------- */

static void hold(struct terminal *t)
{
        size_t size = websocket_waiting(t->base.socket);
        int wanted = size > (t->is_held ? SOCKET_LOW_BYTES : SOCKET_HIGH_BYTES);

        if (wanted == t->is_held)
                return;
        t->is_held = wanted;
        if (t->main)
                sandbox_request_hold(t->main, wanted);
}

static void on_output(void *data, const char *event, const json_t *about, const struct buf *attachments)
{
        const json_t *bytes = json_object_get(about, "data");
        json_int_t at = json_integer_value(json_object_get(bytes, "at")),
                   n = json_integer_value(json_object_get(bytes, "n"));
        struct terminal *t = data;

        if (strcmp(event, "output") != 0 || at < 0 || n <= 0 || (size_t)at > attachments->size ||
            (size_t)n > attachments->size - (size_t)at)
                return;
        t->base.daemon->stats.bytes_written += (uint64_t)n;
        (void)websocket_queue(t->base.socket, 0, attachments->data + at, (size_t)n);
        hold(t);
}

static void on_ended(void *data, const json_t *result, const struct buf *attachments)
{
        struct terminal *t = data;
        json_t *code = json_object_get(result, "exitCode"), *signal = json_object_get(result, "signal");
        json_t *object = json_pack("{s:s, s:O?, s:O?}", "type", "exit", "exitCode", code, "code", code);

        (void)attachments;
        t->main = NULL;
        if (signal)
                json_object_set(object, "signal", signal);
        sandbox_socket_send(&t->base, object);
        sandbox_socket_finish(&t->base);
}

static void attach(struct terminal *t, const json_t *process)
{
        static const struct sandbox_face face = {.event = on_output, .result = on_ended, .fail = on_main_failed};

        sandbox_socket_send(&t->base, json_pack("{s:s, s:O}", "type", "ready", "process", process));
        if (send_request(t, &t->main, "process.follow", of_process(t), &none, &face) < 0)
                return;
        t->is_attached = 1;
        send_size(t);
        send_input(t);
}

/* -- finding or starting it ----------------------------------------------------------------------------------- */

static void find(struct terminal *t);

static void on_started(void *data, const json_t *result, const struct buf *attachments)
{
        struct terminal *t = data;

        (void)attachments;
        t->main = NULL;
        t->is_resized = 0;
        attach(t, result);
}

/* Another viewer may have started it meanwhile. */
static void on_not_started(void *data, const struct cloche_err *e, const json_t *about)
{
        struct terminal *t = data;

        t->main = NULL;
        if (e->code == CLOCHE_E_STATE && ++t->tries < TRIES)
                find(t);
        else
                fail(t, e, about);
}

static void start(struct terminal *t)
{
        static const struct sandbox_face face = {.result = on_started, .fail = on_not_started};
        json_t *params = of_process(t);

        json_object_set(params, "session", t->session);
        json_object_set_new(params, "command", json_sprintf("exec %s", json_string_value(t->shell)));
        json_object_set_new(params, "terminal", json_pack("{s:i, s:i}", "cols", (int)t->cols, "rows", (int)t->rows));
        (void)send_request(t, &t->main, "process.start", params, &none, &face);
}

static void on_cleaned_up(void *data, const json_t *result, const struct buf *attachments)
{
        struct terminal *t = data;

        (void)result;
        (void)attachments;
        t->main = NULL;
        start(t);
}

static void on_found(void *data, const json_t *result, const struct buf *attachments)
{
        static const struct sandbox_face face = {.result = on_cleaned_up, .fail = on_main_failed};
        const char *status = json_string_value(json_object_get(result, "status"));
        struct terminal *t = data;

        (void)attachments;
        t->main = NULL;
        if (status && strcmp(status, "running") == 0)
                attach(t, result);
        else
                (void)send_request(t, &t->main, "process.cleanup", of_process(t), &none, &face);
}

static void on_not_found(void *data, const struct cloche_err *e, const json_t *about)
{
        struct terminal *t = data;

        t->main = NULL;
        if (e->code == CLOCHE_E_NOT_FOUND)
                start(t);
        else
                fail(t, e, about);
}

static void find(struct terminal *t)
{
        static const struct sandbox_face face = {.result = on_found, .fail = on_not_found};

        (void)send_request(t, &t->main, "process.get", of_process(t), &none, &face);
}

/* -- the WebSocket -------------------------------------------------------------------------------------------- */

static void on_open(void *data, struct websocket *socket)
{
        struct terminal *t = data;

        t->base.socket = socket;
        find(t);
}

static void on_message(void *data, char *bytes, size_t size)
{
        struct terminal *t = data;

        t->base.daemon->stats.bytes_read += size;
        if (buf_append(&t->in, bytes, size) < 0)
                websocket_close(t->base.socket, 1009, "more than is taken at one time");
        else
                send_input(t);
}

static void on_text(void *data, char *bytes, size_t size)
{
        struct terminal *t = data;
        struct cloche_err e = {0};

        t->base.daemon->stats.bytes_read += size;
        if (take_text(t, bytes, size, &e) < 0)
                fail(t, &e, NULL);
}

static void on_sent(void *data)
{
        struct terminal *t = data;

        hold(t);
        sandbox_socket_sent(&t->base);
}

static void on_closed(void *data)
{
        struct terminal *t = data;
        struct sandbox_request *requests[] = {t->main, t->input, t->resize};

        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
                if (requests[i])
                        sandbox_request_cancel(requests[i]);
        sandbox_socket_done(&t->base);
        json_decref(t->sandbox);
        json_decref(t->session);
        json_decref(t->shell);
        json_decref(t->process);
        buf_done(&t->in);
        free(t);
}

static const struct websocket_handler handler = {
        .on_open = on_open,
        .on_message = on_message,
        .on_text = on_text,
        .on_sent = on_sent,
        .on_closed = on_closed,
};

int terminal_open(struct daemon *d, struct http_request *request, int64_t principal, const char *sandbox,
                  const struct terminal_options *opt, struct cloche_err *e)
{
        const char *session = opt->session ? opt->session : "default";
        struct terminal *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "open a terminal");
        sandbox_socket_init(&t->base, d);
        t->principal = principal;
        t->sandbox = json_string(sandbox);
        t->session = json_string(session);
        t->shell = json_string(opt->shell ? opt->shell : "bash");
        t->process = json_sprintf("terminal-%s", session);
        t->cols = opt->cols ? opt->cols : 80;
        t->rows = opt->rows ? opt->rows : 24;
        t->is_resized = opt->cols || opt->rows; /* an existing terminal is resized too */
        t->in = BUF_INIT(MESSAGE_BYTES_MAX + INPUT_BYTES_MAX);
        web_choose_protocol(request);
        r = http_upgrade(request, &handler, t, MESSAGE_BYTES_MAX, e);
        if (r < 0)
                on_closed(t);
        else
                http_request_handle(request, NULL, NULL); /* detach the previous handler */
        return r;
}

static int read_cells(const json_t *params, const char *name, unsigned *ret, struct cloche_err *e)
{
        const json_t *value = json_object_get(params, name);

        if (value && (json_integer_value(value) < 1 || json_integer_value(value) > SIZE_MAX_CELLS))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s must be 1 to %d", name, SIZE_MAX_CELLS);
        *ret = (unsigned)json_integer_value(value);
        return 0;
}

int terminal_open_params(struct daemon *d, struct http_request *request, int64_t principal, const json_t *params,
                         struct cloche_err *e)
{
        struct terminal_options opt = {
                .session = json_string_value(json_object_get(params, "session")),
                .shell = json_string_value(json_object_get(params, "shell")),
        };
        int r = read_cells(params, "cols", &opt.cols, e);

        if (r == 0)
                r = read_cells(params, "rows", &opt.rows, e);
        if (r < 0)
                return r;
        return terminal_open(d, request, principal, json_string_value(json_object_get(params, "sandbox")), &opt, e);
}
