/* image.warm: start the interpreters of languages in an image before their first run. They
 * belong to the caller, and end as any interpreter of an image does. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "operations.h"
#include "program.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct warm_job;

struct warm_interpreter {
        struct template_wait wait; /* the first member */
        struct warm_job *job;
        struct template *template; /* this job is one of its users */
        int is_new, is_awaited;
};

struct warm_job {
        struct client_pending pending; /* the first member */
        const struct operation *operation;
        struct image image;      /* held */
        struct cloche_err error; /* of the first that failed */
        int is_begun;            /* all are requested; until then an answer waits */
        size_t count, awaited;
        struct warm_interpreter interpreters[];
};

/* -- the end -------------------------------------------------------------------------------------------------- */

static void free_job(struct warm_job *job)
{
        for (size_t i = 0; i < job->count; i++) {
                if (job->interpreters[i].is_awaited)
                        template_cancel_wait(&job->interpreters[i].wait);
                job->interpreters[i].template->users--;
        }
        image_drop(&job->image);
        client_pending_remove(&job->pending);
        free(job);
}

static json_t *answer_of(const struct warm_job *job)
{
        json_t *list = json_array();

        for (size_t i = 0; i < job->count; i++) {
                const struct warm_interpreter *one = &job->interpreters[i];

                json_array_append_new(list,
                                      json_pack("{s:s, s:b, s:I}", "language", one->template->runtime->name, "isNew",
                                                one->is_new, "memoryBytes", (json_int_t)one->template->memory_bytes));
        }
        return json_pack("{s:o, s:I}", "interpreters", list, "idleMs", (json_int_t)(IMAGE_IDLE_NS / 1000000));
}

/* One that was ready may have ended while the job waited for others. */
static void check_ready(struct warm_job *job)
{
        for (size_t i = 0; i < job->count && !job->error.code; i++)
                if (job->interpreters[i].template->state != TEMPLATE_READY)
                        err_set(&job->error, CLOCHE_E_TEMPLATE, "the interpreter for %s ended again: try once more",
                                job->interpreters[i].template->runtime->name);
}

/* The interpreters that started stay, so the error lists them. */
static void add_ready(struct warm_job *job)
{
        struct cloche_err *e = &job->error;
        const char *before = " (ready: ";

        for (size_t i = 0; i < job->count; i++) {
                const struct template *t = job->interpreters[i].template;
                size_t size = strlen(e->msg);

                if (t->state != TEMPLATE_READY)
                        continue;
                snprintf(e->msg + size, sizeof(e->msg) - size, "%s%s", before, t->runtime->name);
                before = ", ";
        }
        if (strcmp(before, ", ") == 0)
                strncat(e->msg, ")", sizeof(e->msg) - strlen(e->msg) - 1);
}

static void finish_if_over(struct warm_job *job)
{
        struct client *client = job->pending.client;
        json_t *answer;

        if (!job->is_begun || job->awaited > 0)
                return;
        check_ready(job);
        answer = job->error.code ? NULL : answer_of(job);
        if (!job->error.code && !answer)
                err_os(&job->error, CLOCHE_E_RESOURCE, ENOMEM, "write an answer");
        if (answer)
                client->face->result(client, job->operation, job->pending.id, answer);
        else {
                add_ready(job);
                client->face->fail(client, job->pending.id, &job->error, NULL);
        }
        json_decref(answer);
        free_job(job);
}

static void on_ready(struct template_wait *wait, const struct cloche_err *e)
{
        struct warm_interpreter *one = (struct warm_interpreter *)wait;
        struct warm_job *job = one->job;

        one->is_awaited = 0;
        one->template->used_ns = clock_now_ns();
        job->awaited--;
        if (e && !job->error.code) {
                job->error = *e;
                if (job->count > 1)
                        (void)err_wrap(&job->error, "%s", one->template->runtime->name);
        }
        finish_if_over(job);
}

