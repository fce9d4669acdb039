/* The operations image.*, but for imports. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "operations.h"
#include "program.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>

struct image_job {
        struct client_pending pending;
        const struct operation *operation;
        struct image_program *program; /* its own; NULL: the reader */
        struct image_request *request;
        json_t *name;       /* or NULL */
        json_t *keep_bytes; /* of image.prune, or NULL */
};

/* -- the end -------------------------------------------------------------------------------------------------- */

static void free_job(struct image_job *job)
{
        if (job->request)
                image_request_detach(job->request);
        image_program_close(job->program);
        client_pending_remove(&job->pending);
        json_decref(job->name);
        json_decref(job->keep_bytes);
        free(job);
}

static void finish(struct image_job *job, const json_t *result, const struct cloche_err *e)
{
        struct client *client = job->pending.client;

        job->request = NULL;
        if (e)
                client->face->fail(client, job->pending.id, e, NULL);
        else
                client->face->result(client, job->operation, job->pending.id, result);
        free_job(job);
}

static void on_answer(void *data, const json_t *result, const struct cloche_err *e)
{
        finish(data, result, e);
}

static void on_cancel(struct client_pending *pending)
{
        struct image_job *job = (struct image_job *)pending;
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_CANCELLED, "%s was cancelled", job->operation->method);
        if (job->request)
                image_request_detach(job->request);
        finish(job, NULL, &e);
}

static void on_client_closed(struct client_pending *pending)
{
        free_job((struct image_job *)pending);
}

/* -- the beginning -------------------------------------------------------------------------------------------- */

static json_t *params_of(const struct image_job *job)
{
        return job->operation->symbol == OPERATION_IMAGE_PRUNE ? json_pack("{s:O*, s:o}", "keepBytes", job->keep_bytes,
                                                                           "pinned", images_in_use(job->pending.daemon))
                                                               : json_pack("{s:O*}", "name", job->name);
}

/* A program of its own: the reader has to answer others meanwhile, and cannot write. */
static int send_to_own(struct image_job *job, const char *method, int may_write, struct cloche_err *e)
{
        int r = image_program_start(job->pending.daemon, job->pending.client->principal, -EBADF, may_write,
                                    &job->program, e);

        return r < 0 ? r
                     : image_program_request(job->program, method, params_of(job), on_answer, job, &job->request, e);
}

static void on_found(void *data, const json_t *result, const struct cloche_err *e)
{
        struct image_job *job = data;
        const char *tree = json_string_value(json_object_get(result, "tree"));
        struct cloche_err own = {0};

        job->request = NULL;
        if (!e && (images_check_unused(job->pending.daemon, json_string_value(job->name), tree ? tree : "", &own) < 0 ||
                   send_to_own(job, "remove", 1, &own) < 0))
                e = &own;
        if (e)
                finish(job, NULL, e);
}

static int begin(struct image_job *job, struct cloche_err *e)
{
        struct daemon *d = job->pending.daemon;
        enum operation_symbol symbol = job->operation->symbol;

        if (symbol == OPERATION_IMAGE_VERIFY)
                return send_to_own(job, "verify", 0, e);
        if (symbol == OPERATION_IMAGE_PRUNE)
                return send_to_own(job, "prune", 1, e);
        if (symbol == OPERATION_IMAGE_DELETE)
                return images_read(d, "resolve", params_of(job), on_found, job, &job->request, e);
        return images_read(d, symbol == OPERATION_IMAGE_LIST ? "list" : "inspect", params_of(job), on_answer, job,
                           &job->request, e);
}

int image_operate(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        static const struct client_pending_kind kind = {.cancel = on_cancel, .on_client_closed = on_client_closed};
        enum operation_symbol symbol = request->operation->symbol;
        struct image_job *job;
        int r = client_pending_check(request, e);

        (void)ret;
        if (r == 0 && (symbol == OPERATION_IMAGE_DELETE || symbol == OPERATION_IMAGE_PRUNE))
                r = images_check_change(request->client->daemon, request->client->principal, 0, e);
        if (r < 0)
                return r;
        job = calloc(1, sizeof(*job));
        if (!job)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "use the image store");
        job->operation = request->operation;
        job->name = json_incref(json_object_get(request->params, "image"));
        job->keep_bytes = json_incref(json_object_get(request->params, "keepBytes"));
        client_pending_add(&job->pending, &kind, request);
        r = begin(job, e);
        if (r < 0) {
                free_job(job);
                return r;
        }
        return 1;
}
