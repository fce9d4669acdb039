/* sandbox.commit: the changes of a sandbox with a writable root become an image. The file
 * program packs them into a sealed memory file, which the image store's program reads: neither
 * the guest nor this process can change it between, and an archive that was cut is none. Runs
 * in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox/core/copy.h"
#include "sandbox/core/sandboxes.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct commit {
        struct sandbox_request *request;
        struct copy *copy; /* NULL: the archive is complete */
        void *image;       /* the work of the image store; NULL: not begun */
};

static void on_cancel(struct sandbox_request *request)
{
        struct commit *commit = request->state;

        sandbox_copy_cancel(commit->copy);
        if (commit->image)
                request->all->options.images->cancel(commit->image);
        free(commit);
}

static void finish(struct commit *commit, const json_t *result, const struct cloche_err *e)
{
        struct sandbox_request *request = commit->request;

        free(commit);
        if (e)
                sandbox_request_fail(request, e, NULL);
        else
                sandbox_request_result(request, json_deep_copy(result), NULL);
}

static void on_committed(void *data, const json_t *result, const struct cloche_err *e)
{
        finish(data, result, e);
}

/* The image's files that belong to root are the user's of the box there. */
static json_t *image_params(const struct sandbox_request *request)
{
        const struct sandbox *s = request->sandbox;
        const struct jail_user user = s->has_root ? jail_user_root() : image_runs_as(&s->image);
        const json_t *time = json_object_get(request->params, "fileTime");
        json_t *params =
                json_pack("{s:s, s:O*, s:I, s:I, s:O*, s:O*, s:O*, s:O*}", "tree", s->image.name, "base", s->image_name,
                          "owner", (json_int_t)user.uid, "group", (json_int_t)user.gid, "name",
                          json_object_get(request->params, "image"), "config",
                          json_object_get(request->params, "config"), "createdBy",
                          json_object_get(request->params, "comment"), "key", json_object_get(request->params, "key"));

        if (params && time)
                json_object_set_new(params, "time", json_integer(json_integer_value(time)));
        return params;
}

static void on_packed(void *data, int fd, const struct cloche_err *e)
{
        struct commit *commit = data;
        const struct sandboxes_options *options = &commit->request->all->options;
        json_t *params = e ? NULL : image_params(commit->request);
        struct cloche_err own = {0};
        int r = 0;

        commit->copy = NULL;
        if (!e && !params)
                r = err_os(&own, CLOCHE_E_RESOURCE, ENOMEM, "commit a sandbox");
        else if (!e)
                r = options->images->commit(options->images_data, commit->request->principal, fd, params, on_committed,
                                            commit, &commit->image, &own);
        fd_close(&fd);
        if (e || r < 0)
                finish(commit, NULL, e ? e : &own);
}

static int check(const struct sandbox_request *request, struct cloche_err *e)
{
        const struct sandboxes_options *options = &request->all->options;
        const struct sandbox *s = request->sandbox;

        if (!s->has_writable_root)
                return err_set(e, CLOCHE_E_STATE,
                               "the sandbox \"%s\" has no changes of its image: make it with writableRoot", s->name);
        if (!options->images)
                return err_set(e, CLOCHE_E_STATE, "the daemon has no image store");
        return options->images->check(options->images_data, request->principal, e);
}

int handle_COMMIT(struct sandbox_request *request, struct cloche_err *e)
{
        int r = check(request, e);
        struct commit *commit = r == 0 ? calloc(1, sizeof(*commit)) : NULL;

        if (r < 0)
                return r;
        if (!commit)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "commit a sandbox");
        commit->request = request;
        r = sandbox_copy_system(request->sandbox, on_packed, commit, &commit->copy, e);
        if (r < 0) {
                free(commit);
                return r;
        }
        request->state = commit;
        request->cancel = on_cancel;
        return 0;
}
