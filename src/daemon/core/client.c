/* Clients: requests and answers as frames. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "client.h"
#include "daemon/images/names.h"
#include "daemon/images/operations.h"
#include "daemon/run/bridge.h"
#include "daemon/run/changes.h"
#include "daemon/run/prefix.h"
#include "daemon/run/request.h"
#include "daemon/run/run.h"
#include "log.h"
#include "sandbox-request.h"

#include "base/err.h"
#include "wire/json.h"
#include "wire/rpc.h"
#include "wire/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OUT_HIGH_BYTES (1u << 20)  /* over this its runs wait with their output, */
#define OUT_LOW_BYTES (256u << 10) /* until it is below this */
/* Over this, nothing more is read from the client. It is far above OUT_HIGH_BYTES, because a host
 * that answers calls one by one must still be read. */
#define OUT_STOP_BYTES (8u << 20)
#define OUT_READ_BYTES (4u << 20) /* until it is below this */
#define OUT_MAX_BYTES (1u << 30)  /* results are queued all the same; over this the client is disconnected */

/* -- life ----------------------------------------------------------------------------------------------------- */

void client_init(struct client *client, struct daemon *d, const struct face *face, int64_t principal, int peer_fd)
{
        *client = (struct client){.daemon = d,
                                  .face = face,
                                  .principal = principal,
                                  .peer_fd = peer_fd,
                                  .number = ++d->next_client,
                                  .out = BUF_INIT(OUT_MAX_BYTES)};
        TAILQ_INIT(&client->pending);
        TAILQ_INIT(&client->requests);
}

static void close_client(struct client *client)
{
        struct client_pending *pending;

        if (client->is_closed)
                return;
        client->is_closed = 1;
        bridge_on_client_closed(client);
        while ((pending = TAILQ_FIRST(&client->pending))) {
                client_pending_remove(pending);
                pending->kind->on_client_closed(pending);
        }
        prefix_on_client_closed(client);
        changes_on_client_closed(client);
        images_on_client_closed(client);
        if (client->is_unsent)
                TAILQ_REMOVE(&client->daemon->unsent, client, unsent_link);
        client->is_unsent = 0;
}

void client_done(struct client *client)
{
        close_client(client);
        buf_done(&client->out);
}

/* -- requests that are answered later ---------------------------------------------------------------------------- */

static struct client_pending *find_pending(const struct client *client, const json_t *id)
{
        struct client_pending *pending;

        TAILQ_FOREACH (pending, &client->pending, link)
                if (id && json_equal(pending->id, id))
                        return pending;
        return NULL;
}

int client_pending_check(const struct client_request *request, struct cloche_err *e)
{
        const struct client *client = request->client;

        if (client->daemon->request_bytes + request->bytes > REQUESTS_BYTES_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "the parameters of the requests under way have %llu bytes, at most %llu may be: try "
                               "again when some have ended",
                               (unsigned long long)client->daemon->request_bytes,
                               (unsigned long long)REQUESTS_BYTES_MAX);
        if (client->pending_count >= CLIENT_PENDING_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "this connection has %u requests under way, the maximum is %u: try again when one has "
                               "ended",
                               client->pending_count, CLIENT_PENDING_MAX);
        if (find_pending(client, request->id))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the id of this request belongs to another one that has not ended: use a new id");
        return daemon_check_work(client->daemon, e);
}

void client_pending_add(struct client_pending *pending, const struct client_pending_kind *kind,
                        const struct client_request *request)
{
        *pending = (struct client_pending){.daemon = request->client->daemon,
                                           .client = request->client,
                                           .id = json_incref((json_t *)request->id),
                                           .kind = kind};
        TAILQ_INSERT_TAIL(&pending->client->pending, pending, link);
        pending->client->pending_count++;
}

void client_pending_remove(struct client_pending *pending)
{
        if (!pending->client)
                return;
        TAILQ_REMOVE(&pending->client->pending, pending, link);
        pending->client->pending_count--;
        pending->client = NULL;
        json_decref(pending->id);
        pending->id = NULL;
}

int client_cancel(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        struct client_pending *pending = find_pending(request->client, json_object_get(request->params, "id"));

        *ret = json_pack("{s:b}", "found", pending != NULL); /* one that has just ended is no error */
        if (pending)
                pending->kind->cancel(pending);
        return *ret ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "cancel");
}

static int is_to_be_held(const struct client_pending *pending)
{
        return pending->is_held || pending->client->is_held;
}

