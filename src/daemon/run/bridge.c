/* Requests to a client: calls of its host functions, and questions about changes. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "bridge.h"
#include "run.h"

#include "base/err.h"
#include "engine/mounts/changeset.h"
#include "engine/run/bridge.h"
#include "wire/json.h"
#include "wire/value.h"

#include <cloche/cloche.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX 4096 /* unanswered calls of one run */

struct bridge_request {
        TAILQ_ENTRY(bridge_request) link;
        json_int_t number;
        const void *owner;
        unsigned *open;
        cloche_bridge_call *call; /* this one, or: */
        cloche_sync_question *question;
};

static void refuse(cloche_bridge_call *call, const char *message)
{
        (void)cloche_bridge_fail(call, "Error", message, NULL, NULL);
}

static void request_free(struct client *client, struct bridge_request *request)
{
        TAILQ_REMOVE(&client->requests, request, link);
        --*request->open;
        free(request);
}

static struct bridge_request *request_new(struct client *client, const void *owner, unsigned *open)
{
        struct bridge_request *request = calloc(1, sizeof(*request));

        if (!request)
                return NULL;
        *request = (struct bridge_request){.number = ++client->next_request, .owner = owner, .open = open};
        TAILQ_INSERT_TAIL(&client->requests, request, link);
        ++*open;
        return request;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

int bridge_to_frame(const char *text, struct buf *attachments, json_t **ret, struct cloche_err *e)
{
        json_t *value = NULL;
        int r = json_load_text(text, strlen(text), &value, e);

        if (r == 0)
                r = value_write(value, VALUE_FRAME, attachments, ret, e);
        json_decref(value);
        return r;
}

static int describe(const struct job *job, cloche_bridge_call *call, struct buf *attachments, json_t **ret,
                    struct cloche_err *e)
{
        json_t *target = json_loads(cloche_bridge_call_target(call), 0, NULL), *args = NULL, *kwargs = NULL;
        int r = value_write(bridge_call_args(call), VALUE_FRAME, attachments, &args, e);

        if (r == 0)
                r = value_write(bridge_call_kwargs(call), VALUE_FRAME, attachments, &kwargs, e);
        *ret = r == 0 ? json_pack("{s:O, s:O, s:O, s:O}", "run", job->pending.id, "target", target, "args", args,
                                  "kwargs", kwargs)
                      : NULL;
        json_decref(target);
        json_decref(args);
        json_decref(kwargs);
        return *ret ? 0 : r < 0 ? r : err_set(e, CLOCHE_E_INTERNAL, "describe a call of a host function");
}

void bridge_on_call(void *data, cloche_bridge_call *call)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        struct job *job = data;
        struct client *client = job->pending.client;
        struct bridge_request *request;
        struct cloche_err e = {0};
        json_t *params;

        if (!client || !client->face->has_bridge) {
                refuse(call, client ? "host functions need a connection of frames" : "the client has disconnected");
                return;
        }
        if (job->requests_open >= OPEN_MAX || client->is_stopped) {
                refuse(call, "too many calls of host functions wait for their answers: await some of them first");
                return;
        }
        if (describe(job, call, &attachments, &params, &e) < 0) {
                refuse(call, e.msg);
                return;
        }
        request = request_new(client, job, &job->requests_open);
        if (!request) {
                json_decref(params);
                refuse(call, "the host is out of memory");
                return;
        }
        request->call = call;
        client->daemon->stats.bridge_calls_total++;
        client_send_request(client, request->number, "bridge", params, &attachments);
}

void bridge_send_sync(struct client *client, const json_t *id, const void *owner, unsigned *open, const char *change,
                      cloche_sync_question *question)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        struct cloche_err e = {0};
        struct bridge_request *request = NULL;
        json_t *about = NULL;

        if (client && client->face->has_bridge && bridge_to_frame(change, &attachments, &about, &e) == 0)
                request = request_new(client, owner, open);
        if (!request) {
                json_decref(about);
                sync_unanswered(question, e.code ? e.msg : "no client can answer it");
                return;
        }
        request->question = question;
        client_send_request(client, request->number, "sync.before", json_pack("{s:O, s:o}", "run", id, "change", about),
                            &attachments);
}

