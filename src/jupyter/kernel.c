/* The life of a kernel, its requests and their order. Runs in: cloche-kernel and
 * cloched-engine, with their rights. */
#include "internal.h"

#include "base/err.h"
#include "base/state.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- states ------------------------------------------------------------------------------------------------------- */

static const unsigned transitions[KERNEL_STATE_COUNT] = {
        [KERNEL_NEW] = STATE_TO(KERNEL_STARTING) | STATE_TO(KERNEL_ENDED),
        [KERNEL_STARTING] = STATE_TO(KERNEL_READY) | STATE_TO(KERNEL_LOST) | STATE_TO(KERNEL_ENDED),
        [KERNEL_READY] = STATE_TO(KERNEL_LOST) | STATE_TO(KERNEL_ENDED),
        [KERNEL_LOST] = STATE_TO(KERNEL_STARTING) | STATE_TO(KERNEL_ENDED),
};

static void set_state(struct jupyter_kernel *k, enum kernel_state state)
{
        STATE_CHECK(transitions, k->state, state);
        k->state = state;
}

/* -- requests to the core ------------------------------------------------------------------------------------------ */

json_t *jupyter_params(const struct jupyter_kernel *k)
{
        return json_pack("{s:s}", "context", k->context);
}

void jupyter_call_core(struct jupyter_kernel *k, struct jupyter_request *request, const char *method, json_t *params,
                       jupyter_then then, jupyter_on_event on_event)
{
        struct jupyter_call *call = calloc(1, sizeof(*call));

        if (!call)
                abort(); /* half a request cannot be answered */
        *call = (struct jupyter_call){.kernel = k, .request = request, .then = then, .on_event = on_event};
        LIST_INSERT_HEAD(&k->calls, call, link);
        k->carrier->call(k->data, call, method, params);
}

void jupyter_call_set(struct jupyter_call *call, void *carried)
{
        call->carried = carried;
}

void *jupyter_call_get(const struct jupyter_call *call)
{
        return call->carried;
}

void jupyter_call_event(struct jupyter_call *call, const char *event, const json_t *about, const void *attachments,
                        size_t attachments_size)
{
        if (call->on_event)
                call->on_event(call, event, about, attachments, attachments_size);
}

void jupyter_call_end(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        LIST_REMOVE(call, link);
        call->then(call, reply);
        free(call);
}

/* -- the end of a request ------------------------------------------------------------------------------------------ */

static void unqueue(struct jupyter_request *request)
{
        struct jupyter_kernel *k = request->kernel;

        TAILQ_REMOVE(&k->waiting, request, link);
        k->waiting_count--;
        k->waiting_bytes -= request->size;
}

static void request_free(struct jupyter_request *request)
{
        jupyter_cell_free(request->cell);
        json_decref(request->header);
        json_decref(request->content);
        free(request);
}

static void begin_next(struct jupyter_kernel *k);

void jupyter_finish(struct jupyter_request *request)
{
        struct jupyter_kernel *k = request->kernel;
        int is_current = k->current == request;

        jupyter_publish_status(k, request, "idle");
        if (is_current)
                k->current = NULL;
        request_free(request);
        if (is_current)
                begin_next(k);
}

void jupyter_reply_with(struct jupyter_request *request, json_t *metadata, json_t *content)
{
        char type[NAME_BYTES];

        snprintf(type, sizeof(type), "%.*s_reply", (int)(strlen(request->type) - strlen("_request")), request->type);
        jupyter_send(request, request->channel, type, metadata, content);
}

void jupyter_reply(struct jupyter_request *request, json_t *content)
{
        jupyter_reply_with(request, NULL, content);
        jupyter_finish(request);
}

json_t *jupyter_error(const char *name, const char *text)
{
        json_t *shown = text_of(text, strlen(text)), *line = json_sprintf("%s: %s", name, json_string_value(shown));

        return json_pack("{s:s, s:o, s:[o]}", "ename", name, "evalue", shown, "traceback", line);
}

