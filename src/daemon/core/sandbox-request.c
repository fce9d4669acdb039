/* Requests about sandboxes, from check to answer. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "sandbox-request.h"
#include "daemon/run/prefix.h"
#include "daemon/run/run.h"
#include "log.h"

#include "base/clock.h"
#include "base/err.h"
#include "sandbox/core/sandbox.h"
#include "wire/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- the end -------------------------------------------------------------------------------------------------- */

static void job_free(struct sandbox_job *job)
{
        TAILQ_REMOVE(&job->pending.daemon->sandbox_jobs, job, link);
        client_pending_remove(&job->pending);
        job->pending.daemon->request_bytes -= job->bytes;
        free(job);
}

static void log_end(const struct sandbox_job *job, const char *status)
{
        if (log_has_level(LEVEL_DEBUG))
                log_event(LEVEL_DEBUG, "sandbox", "{s:s, s:s, s:I}", "operation", job->operation->method, "status",
                          status, "client", (json_int_t)job->pending.client->number);
}

static void on_event(void *data, const char *event, const json_t *about, const struct buf *attachments)
{
        const struct sandbox_job *job = data;

        job->pending.client->face->event(job->pending.client, job->pending.id, event, about, attachments);
}

static void on_result(void *data, const json_t *result, const struct buf *attachments)
{
        struct sandbox_job *job = data;
        struct daemon *d = job->pending.daemon;

        log_end(job, "success");
        job->pending.client->face->answer(job->pending.client, job->operation, job->pending.id, result, attachments);
        job_free(job);
        daemon_check_stop(d);
}

static void on_fail(void *data, const struct cloche_err *e, const json_t *about)
{
        struct sandbox_job *job = data;
        struct daemon *d = job->pending.daemon;

        log_end(job, cloche_code_name(e->code));
        job->pending.client->face->fail(job->pending.client, job->pending.id, e, about ? json_deep_copy(about) : NULL);
        job_free(job);
        daemon_check_stop(d);
}

static int peer_of(void *data)
{
        return ((const struct sandbox_job *)data)->pending.client->peer_fd;
}

static int find_prefix(void *data, const char *name, const cloche_prefix **ret, const char **ret_title,
                       struct cloche_err *e)
{
        struct kept_prefix *kept;
        int r = prefix_find(((const struct sandbox_job *)data)->pending.client, name, &kept, e);

        if (r < 0)
                return r;
        kept->used_ns = clock_now_ns();
        *ret = kept->prefix;
        *ret_title = kept->title ? kept->title : name;
        return 0;
}

static const struct sandbox_face face = {.event = on_event,
                                         .result = on_result,
                                         .fail = on_fail,
                                         .caller = peer_of,
                                         .prefix = find_prefix};

/* -- the beginning -------------------------------------------------------------------------------------------- */

static void on_cancel(struct client_pending *pending)
{
        struct sandbox_job *job = (struct sandbox_job *)pending;
        struct cloche_err e = {0};

        sandbox_request_cancel(job->sandbox_request);
        err_set(&e, CLOCHE_E_CANCELLED, "%s was cancelled", job->operation->method);
        on_fail(job, &e, NULL);
}

static void on_hold(struct client_pending *pending, int hold)
{
        sandbox_request_hold(((struct sandbox_job *)pending)->sandbox_request, hold);
}

static void on_client_closed(struct client_pending *pending)
{
        struct sandbox_job *job = (struct sandbox_job *)pending;

        sandbox_request_cancel(job->sandbox_request);
        job_free(job);
}

static struct sandbox_job *job_new(const struct client_request *request)
{
        static const struct client_pending_kind kind = {.cancel = on_cancel,
                                                        .hold = on_hold,
                                                        .on_client_closed = on_client_closed};
        struct sandbox_job *job = calloc(1, sizeof(*job));

        if (!job)
                return NULL;
        *job = (struct sandbox_job){.operation = request->operation, .bytes = request->bytes};
        client_pending_add(&job->pending, &kind, request);
        TAILQ_INSERT_TAIL(&job->pending.daemon->sandbox_jobs, job, link);
        job->pending.daemon->request_bytes += job->bytes;
        return job;
}

int sandbox_job_begin(const struct client_request *request, const struct buf *attachments, struct cloche_err *e)
{
        struct daemon *d = request->client->daemon;
        struct sandbox_job *job;
        int r = operation_check(request->operation, request->params, e);

        if (r == 0)
                r = client_pending_check(request, e);
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
        client_pending_begun(&job->pending);
        return 1;
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
