/* Mounts of sandboxes: a cloche-fs each, as for a run (engine/mounts/mount.h), for as long as
 * the sandbox runs. Each start mounts them anew, with the host's files of that time; the guest's
 * own writes are in the upper layer of cloche-fs, which ends with it. Runs in: cloched-engine,
 * on its loop, with the rights of the daemon's user. */
#include "mounts.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "engine/mounts/changeset.h"
#include "engine/mounts/mount.h"

#include <sys/socket.h>
#include <unistd.h>

/* -- the options ------------------------------------------------------------------------------------------------ */

int sandbox_mounts_check(const struct sandbox_request *request, struct cloche_err *e)
{
        const json_t *mount = json_object_get(request->params, "mount");
        const struct mount_roots *roots = &request->all->engine->mount_roots;
        struct mount_options options = {0};
        int r = mount ? mount_roots_check(roots, e) : 0;

        if (r < 0 || !mount)
                return r;
        if (json_object_get(mount, "sync"))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "mount.sync says when the changes of a run are written to the host, and a sandbox has "
                               "no end of a run: leave sync out (writes stay in the sandbox until it stops), or "
                               "make the changes in a call with this mount");
        r = mount_options_load(roots, mount, &options, e);
        mount_options_done(&options);
        return r;
}

int sandbox_mounts_caller(const struct sandbox_request *request)
{
        return request->face->caller ? request->face->caller(request->data) : -EBADF;
}

/* The keeper of an ordinary user has only that user's rights, and needs no caller. */
static int has_other_rights(int caller_fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return caller_fd >= 0 &&
               (getsockopt(caller_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid());
}

void sandbox_mounts_define(struct sandbox *s, const struct sandbox_request *request)
{
        s->mount = json_incref(json_object_get(request->params, "mount"));
        s->has_caller = s->mount && has_other_rights(sandbox_mounts_caller(request));
}

/* -- the mounts of a running sandbox ------------------------------------------------------------------------------ */

/* A request that waits for the start came over it. */
static int find_caller(const struct sandbox *s)
{
        const struct sandbox_request *request;

        TAILQ_FOREACH (request, &s->waiting, turn_link)
                if (sandbox_mounts_caller(request) >= 0)
                        return sandbox_mounts_caller(request);
        return -EBADF;
}

static void on_attached(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct sandbox *s = data;

        (void)answer;
        fd_close(&fd);
        s->has_mounts = !e;
        sandbox_on_mounts(s, e);
}

/* PID 1 answers its first request when all mounts are attached (jail/root/inner.c). */
static void on_ready(void *data)
{
        struct init_request request = {.op = INIT_DISK};
        struct sandbox *s = data;
        struct cloche_err e;

        peer_close_copy(&s->mounts->caller_fd); /* all directories are open */
        if (control_request(&s->control, &request, NULL, 0, on_attached, s, &e) < 0)
                sandbox_on_mounts(s, &e);
}

static void on_failed(void *data, const struct cloche_err *e)
{
        struct sandbox *s = data;

        sandbox_on_mounts(s, s->mounts && s->mounts->error.code ? &s->mounts->error : e);
}

/* For followers of sandbox.events. A name that is no text has another form in frames: the
 * mount's place stands for it. */
static void on_denied(void *data, const struct mount *mount, const json_t *denial)
{
        const struct changeset_row row = {.target = (char *)mount->option->target,
                                          .source = mount->option->source,
                                          .file = mount->option->file};
        json_t *about = result_denial(&row, denial);

        if (about && !json_is_string(json_object_get(about, "path")))
                json_object_set_new(about, "path", json_string(mount->option->target));
        if (about)
                sandbox_send_event(data, "fileDenied", about);
}

/* The rights of a start are never more than those of the creation: without the socket of the
 * user who made the sandbox, root's keeper would take those of the directory's owner. */
int sandbox_mounts_prepare(struct sandbox *s, struct cloche_err *e)
{
        struct mount_options options = {0};
        int caller_fd = s->mount && s->has_caller ? find_caller(s) : -EBADF, r;

        if (!s->mount)
                return 0;
        if (s->has_caller && caller_fd < 0)
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "the sandbox %s is stopped, and its mounts have the rights of the user who made it: "
                               "start it with a request over the daemon's unix socket, for example cloche exec",
                               s->name);
        r = mount_options_load(&s->all->engine->mount_roots, s->mount, &options, e);
        if (r == 0)
                r = mounts_new(s->all->engine, &options, caller_fd, &s->mounts, e);
        mount_options_done(&options);
        return r;
}

int sandbox_mounts_serve(struct sandbox *s, uint32_t user, struct cloche_err *e)
{
        const struct jail_user own = s->has_root ? jail_user_root() : image_runs_as(&s->image);

        if (!s->mounts)
                return 0;
        s->mounts->user = user ? user : own.uid;
        s->mounts->group = user ? user : own.gid;
        s->mounts->data = s;
        s->mounts->on_ready = on_ready;
        s->mounts->on_failed = on_failed;
        s->mounts->on_denied = on_denied;
        return mounts_serve(s->mounts, s->all->engine->keeper, s->box, e);
}

int sandbox_mounts_are_ready(const struct sandbox *s)
{
        return !s->mounts || s->has_mounts;
}

void sandbox_mounts_close(struct sandbox *s)
{
        sandbox_mounts_end_sync(s);
        if (s->mounts)
                mounts_close(s->mounts);
        mounts_unref(s->mounts);
        s->mounts = NULL;
        s->has_mounts = 0;
}

/* -- their description -------------------------------------------------------------------------------------------- */

static const char *state_of(const struct sandbox *s, size_t i)
{
        const struct mount *mount = s->mounts ? &s->mounts->rows[i] : NULL;

        if (!mount || !mount->is_served)
                return "stopped";
        return mount->channel.fd < 0 || mount->channel.is_ended ? "lost" : "mounted";
}

json_t *sandbox_mounts_json(const struct sandbox *s)
{
        json_t *list = json_array(), *dir;
        const char *target;
        size_t i = 0;

        json_object_foreach (json_object_get(s->mount, "dirs"), target, dir) {
                json_t *source = json_is_object(dir) ? json_object_get(dir, "path") : dir;

                json_array_append_new(list, json_pack("{s:s, s:O*, s:s}", "path", target, "source", source, "state",
                                                      state_of(s, i++)));
        }
        return list;
}
