/* Requests about sandboxes, from check to answer. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "sandbox-request.h"
#include "daemon/run/run.h"
#include "log.h"

#include "base/err.h"
#include "sandbox/core/sandbox.h"
#include "wire/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- the end -------------------------------------------------------------------------------------------------- */

static void job_free(struct sandbox_job *job)
{
        struct daemon *d = job->client->daemon;

        TAILQ_REMOVE(&d->sandbox_jobs, job, link);
        TAILQ_REMOVE(&job->client->sandbox_jobs, job, client_link);
        job->client->jobs_count--;
        d->request_bytes -= job->bytes;
        json_decref(job->id);
        free(job);
}

static void log_end(const struct sandbox_job *job, const char *status)
{
        if (log_has_level(LEVEL_DEBUG))
                log_event(LEVEL_DEBUG, "sandbox", "{s:s, s:s, s:I}", "operation", job->operation->method, "status",
                          status, "client", (json_int_t)job->client->number);
}

static void on_event(void *data, const char *event, const json_t *about, const struct buf *attachments)
{
        const struct sandbox_job *job = data;

        job->client->face->event(job->client, job->id, event, about, attachments);
}

static void on_result(void *data, const json_t *result, const struct buf *attachments)
{
        struct sandbox_job *job = data;
        struct daemon *d = job->client->daemon;

        log_end(job, "success");
        job->client->face->answer(job->client, job->operation, job->id, result, attachments);
        job_free(job);
        daemon_check_stop(d);
}

static void on_fail(void *data, const struct cloche_err *e, const json_t *about)
{
        struct sandbox_job *job = data;
        struct daemon *d = job->client->daemon;

        log_end(job, cloche_code_name(e->code));
        job->client->face->fail(job->client, job->id, e, about ? json_deep_copy(about) : NULL);
        job_free(job);
        daemon_check_stop(d);
}

static const struct sandbox_face face = {.event = on_event, .result = on_result, .fail = on_fail};

static int is_to_be_held(const struct sandbox_job *job);
static void send_hold(struct sandbox_job *job);

/* -- the beginning -------------------------------------------------------------------------------------------- */

static int check_room(const struct client *client, const json_t *id, size_t bytes, struct cloche_err *e)
{
        const struct sandbox_job *job;
        int r = run_check_room(client, id, bytes, e);

        if (r < 0)
                return r;
        TAILQ_FOREACH (job, &client->sandbox_jobs, client_link)
                if (id && json_equal(job->id, id))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "the id of this request belongs to another one that has not ended: use a new "
                                       "id");
        return 0;
}

static struct sandbox_job *job_new(const struct client_request *request)
{
        struct sandbox_job *job = calloc(1, sizeof(*job));

        if (!job)
                return NULL;
        *job = (struct sandbox_job){.client = request->client,
                                    .operation = request->operation,
                                    .id = json_incref((json_t *)request->id),
                                    .bytes = request->bytes};
        TAILQ_INSERT_TAIL(&request->client->daemon->sandbox_jobs, job, link);
        TAILQ_INSERT_TAIL(&request->client->sandbox_jobs, job, client_link);
        request->client->jobs_count++;
        request->client->daemon->request_bytes += job->bytes;
        return job;
}

int sandbox_job_begin(const struct client_request *request, const struct buf *attachments, struct cloche_err *e)
{
        struct daemon *d = request->client->daemon;
        struct sandbox_job *job;
        int r = operation_check(request->operation, request->params, e);

        if (r == 0)
                r = check_room(request->client, request->id, request->bytes, e);
        if (r < 0)
                return r;
        job = job_new(request);
        if (!job)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a request to a sandbox");
        r = sandboxes_request(d->sandboxes, request->client->principal, request->operation->method, request->params,
                              attachments, &face, job, &job->sandbox_request, e);
        if (r < 0) {
                job_free(job);
                return r;
        }
        if (is_to_be_held(job))
                send_hold(job);
        return 1;
}

/* -- cancelling, holding -------------------------------------------------------------------------------------- */

static struct sandbox_job *find(const struct client *client, const json_t *id)
{
        struct sandbox_job *job;

        TAILQ_FOREACH (job, &client->sandbox_jobs, client_link)
                if (json_equal(job->id, id))
                        return job;
        return NULL;
}