/* The object may end and be freed. */
static void send_hold(struct client_pending *pending)
{
        pending->is_hold_sent = is_to_be_held(pending);
        if (pending->kind->hold)
                pending->kind->hold(pending, pending->is_hold_sent);
}

void client_pending_begun(struct client_pending *pending)
{
        if (is_to_be_held(pending))
                send_hold(pending);
}

static struct client_pending *first_to_send(const struct client *client)
{
        struct client_pending *pending;

        TAILQ_FOREACH (pending, &client->pending, link)
                if (is_to_be_held(pending) != pending->is_hold_sent)
                        return pending;
        return NULL;
}

void client_hold_all(struct client *client, int hold)
{
        struct client_pending *pending;

        client->is_held = hold;
        while ((pending = first_to_send(client)))
                send_hold(pending);
}

int client_hold(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        struct client_pending *pending = find_pending(request->client, json_object_get(request->params, "id"));

        *ret = json_pack("{s:b}", "found", pending && pending->kind->hold);
        if (pending) {
                pending->is_held = json_is_true(json_object_get(request->params, "hold"));
                if (is_to_be_held(pending) != pending->is_hold_sent)
                        send_hold(pending);
        }
        return *ret ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold");
}

/* -- writing -------------------------------------------------------------------------------------------------- */

size_t client_unwritten(const struct client *client)
{
        return client->out.size - client->out_at;
}

static void look_at_queue(struct client *client)
{
        size_t size = client_unwritten(client);
        int hold = client->is_held ? size > OUT_LOW_BYTES : size > OUT_HIGH_BYTES;
        int stop = client->is_stopped ? size > OUT_READ_BYTES : size > OUT_STOP_BYTES;

        if (hold != client->is_held)
                client_hold_all(client, hold);
        if (stop != client->is_stopped) {
                client->is_stopped = stop;
                client->carrier->hold(client, client_is_stopped(client));
        }
}

void client_written(struct client *client, size_t size)
{
        client->daemon->stats.bytes_written += size;
        client->out_at += size;
        if (client->out_at == client->out.size) {
                client->out_at = client->out.size = 0;
                if (client->out.room > OUT_LOW_BYTES)
                        buf_done(&client->out);
        }
        look_at_queue(client);
}

/* The queue is written once per loop iteration: the output of many runs is sent in one write. */
static void unsent(struct client *client)
{
        if (!client->is_unsent)
                TAILQ_INSERT_TAIL(&client->daemon->unsent, client, unsent_link);
        client->is_unsent = 1;
        look_at_queue(client);
}

/* If a message could not be made or queued, its receiver would wait for ever: disconnect. */
static void sent(struct client *client, int r, const struct cloche_err *e)
{
        if (r == 0)
                unsent(client);
        else
                client->carrier->close(client, e->msg);
}

void client_send_request(struct client *client, json_int_t id, const char *method, json_t *params,
                         const struct buf *attachments)
{
        struct cloche_err e = {0};
        int r = rpc_request(json_integer(id), method, params, attachments->data, attachments->size, &client->out, &e);

        sent(client, r, &e);
}

/* -- results -------------------------------------------------------------------------------------------------- */

static void frames_fail(struct client *client, const json_t *id, const struct cloche_err *e, json_t *data);

static void frames_result(struct client *client, const struct operation *operation, const json_t *id,
                          const json_t *result)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        struct cloche_err e = {0};
        json_t *written = NULL;
        int r = value_write(result, VALUE_FRAME, &attachments, &written, &e);

        (void)operation;
        if (r == 0)
                r = rpc_result(json_incref((json_t *)id), written, attachments.data, attachments.size, &client->out,
                               &e);
        if (r < 0)
                frames_fail(client, id, &e, NULL);
        else
                unsent(client);
}

/* -- errors --------------------------------------------------------------------------------------------------- */

static int rpc_code(unsigned code)
{
        if (code == CLOCHE_E_INVALID_ARGUMENT || code == CLOCHE_E_INVALID_JSON || code == CLOCHE_E_UNKNOWN_LANGUAGE)
                return -32602;
        return code == CLOCHE_E_INTERNAL ? -32603 : -32000;
}

json_t *client_error(const struct cloche_err *e, json_t *data)
{
        static const char *const faults[] = {"none", "caller", "guest", "host", "bug"};
        json_t *error =
                json_pack("{s:s, s:s, s:o}", "name", cloche_code_name(e->code), "fault",
                          faults[cloche_code_fault(e->code)], "message", json_valid_text(e->msg, strlen(e->msg)));

        if (error && data)
                json_object_update(error, data);
        json_decref(data);
        return error;
}