void jupyter_fail(struct jupyter_request *request, const struct cloche_err *e)
{
        json_t *content = jupyter_error(cloche_code_name(e->code), e->msg);

        json_object_set_new(content, "status", json_string("error"));
        jupyter_reply(request, content);
}

static void abort_request(struct jupyter_request *request)
{
        jupyter_publish_status(request->kernel, request, "busy");
        jupyter_reply_with(request, NULL, json_pack("{s:s}", "status", "aborted"));
        jupyter_finish(request);
}

void jupyter_abort_waiting(struct jupyter_kernel *k)
{
        struct jupyter_request *request, *next;

        for (request = TAILQ_FIRST(&k->waiting); request; request = next) {
                next = TAILQ_NEXT(request, link);
                if (strcmp(request->type, "execute_request") == 0) {
                        unqueue(request);
                        abort_request(request);
                }
        }
}

void jupyter_end(struct jupyter_kernel *k, enum jupyter_end how)
{
        if (k->state == KERNEL_ENDED || (k->is_ending && how == JUPYTER_DEAD))
                return; /* the request that ends it has deleted the context */
        set_state(k, KERNEL_ENDED);
        k->carrier->ended(k->data, how);
}

/* -- control ------------------------------------------------------------------------------------------------------- */

static void on_interrupted(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        if (call->request && reply->e)
                jupyter_fail(call->request, reply->e);
        else if (call->request)
                jupyter_reply(call->request, json_pack("{s:s}", "status", "ok"));
}

static void interrupt(struct jupyter_request *request)
{
        if (request->kernel->state != KERNEL_READY) {
                jupyter_reply(request, json_pack("{s:s}", "status", "ok"));
                return;
        }
        jupyter_call_core(request->kernel, request, "context.interrupt", jupyter_params(request->kernel),
                          on_interrupted, NULL);
}

void jupyter_kernel_interrupt(struct jupyter_kernel *k)
{
        jupyter_call_core(k, NULL, "context.interrupt", jupyter_params(k), on_interrupted, NULL);
}

static void complete_shutdown(struct jupyter_request *request)
{
        struct jupyter_kernel *k = request->kernel;
        int restarts = json_is_true(json_object_get(request->content, "restart"));

        jupyter_reply(request, json_pack("{s:s, s:b}", "status", "ok", "restart", restarts));
        jupyter_end(k, JUPYTER_SHUTDOWN);
}

/* The interpreter may be gone already: the kernel ends in any case. */
static void on_deleted(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        (void)reply;
        complete_shutdown(call->request);
}

static void shut_down(struct jupyter_request *request)
{
        struct jupyter_kernel *k = request->kernel;

        k->is_ending = 1;
        if (k->state == KERNEL_LOST)
                complete_shutdown(request);
        else
                jupyter_call_core(k, request, "context.delete", jupyter_params(k), on_deleted, NULL);
}

/* -- the table ----------------------------------------------------------------------------------------------------- */

#define SHELL (1u << JUPYTER_SHELL)
#define CONTROL (1u << JUPYTER_CONTROL)

struct row {
        const char *type;
        unsigned channels;
        void (*handler)(struct jupyter_request *request);
};

static const struct row rows[] = {
        {"execute_request", SHELL, jupyter_execute},
        {"kernel_info_request", SHELL | CONTROL, jupyter_kernel_info},
        {"complete_request", SHELL, jupyter_complete},
        {"inspect_request", SHELL, jupyter_inspect},
        {"is_complete_request", SHELL, jupyter_is_complete},
        {"history_request", SHELL, jupyter_history},
        {"comm_info_request", SHELL | CONTROL, jupyter_comm_info},
        {"comm_open", SHELL, jupyter_comm_refuse},
        {"comm_msg", SHELL, jupyter_comm_refuse},
        {"interrupt_request", CONTROL, interrupt},
        {"shutdown_request", SHELL | CONTROL, shut_down},
};