static void on_cancel(struct client_pending *pending)
{
        struct warm_job *job = (struct warm_job *)pending;
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_CANCELLED, "%s was cancelled", job->operation->method);
        pending->client->face->fail(pending->client, pending->id, &e, NULL);
        free_job(job);
}

static void on_client_closed(struct client_pending *pending)
{
        free_job((struct warm_job *)pending);
}

/* -- the beginning -------------------------------------------------------------------------------------------- */

static int add(struct warm_job *job, struct cloche_engine *engine, int64_t principal, const char *language,
               struct cloche_err *e)
{
        struct warm_interpreter *one = &job->interpreters[job->count];
        const struct runtime *runtime;
        struct template *template = NULL;
        int r = runtimes_find(&engine->runtimes, language, &runtime, e);

        if (r == 0)
                r = template_base(engine, runtime, &job->image, principal, &template, e);
        if (r < 0)
                return r;
        *one = (struct warm_interpreter){.wait.on_ready = on_ready, .job = job, .template = template};
        template->users++;
        job->count++;
        return 0;
}

/* on_ready may be called from here. */
static void await_all(struct warm_job *job)
{
        for (size_t i = 0; i < job->count; i++) {
                struct warm_interpreter *one = &job->interpreters[i];

                one->template->used_ns = clock_now_ns();
                if (one->template->state == TEMPLATE_READY)
                        continue;
                one->is_new = one->is_awaited = 1;
                job->awaited++;
                template_await(one->template, &one->wait);
        }
        job->is_begun = 1;
        finish_if_over(job);
}

/* A template that is added and never started would stay, so all names are checked before. */
static int check_languages(const struct cloche_engine *engine, const json_t *languages, struct cloche_err *e)
{
        size_t count = json_array_size(languages);
        const struct runtime *runtime;
        int r = 0;

        if (count == 0 || count > engine->runtimes.count)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "languages has %zu names, expected 1 to %zu", count,
                               engine->runtimes.count);
        for (size_t i = 0; r == 0 && i < count; i++) {
                r = runtimes_find(&engine->runtimes, json_string_value(json_array_get(languages, i)), &runtime, e);
                if (r == 0 && runtime->is_cold_only)
                        r = err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                    "%s cannot be forked from a template: each of its runs starts it", runtime->name);
        }
        return r;
}

static struct warm_job *job_new(const struct client_request *request, const struct image *image, size_t count)
{
        static const struct client_pending_kind kind = {.cancel = on_cancel, .on_client_closed = on_client_closed};
        struct warm_job *job = calloc(1, sizeof(*job) + count * sizeof(job->interpreters[0]));

        if (!job)
                return NULL;
        *job = (struct warm_job){.operation = request->operation, .image = *image};
        image_hold(&job->image);
        client_pending_add(&job->pending, &kind, request);
        return job;
}

int image_warm(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        struct daemon *d = request->client->daemon;
        const json_t *languages = json_object_get(request->params, "languages");
        struct warm_job *job;
        struct image image;
        int r = client_pending_check(request, e);

        (void)ret;
        if (r == 0)
                r = images_check_store(d, e);
        if (r == 0 && json_string_length(json_object_get(request->params, "image")) == 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "image must be the name of an image of the store");
        if (r == 0)
                r = check_languages(d->engine, languages, e);
        if (r == 0)
                r = engine_check_guards(d->engine, e);
        if (r == 0)
                r = image_take_members(d->engine, request->params, &image, e);
        if (r < 0)
                return r;
        job = job_new(request, &image, json_array_size(languages));
        if (!job)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start interpreters");
        for (size_t i = 0; r == 0 && i < json_array_size(languages); i++)
                r = add(job, d->engine, request->client->principal, json_string_value(json_array_get(languages, i)), e);
        if (r < 0) {
                free_job(job);
                return r;
        }
        await_all(job);
        return 1;
}