int sandbox_job_cancel(struct client *client, const json_t *id)
{
        struct sandbox_job *job = find(client, id);
        struct cloche_err e = {0};

        if (!job)
                return 0;
        sandbox_request_cancel(job->sandbox_request);
        err_set(&e, CLOCHE_E_CANCELLED, "%s was cancelled", job->operation->method);
        on_fail(job, &e, NULL);
        return 1;
}

static int is_to_be_held(const struct sandbox_job *job)
{
        return job->is_held || job->client->is_held;
}

/* This may deliver queued events at once, and the job may end and be freed by that. */
static void send_hold(struct sandbox_job *job)
{
        job->is_hold_sent = is_to_be_held(job);
        sandbox_request_hold(job->sandbox_request, job->is_hold_sent);
}

int sandbox_job_hold(struct client *client, const json_t *id, int hold)
{
        struct sandbox_job *job = find(client, id);

        if (!job)
                return 0;
        job->is_held = hold;
        if (is_to_be_held(job) != job->is_hold_sent)
                send_hold(job);
        return 1;
}

static struct sandbox_job *first_to_send(const struct client *client)
{
        struct sandbox_job *job;

        TAILQ_FOREACH (job, &client->sandbox_jobs, client_link)
                if (is_to_be_held(job) != job->is_hold_sent)
                        return job;
        return NULL;
}

void sandbox_jobs_hold(struct client *client)
{
        struct sandbox_job *job;

        while ((job = first_to_send(client)))
                send_hold(job);
}

void sandbox_jobs_on_client_closed(struct client *client)
{
        struct sandbox_job *job;

        while ((job = TAILQ_FIRST(&client->sandbox_jobs))) {
                sandbox_request_cancel(job->sandbox_request);
                job_free(job);
        }
}

int sandbox_jobs_are_busy(const struct daemon *d)
{
        const struct sandbox_job *job;

        TAILQ_FOREACH (job, &d->sandbox_jobs, link)
                if (!job->operation->is_stream || job->operation->symbol == OPERATION_SANDBOX_EXEC ||
                    job->operation->symbol == OPERATION_SANDBOX_GIT_CHECKOUT ||
                    job->operation->symbol == OPERATION_SANDBOX_CONTEXT_RUN)
                        return 1;
        return d->raw_count > 0;
}

/* -- forms ---------------------------------------------------------------------------------------------------- */

/* Convert bytes in frame form to text; the frame is ours. NULL: they are not text. */
static json_t *utf8_of(const json_t *value, const struct buf *attachments)
{
        json_int_t at = json_integer_value(json_object_get(value, "at")),
                   n = json_integer_value(json_object_get(value, "n"));
        const char *tag = json_string_value(json_object_get(value, "$"));

        if (!tag || strcmp(tag, "bytes") != 0 || at < 0 || n < 0 || (size_t)at > attachments->size ||
            (size_t)n > attachments->size - (size_t)at)
                return NULL;
        if (n == 0)
                return json_string("");
        return memchr(attachments->data + at, '\0', (size_t)n) ? NULL : json_stringn(attachments->data + at, (size_t)n);
}

static int is_printed(const char *member)
{
        static const char *const members[] = {"data", "stdout", "stderr", "content", "line", "text"};

        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
                if (strcmp(member, members[i]) == 0)
                        return 1;
        return 0;
}

/* Convert in place. */
static void make_text(json_t *value, const struct buf *attachments)
{
        const char *key;
        json_t *member, *text;
        void *next;

        for (size_t i = 0; i < json_array_size(value); i++)
                make_text(json_array_get(value, i), attachments);
        json_object_foreach_safe (value, next, key, member) {
                text = is_printed(key) ? utf8_of(member, attachments) : NULL;
                if (text)
                        json_object_set_new(value, key, text);
                else
                        make_text(member, attachments);
        }
}

json_t *sandbox_to_text(const json_t *object, const struct buf *attachments)
{
        json_t *copy = json_deep_copy(object), *all = NULL;

        make_text(copy, attachments);
        if (!copy || value_frame_to_text(copy, attachments->data, attachments->size, &all, NULL) < 0)
                all = NULL;
        json_decref(copy);
        return all;
}
