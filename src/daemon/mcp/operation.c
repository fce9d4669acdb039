/* The operation mcp: a message in a frame, for cloche mcp. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "internal.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mcp_job {
        struct client_pending pending;
        const struct operation *operation;
        struct mcp_exchange *exchange;
        json_t *params; /* the exchange refers to them */
        size_t bytes;
};

static void job_free(struct mcp_job *job)
{
        struct daemon *d = job->pending.daemon;

        client_pending_remove(&job->pending);
        if (job->exchange)
                mcp_exchange_free(job->exchange);
        json_decref(job->params);
        d->request_bytes -= job->bytes;
        free(job);
        daemon_check_stop(d);
}

/* message: stolen. */
static json_t *as_text(json_t *message, struct cloche_err *e)
{
        char *text = message ? json_dump_text(message, JSON_COMPACT) : NULL;
        json_t *result = !message ? json_object() : text ? json_pack("{s:s}", "message", text) : NULL;

        if (!result)
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
        json_decref(message);
        free(text);
        return result;
}

static void answer(struct mcp_exchange *x, unsigned status, json_t *message)
{
        struct mcp_job *job = x->carried;
        struct client *client = job->pending.client;
        struct cloche_err e = {0};
        json_t *result = as_text(message, &e);

        (void)status;
        if (result)
                client->face->result(client, job->operation, job->pending.id, result);
        else
                client->face->fail(client, job->pending.id, &e, NULL);
        json_decref(result);
        job_free(job);
}

static int notify(struct mcp_exchange *x, json_t *message)
{
        static const struct buf none = {0};
        const struct mcp_job *job = x->carried;
        struct client *client = job->pending.client;
        char *text = json_dump_text(message, JSON_COMPACT);
        json_t *about = text ? json_pack("{s:s}", "message", text) : NULL;

        if (about)
                client->face->event(client, job->pending.id, "message", about, &none);
        free(text);
        json_decref(about);
        json_decref(message);
        return 1;
}

static int is_behind(const struct mcp_exchange *x)
{
        const struct mcp_job *job = x->carried;

        return job->pending.client->is_held;
}

static void adopt(struct mcp_exchange *x)
{
        struct mcp_job *job = x->carried;

        job->exchange = x;
}

static void on_cancel(struct client_pending *pending)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_CANCELLED, "the message was cancelled");
        pending->client->face->fail(pending->client, pending->id, &e, NULL);
        job_free((struct mcp_job *)pending);
}

static void on_client_closed(struct client_pending *pending)
{
        job_free((struct mcp_job *)pending);
}

int mcp_operate(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        static const struct client_pending_kind kind = {.cancel = on_cancel, .on_client_closed = on_client_closed};
        static const struct mcp_carrier carrier = {.answer = answer,
                                                   .notify = notify,
                                                   .is_behind = is_behind,
                                                   .adopt = adopt};
        const json_t *message = json_object_get(request->params, "message");
        struct mcp_exchange *x;
        struct mcp_job *job;
        int r = client_pending_check(request, e);

        (void)ret;
        if (r == 0)
                r = mcp_tools_check(json_object_get(request->params, "tools"), e);
        if (r < 0)
                return r;
        job = calloc(1, sizeof(*job));
        if (job)
                job->exchange = mcp_exchange_new(request->client->daemon, &carrier, job, request->client->principal);
        if (!job || !job->exchange) {
                free(job);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "take a message");
        }
        job->operation = request->operation;
        job->params = json_incref((json_t *)request->params);
        job->bytes = request->bytes;
        client_pending_add(&job->pending, &kind, request);
        job->pending.daemon->request_bytes += job->bytes;
        x = job->exchange;
        x->connection = request->client->number;
        x->is_read_only = json_is_true(json_object_get(job->params, "readOnly"));
        x->tools = json_object_get(job->params, "tools");
        if (mcp_text(job->params, "sandbox"))
                x->sandbox = mcp_text(job->params, "sandbox");
        if (message)
                mcp_exchange_begin(x, json_string_value(message),
                                   json_string_length(message)); /* the job may be freed */
        else if (!mcp_listen(x))
                answer(x, 202, NULL);
        return 1;
}
