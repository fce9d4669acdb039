/* Running jobs: call, script and evaluate. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "run.h"
#include "bridge.h"
#include "changes.h"
#include "daemon/core/log.h"
#include "daemon/core/sandbox-request.h"
#include "prefix.h"
#include "request.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its answer is on its way, or there is none. */
static void job_leave(struct job *job)
{
        struct daemon *d = job->pending.daemon;

        if (job->requests_open > 0)
                bridge_on_owner_closed(job->pending.client, job);
        TAILQ_REMOVE(&d->jobs, job, link);
        d->stats.runs_now--;
        d->request_bytes -= job->bytes;
        client_pending_remove(&job->pending);
}

static void job_free(struct job *job)
{
        cloche_run_free(job->run);
        free(job);
}

void run_free_ended(struct daemon *d)
{
        struct job *job;

        while ((job = TAILQ_FIRST(&d->ended_jobs))) {
                TAILQ_REMOVE(&d->ended_jobs, job, link);
                job_free(job);
        }
}

/* -- the end -------------------------------------------------------------------------------------------------- */

static void send_result(struct job *job, cloche_result *result)
{
        struct cloche_err e = {0};
        const char *id;
        int r = changes_keep(job->pending.client, cloche_result_take_changeset(result), &id, &e);

        if (r == 0 && id && json_object_set_new(result_root(result), "changeset", json_string(id)) < 0)
                r = err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "write a result");
        if (r == 0)
                job->pending.client->face->result(job->pending.client, job->operation, job->pending.id,
                                                  result_root(result));
        else
                job->pending.client->face->fail(job->pending.client, job->pending.id, &e, NULL);
}

static void send_outcome(struct job *job, cloche_result *result, const struct cloche_err *e)
{
        if (job->pending.client && result)
                send_result(job, result);
        else if (job->pending.client)
                job->pending.client->face->fail(job->pending.client, job->pending.id, e, NULL);
}

static void log_end(const struct job *job, const char *status, uint64_t duration_ns)
{
        if (log_has_level(LEVEL_DEBUG))
                log_event(LEVEL_DEBUG, "run", "{s:s, s:s, s:I, s:f}", "operation", job->operation->method, "status",
                          status, "client", (json_int_t)(job->pending.client ? job->pending.client->number : 0), "ms",
                          (double)duration_ns / 1e6);
}

static void on_end(void *data, cloche_run *run)
{
        struct job *job = data;
        struct daemon *d = job->pending.daemon;
        uint64_t duration_ns = clock_now_ns() - job->started_ns;
        cloche_result *result = NULL;
        struct cloche_err e = {0};
        int r = cloche_run_wait(run, &result, &e);

        if (job->requests_open > 0)
                bridge_on_owner_closed(job->pending.client, job);
        if (r == 0)
                stats_run(&d->stats, cloche_result_status(result), duration_ns);
        else
                log_event(LEVEL_WARNING, "run-failed", "{s:s, s:s}", "error", cloche_code_name(e.code), "message",
                          e.msg);
        log_end(job, r == 0 ? cloche_status_name(cloche_result_status(result)) : cloche_code_name(e.code), duration_ns);
        send_outcome(job, r == 0 ? result : NULL, &e);
        cloche_result_free(result);
        job_leave(job);
        TAILQ_INSERT_TAIL(&d->ended_jobs, job, link);
        daemon_check_stop(d);
}

static void on_output(void *data, cloche_run *run, int stream, const void *bytes, size_t size)
{
        struct job *job = data;

        (void)run;
        if (job->pending.client)
                job->pending.client->face->output(job->pending.client, job->pending.id, stream, bytes, size);
}

/* -- the beginning -------------------------------------------------------------------------------------------- */

static enum cloche_run_kind kind_of(const struct operation *operation)
{
        return operation->symbol == OPERATION_SCRIPT     ? CLOCHE_SCRIPT
               : operation->symbol == OPERATION_EVALUATE ? CLOCHE_EVALUATE
                                                         : CLOCHE_CALL;
}

static int find_prefix(const struct client_request *request, struct kept_prefix **ret, const char **ret_language,
                       struct cloche_err *e)
{
        const char *name = json_string_value(json_object_get(request->params, "prefix"));
        int r;

        *ret_language = json_string_value(json_object_get(request->params, "language"));
        if (!name && !*ret_language)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s needs the field \"language\", or a prefix",
                               request->operation->method);
        if (!name)
                return 0;
        if (json_is_true(json_object_get(request->params, "warm")))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "warm and prefix exclude each other: runs of a prefix are always warm");
        r = prefix_find(request->client, name, ret, e);
        if (r == 0 && !*ret_language)
                *ret_language = (*ret)->language;
        return r;
}

static void cancel(struct job *job)
{
        if (!job->is_cancelled)
                cloche_run_cancel(job->run);
        job->is_cancelled = 1;
}

static void on_cancel(struct client_pending *pending)
{
        cancel((struct job *)pending);
}

static void on_hold(struct client_pending *pending, int hold)
{
        cloche_run_hold_output(((struct job *)pending)->run, hold);
}

static struct job *job_new(const struct client_request *request)
{
        static const struct client_pending_kind kind = {.cancel = on_cancel,
                                                        .hold = on_hold,
                                                        .on_client_closed = on_cancel};
        struct job *job = calloc(1, sizeof(*job));

        if (!job)
                return NULL;
        *job = (struct job){
                .operation = request->operation,
                .started_ns = clock_now_ns(),
                .bytes = request->bytes,
        };
        client_pending_add(&job->pending, &kind, request);
        job->pending.daemon->request_bytes += job->bytes;
        TAILQ_INSERT_TAIL(&job->pending.daemon->jobs, job, link);
        job->pending.daemon->stats.runs_now++;
        return job;
}

static int start(const struct client_request *request, struct kept_prefix *prefix, const char *language,
                 struct job *job, struct cloche_err *e)
{
        struct request run;
        int r = request_run(job->pending.daemon, kind_of(request->operation), request->params, language, prefix != NULL,
                            &run, e);

        run.run.prefix = prefix ? prefix->prefix : NULL;
        run.run.tenant = request->client->principal;
        run.run.on_bridge = bridge_on_call;
        run.run.bridge_data = run.run.data = job;
        run.run.has_caller = request->client->peer_fd >= 0;
        run.run.caller_fd = request->client->peer_fd;
        run.run.on_file_event = changes_of_job;
        run.run.file_event_data = job;
        run.run.on_end = on_end;
        run.run.on_output = json_is_true(json_object_get(request->params, "stream")) ? on_output : NULL;
        if (r == 0)
                r = engine_run_start(job->pending.daemon->engine, &run.run, &run.values, &job->run, e);
        request_done(&run);
        return r;
}

int run_begin(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        struct kept_prefix *prefix = NULL;
        const char *language = NULL;
        struct job *job;
        int r = client_pending_check(request, e);

        (void)ret;
        if (r == 0)
                r = find_prefix(request, &prefix, &language, e);
        if (r < 0)
                return r;
        job = job_new(request);
        if (!job)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a run");
        r = start(request, prefix, language, job, e);
        if (r < 0) {
                job->pending.daemon->stats.runs_refused++;
                job_leave(job);
                job_free(job);
                return r;
        }
        if (prefix) {
                prefix->runs++;
                prefix->used_ns = job->started_ns;
        }
        client_pending_begun(&job->pending);
        return 1;
}

void run_cancel_all(struct daemon *d)
{
        struct job *job;

        TAILQ_FOREACH (job, &d->jobs, link)
                cancel(job);
}