static const struct row *find_row(const char *type, enum jupyter_channel channel)
{
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strcmp(rows[i].type, type) == 0 && rows[i].channels & 1u << channel)
                        return &rows[i];
        return NULL;
}

static void begin(struct jupyter_request *request)
{
        jupyter_publish_status(request->kernel, request, "busy");
        find_row(request->type, request->channel)->handler(request);
}

/* Requests on shell are handled in order, one at a time. */
static void begin_next(struct jupyter_kernel *k)
{
        struct jupyter_request *request = TAILQ_FIRST(&k->waiting);

        if (k->current || !request || (k->state != KERNEL_READY && k->state != KERNEL_LOST))
                return;
        if (k->state == KERNEL_LOST) {
                jupyter_kernel_start(k);
                return;
        }
        unqueue(request);
        k->current = request;
        begin(request);
}

static struct jupyter_request *make_request(struct jupyter_kernel *k, const struct jupyter_message *m)
{
        struct jupyter_request *request = calloc(1, sizeof(*request));

        if (!request || m->address_size > sizeof(request->address)) {
                free(request);
                return NULL;
        }
        request->kernel = k;
        request->channel = m->channel;
        request->header = json_incref(m->header);
        request->content = json_incref(m->content);
        request->type = json_string_value(json_object_get(m->header, "msg_type"));
        request->address_size = m->address_size;
        request->size = m->size;
        memcpy(request->address, m->address, m->address_size);
        return request;
}