/* -- answers -------------------------------------------------------------------------------------------------- */

static struct bridge_request *find(struct client *client, const json_t *id)
{
        struct bridge_request *request;

        TAILQ_FOREACH (request, &client->requests, link)
                if (json_is_integer(id) && json_integer_value(id) == request->number)
                        return request;
        return NULL;
}

static void give_value(cloche_bridge_call *call, const struct rpc_message *m, const struct frame *f)
{
        const json_t *value = json_object_get(m->result, "value");
        struct cloche_err e = {0};
        json_t *held = NULL;

        if (!json_is_object(m->result))
                refuse(call, "the client answered a call of a host function without the field value");
        else if (!value)
                (void)cloche_bridge_answer(call, NULL, NULL);
        else if (value_read(value, VALUE_FRAME, f->attachments, f->attachments_size, &held, &e) < 0)
                refuse(call, e.msg);
        else
                (void)bridge_answer(call, held, NULL);
        json_decref(held);
}

static void give_error(cloche_bridge_call *call, const struct rpc_message *m, const struct frame *f)
{
        json_t *failure =
                value_failure_read(json_object_get(m->error, "data"), VALUE_FRAME, f->attachments, f->attachments_size);

        if (!json_is_string(json_object_get(failure, "message"))) {
                refuse(call, m->error_message);
        } else {
                if (!json_is_string(json_object_get(failure, "name")))
                        json_object_set_new(failure, "name", json_string("Error"));
                (void)bridge_fail(call, failure, NULL);
        }
        json_decref(failure);
}

/* If the host gives no valid action, the sync is aborted. */
static void give_action(cloche_sync_question *question, const struct rpc_message *m)
{
        static const char *const names[] =
                {[CLOCHE_SYNC_CONTINUE] = "continue", [CLOCHE_SYNC_SKIP] = "skip", [CLOCHE_SYNC_ABORT] = "abort"};
        const char *action = json_string_value(json_object_get(m->result, "action"));
        const char *reason = json_string_value(json_object_get(m->result, "reason"));

        if (m->kind == RPC_ERROR) {
                sync_unanswered(question, m->error_message);
                return;
        }
        for (int i = 0; action && i < 3; i++)
                if (strcmp(action, names[i]) == 0) {
                        (void)cloche_sync_answer(question, (enum cloche_sync_action)i, reason, NULL);
                        return;
                }
        sync_unanswered(question, "the answer to sync.before must have an action: continue, skip or abort");
}

void bridge_answered(struct client *client, const struct rpc_message *m, const struct frame *f)
{
        struct bridge_request *request = find(client, m->id);
        struct bridge_request was;

        if (!request)
                return;
        was = *request;
        request_free(client, request);
        if (was.question)
                give_action(was.question, m);
        else if (m->kind == RPC_RESULT)
                give_value(was.call, m, f);
        else
                give_error(was.call, m, f);
}

/* -- ends ----------------------------------------------------------------------------------------------------- */

void bridge_on_owner_closed(struct client *client, const void *owner)
{
        struct bridge_request *request = client ? TAILQ_FIRST(&client->requests) : NULL, *next;

        for (; request; request = next) {
                struct bridge_request was = *request;

                next = TAILQ_NEXT(request, link);
                if (owner && request->owner != owner)
                        continue;
                request_free(client, request);
                if (was.question)
                        sync_unanswered(was.question, "the client has disconnected");
                else
                        refuse(was.call, "the client has disconnected");
        }
}

void bridge_on_client_closed(struct client *client)
{
        bridge_on_owner_closed(client, NULL);
}