/* Convert the error of a set-up to frame form. */
static void write_failure(json_t *error, struct buf *attachments)
{
        json_t *failure = json_object_get(error, "failure"), *held, *written = NULL;

        if (!failure)
                return;
        held = value_failure_read(failure, VALUE_TEXT, NULL, 0);
        (void)value_write(held, VALUE_FRAME, attachments, &written, NULL);
        json_object_set_new(error, "failure", written ? written : json_object());
        json_decref(held);
}

static void send_error(struct client *client, const json_t *id, int code, const struct cloche_err *e, json_t *data)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        struct cloche_err own = {0};
        json_t *all = client_error(e, data), *message = json_incref(json_object_get(all, "message"));
        const char *text = message ? json_string_value(message) : "";
        int r;

        write_failure(all, &attachments);
        client->daemon->stats.errors_total++;
        json_object_del(all, "message");
        r = rpc_error_with(json_incref((json_t *)id), code, text, all, &attachments, &client->out, &own);
        sent(client, r, &own);
        json_decref(message);
}

static void frames_fail(struct client *client, const json_t *id, const struct cloche_err *e, json_t *data)
{
        send_error(client, id, rpc_code(e->code), e, data);
}

static void frames_output(struct client *client, const json_t *id, int stream, const void *bytes, size_t size)
{
        struct cloche_err e = {0};
        json_t *params = json_pack("{s:O, s:s, s:o}", "run", id, "stream", stream == 1 ? "stdout" : "stderr", "data",
                                   json_attachment(0, size));

        sent(client, rpc_notify("output", params, bytes, size, &client->out, &e), &e);
}

static void frames_notify(struct client *client, const json_t *id, const char *event, const char *about)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        struct cloche_err e = {0};
        json_t *params = NULL;
        int r = bridge_to_frame(about, &attachments, &params, &e);

        if (r == 0)
                json_object_set(params, "run", (json_t *)id);
        if (r == 0)
                r = rpc_notify(event, params, attachments.data, attachments.size, &client->out, &e);
        sent(client, r, &e);
}

static void frames_event(struct client *client, const json_t *id, const char *event, const json_t *about,
                         const struct buf *attachments)
{
        struct cloche_err e = {0};
        json_t *params = json_pack("{s:O, s:s, s:O}", "id", id, "event", event, "about", about);

        sent(client, rpc_notify("event", params, attachments->data, attachments->size, &client->out, &e), &e);
}

static void frames_answer(struct client *client, const struct operation *operation, const json_t *id,
                          const json_t *result, const struct buf *attachments)
{
        struct cloche_err e = {0};
        int r = rpc_result(json_incref((json_t *)id), json_incref((json_t *)result), attachments->data,
                           attachments->size, &client->out, &e);

        (void)operation;
        if (r < 0)
                frames_fail(client, id, &e, NULL);
        else
                unsent(client);
}

const struct face client_frames = {
        .name = "frames",
        .result = frames_result,
        .fail = frames_fail,
        .output = frames_output,
        .notify = frames_notify,
        .event = frames_event,
        .answer = frames_answer,
        .has_bridge = 1,
};

/* -- received messages ---------------------------------------------------------------------------------------- */

/* Run an operation on sandboxes: its parameters are passed on in frame form. */
static int perform_as_it_is(struct client_request *request, const struct rpc_message *m, const struct frame *f,
                            struct cloche_err *e)
{
        const struct buf attachments = {.data = (char *)f->attachments, .size = f->attachments_size};
        json_t *value, *none = NULL;
        const char *key;
        int r = operation_permit(request, e);

        if (r < 0)
                return r;
        json_object_foreach (m->params, key, value)
                if (value_check(value, f->attachments_size, e) < 0) {
                        err_wrap(e, "%.60s", key);
                        e->code = CLOCHE_E_INVALID_ARGUMENT;
                        return -CLOCHE_E_INVALID_ARGUMENT;
                }
        request->params = m->params ? m->params : (none = json_object());
        r = sandbox_job_begin(request, &attachments, e);
        json_decref(none);
        return r;
}

static int perform(struct client_request *request, const struct rpc_message *m, const struct frame *f, json_t **ret,
                   struct cloche_err *e)
{
        json_t *params = NULL;
        int r;

        if (m->params && !json_is_object(m->params))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "params of \"%.60s\" must be an object", m->method);
        if (request->operation->is_sandbox)
                return perform_as_it_is(request, m, f, e);
        r = request_hold_params(m->params, VALUE_FRAME, f->attachments, f->attachments_size, &params, e);
        request->params = params;
        if (r == 0)
                r = operation_run(request, ret, e);
        json_decref(params);
        return r;
}