/* A message of an unknown type is passed over, as ipykernel does. */
void jupyter_kernel_take(struct jupyter_kernel *k, const struct jupyter_message *m)
{
        const char *type = json_string_value(json_object_get(m->header, "msg_type"));
        struct jupyter_request *request;

        if (!type || k->state == KERNEL_ENDED)
                return;
        if (m->channel == JUPYTER_STDIN && strcmp(type, "input_reply") == 0)
                jupyter_take_input(k, m->content);
        if (!find_row(type, m->channel) || !(request = make_request(k, m)))
                return;
        if (m->channel == JUPYTER_CONTROL) {
                begin(request);
                return;
        }
        TAILQ_INSERT_TAIL(&k->waiting, request, link);
        k->waiting_count++;
        k->waiting_bytes += request->size;
        begin_next(k);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

struct jupyter_kernel *jupyter_kernel_new(const struct jupyter_carrier *carrier, void *data,
                                          const struct jupyter_options *options)
{
        struct jupyter_kernel *k = calloc(1, sizeof(*k));

        if (!k)
                return NULL;
        TAILQ_INIT(&k->waiting);
        LIST_INIT(&k->calls);
        k->carrier = carrier;
        k->data = data;
        k->language = jupyter_language_find(options->language);
        k->sandbox = strdup(options->sandbox);
        k->context = strdup(options->context);
        k->cwd = options->cwd ? strdup(options->cwd) : NULL;
        k->is_forkable = options->is_forkable;
        jupyter_make_session(k->session);
        if (!k->language || !k->sandbox || !k->context || (options->cwd && !k->cwd)) {
                jupyter_kernel_free(k);
                return NULL;
        }
        return k;
}

void jupyter_kernel_free(struct jupyter_kernel *k)
{
        struct jupyter_call *call;
        struct jupyter_request *request;

        if (!k)
                return;
        while ((call = LIST_FIRST(&k->calls))) {
                LIST_REMOVE(call, link);
                k->carrier->drop(k->data, call);
                if (call->request && call->request != k->current)
                        request_free(call->request);
                free(call);
        }
        if (k->current)
                request_free(k->current);
        while ((request = TAILQ_FIRST(&k->waiting))) {
                unqueue(request);
                request_free(request);
        }
        free(k->sandbox);
        free(k->context);
        free(k->cwd);
        free(k);
}

/* The interpreter's last word is its version: "IPython 8.5.0 on Python 3.11.2". An image may have
 * any interpreter, and front ends print the version on terminals. */
static void keep_version(struct jupyter_kernel *k, const json_t *context)
{
        const char *interpreter = json_string_value(json_object_get(context, "interpreter")),
                   *word = interpreter ? strrchr(interpreter, ' ') : NULL;
        json_t *text = text_of(word ? word + 1 : "", word ? strlen(word + 1) : 0);
        size_t size = utf8_cut(json_string_value(text), json_string_length(text), sizeof(k->version) - 1);

        snprintf(k->version, sizeof(k->version), "%.*s", (int)size, json_string_value(text));
        json_decref(text);
}

static void refuse_waiting(struct jupyter_kernel *k, const struct cloche_err *e)
{
        struct jupyter_request *request;

        while ((request = TAILQ_FIRST(&k->waiting))) {
                unqueue(request);
                jupyter_publish_status(k, request, "busy");
                if (strcmp(request->type, "execute_request") == 0)
                        jupyter_publish(k, request, "error", jupyter_error(cloche_code_name(e->code), e->msg));
                if (strstr(request->type, "_request"))
                        jupyter_fail(request, e);
                else
                        jupyter_finish(request);
        }
}

static void on_made(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        struct jupyter_kernel *k = call->kernel;

        if (k->state == KERNEL_ENDED)
                return; /* a client ended it meanwhile, and the deletion came first or failed */
        if (reply->e) {
                k->failure = *reply->e;
                set_state(k, KERNEL_LOST);
                refuse_waiting(k, &k->failure);
                return;
        }
        keep_version(k, reply->result);
        k->count = json_integer_value(json_object_get(reply->result, "executionCount"));
        set_state(k, KERNEL_READY);
        begin_next(k);
}

void jupyter_kernel_start(struct jupyter_kernel *k)
{
        if (k->state == KERNEL_NEW)
                jupyter_publish_status(k, NULL, "starting");
        set_state(k, KERNEL_STARTING);
        k->failure = (struct cloche_err){0};
        jupyter_call_core(k, NULL, "context.create",
                          json_pack("{s:s, s:s, s:s*, s:b}", "context", k->context, "language", k->language->name,
                                    "cwd", k->cwd, "forkable", k->is_forkable),
                          on_made, NULL);
}

const struct cloche_err *jupyter_kernel_failure(const struct jupyter_kernel *k)
{
        return &k->failure;
}

void jupyter_kernel_lost(struct jupyter_kernel *k, const struct cloche_err *e)
{
        const struct jupyter_reply reply = {.e = e};
        struct jupyter_call *call;
        LIST_HEAD(, jupyter_call) lost = LIST_HEAD_INITIALIZER(lost);

        if (k->state == KERNEL_READY)
                set_state(k, KERNEL_LOST);
        /* Their ends may make new calls. */
        while ((call = LIST_FIRST(&k->calls))) {
                LIST_REMOVE(call, link);
                LIST_INSERT_HEAD(&lost, call, link);
        }
        while ((call = LIST_FIRST(&lost))) {
                k->carrier->drop(k->data, call);
                jupyter_call_end(call, &reply);
        }
}

void jupyter_kernel_restarting(struct jupyter_kernel *k)
{
        jupyter_publish_status(k, NULL, "restarting");
}

int jupyter_kernel_is_full(const struct jupyter_kernel *k)
{
        return k->waiting_count >= JUPYTER_QUEUE_MAX || k->waiting_bytes >= JUPYTER_QUEUE_BYTES_MAX;
}

const char *jupyter_kernel_state(const struct jupyter_kernel *k)
{
        if (k->state == KERNEL_ENDED)
                return "dead";
        if (k->state == KERNEL_NEW || k->state == KERNEL_STARTING)
                return "starting";
        return k->current ? "busy" : "idle";
}
