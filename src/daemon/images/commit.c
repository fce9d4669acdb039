/* Images of sandboxes. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user; a program of the image store reads the archive. */
#include "commit.h"
#include "operations.h"
#include "program.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>

struct image_commit {
        struct image_program *program;
        struct image_request *request;
        void (*done)(void *done_data, const json_t *result, const struct cloche_err *e);
        void *done_data;
};

static int check(void *data, int64_t principal, struct cloche_err *e)
{
        int r = images_check_store(data, e);

        return r == 0 ? images_check_change(data, principal, 1, e) : r;
}

static void on_answer(void *data, const json_t *result, const struct cloche_err *e)
{
        struct image_commit commit = *(struct image_commit *)data;

        free(data);
        commit.done(commit.done_data, result, e);
        image_program_close(commit.program);
}

static int start(struct daemon *d, int64_t principal, int fd, json_t *params, struct image_commit *commit,
                 struct cloche_err *e)
{
        int r = image_program_start(d, principal, fd, 1, &commit->program, e);

        if (r == 0)
                r = image_program_request(commit->program, "commit", json_incref(params), on_answer, commit,
                                          &commit->request, e);
        return r;
}

static int begin(void *data, int64_t principal, int fd, json_t *params,
                 void (*done)(void *done_data, const json_t *result, const struct cloche_err *e), void *done_data,
                 void **ret, struct cloche_err *e)
{
        struct daemon *d = data;
        struct image_commit *commit = malloc(sizeof(*commit));
        int is_owner = images_is_owner(d, principal), r = 0;

        /* Steps of builds are the caller's; the owners of the store have theirs in common. */
        if (!commit || json_object_set_new(params, "principal", json_integer(is_owner ? 0 : principal)) < 0 ||
            json_object_set_new(params, "keep", json_boolean(!is_owner)) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "commit a sandbox");
        if (r == 0) {
                *commit = (struct image_commit){.done = done, .done_data = done_data};
                r = start(d, principal, fd, params, commit, e);
        }
        json_decref(params);
        if (r == 0)
                *ret = commit;
        else if (commit)
                image_program_close(commit->program);
        if (r < 0)
                free(commit);
        return r;
}

static void cancel(void *data)
{
        struct image_commit *commit = data;

        image_request_detach(commit->request);
        image_program_close(commit->program);
        free(commit);
}

const struct sandbox_images images_of_sandboxes = {.check = check, .commit = begin, .cancel = cancel};