static void perform_and_answer(struct client_request *request, const struct rpc_message *m, const struct frame *f)
{
        struct client *client = request->client;
        struct cloche_err e = {0};
        json_t *result = NULL;
        int r = perform(request, m, f, &result, &e);

        if (r == 0)
                client->face->result(client, request->operation, m->id, result);
        else if (r < 0)
                client->face->fail(client, m->id, &e, NULL);
        json_decref(result);
        if (r == -CLOCHE_E_UNAUTHORIZED)
                client->carrier->close(client, e.msg);
}

/* A request that names an image, with a copy of its bytes. */
struct named_request {
        struct client_request request;
        json_t *root;
        struct buf attachments;
};

static void free_named(struct named_request *named)
{
        json_decref(named->root);
        buf_done(&named->attachments);
        free(named);
}

/* The requests that came after it are read after it has begun: one may use its sandbox. */
static void on_named(void *data, json_t *params, const struct cloche_err *e)
{
        struct named_request *named = data;
        struct client *client = named->request.client;
        const struct frame f = {.attachments = (const unsigned char *)named->attachments.data,
                                .attachments_size = named->attachments.size};
        const struct rpc_message m = {.kind = RPC_REQUEST,
                                      .id = (json_t *)named->request.id,
                                      .params = params,
                                      .method = named->request.operation->method};

        client->is_waiting = 0;
        if (!params && !e) { /* the client is closed */
                free_named(named);
                return;
        }
        if (e)
                client->face->fail(client, m.id, e, NULL);
        else
                perform_and_answer(&named->request, &m, &f);
        free_named(named);
        client->carrier->hold(client, client_is_stopped(client));
}

static int find_image(const struct client_request *request, const struct rpc_message *m, const struct frame *f,
                      struct cloche_err *e)
{
        struct named_request *named = calloc(1, sizeof(*named));
        int r = 0;

        if (!named)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold a request");
        *named = (struct named_request){.request = *request,
                                        .root = json_incref(m->root),
                                        .attachments = BUF_INIT(FRAME_BYTES_MAX)};
        if (f->attachments_size > 0 && buf_append(&named->attachments, f->attachments, f->attachments_size) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold a request");
        if (r == 0)
                r = image_name_find(request, m->params, on_named, named, e);
        if (r < 0) {
                free_named(named);
                return r;
        }
        request->client->is_waiting = 1;
        request->client->carrier->hold(request->client, 1);
        return 0;
}

static void answer(struct client *client, const struct rpc_message *m, const struct frame *f)
{
        struct client_request request = {
                .client = client,
                .operation = operation_by_method(m->method),
                .id = m->id,
                .bytes = f->json_size + f->attachments_size,
        };
        struct cloche_err e = {0};

        client->daemon->stats.requests_total++;
        if (!request.operation) {
                err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "there is no method \"%.60s\" (docs/reference.md lists them)",
                        m->method);
                send_error(client, m->id, -32601, &e, NULL);
        } else if (!client->is_greeted || !image_name_is_given(&request, m->params)) {
                perform_and_answer(&request, m, f);
        } else if (find_image(&request, m, f, &e) < 0) {
                client->face->fail(client, m->id, &e, NULL);
        }
}

/* Answer a frame that is no JSON-RPC message. The frames after it can still be read. */
static void answer_nonsense(struct client *client, const struct frame *f, struct cloche_err *e)
{
        struct cloche_err json_error = {0};
        json_t *root = NULL;
        int code = json_load_text(f->json, f->json_size, &root, &json_error) < 0 ? -32700 : -32600;

        json_decref(root);
        send_error(client, NULL, code, e, NULL);
}

void client_receive(struct client *client, const struct frame *f)
{
        struct cloche_err e = {0};
        struct rpc_message m;

        int r = rpc_parse(f, &m, &e);

        if (r == -CLOCHE_E_RESOURCE)
                client->carrier->close(client, e.msg); /* without memory, the failed request cannot even be named */
        else if (r < 0)
                answer_nonsense(client, f, &e);
        if (r < 0)
                return;
        if (m.kind == RPC_REQUEST)
                answer(client, &m, f);
        else if (m.kind == RPC_RESULT || m.kind == RPC_ERROR)
                bridge_answered(client, &m, f);
        else if (log_has_level(LEVEL_DEBUG))
                log_event(LEVEL_DEBUG, "notification", "{s:I}", "client", (json_int_t)client->number);
        rpc_message_done(&m);
}
