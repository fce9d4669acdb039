/* The guest's writes in the mounts of a sandbox, written to the host by a stop that requests it:
 * its programs have ended then, and no file changes meanwhile. The rules, conflicts and the
 * transaction are those of a run's sync (engine/mounts/sync.c). Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "mounts.h"

#include "base/err.h"
#include "base/peer.h"
#include "engine/mounts/changeset.h"

#include <cloche/cloche.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct mounts_sync {
        struct sync_policies policies;
        int caller_fd; /* rights to use; owned, or -EBADF */
        struct cloche_changeset *set;
        cloche_sync *sync;
        void (*done)(struct sandbox *s, const struct cloche_err *e);
        int is_ended; /* error: the outcome, code 0: success */
        struct cloche_err error;
};

/* -- the request ------------------------------------------------------------------------------------------------ */

static int read_policies(const json_t *given, struct sync_policies *ret, struct cloche_err *e)
{
        int r = sync_policies_read(given, "sync", ret, e);
        const char *key;
        json_t *value;

        json_object_foreach ((json_t *)given, key, value)
                if (r == 0 && strcmp(key, "onError") != 0 && strcmp(key, "conflict") != 0 && strcmp(key, "links") != 0)
                        r = err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                    "sync has no member \"%.60s\": expected onError, conflict and links", key);
        return r;
}

static int check(const struct sandbox *s, int caller_fd, struct cloche_err *e)
{
        if (!s->mount)
                return err_set(e, CLOCHE_E_STATE, "the sandbox %s has no mounts to sync", s->name);
        if (s->state != SANDBOX_RUNNING || s->mounts_sync)
                return err_set(e, CLOCHE_E_STATE,
                               "the sandbox %s does not run: writes in its mounts end when it stops, unless that stop "
                               "has sync",
                               s->name);
        if (s->has_caller && caller_fd < 0)
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "the mounts of the sandbox %s have the rights of the user who made it: send the request "
                               "over the daemon's unix socket",
                               s->name);
        return 0;
}

int sandbox_mounts_want_sync(struct sandbox *s, const struct sandbox_request *request, struct cloche_err *e)
{
        const json_t *given = json_object_get(request->params, "sync");
        int caller_fd = sandbox_mounts_caller(request), r;
        struct mounts_sync sync = {.caller_fd = -EBADF};

        if (!given)
                return 0;
        r = check(s, caller_fd, e);
        if (r == 0)
                r = read_policies(given, &sync.policies, e);
        if (r == 0 && s->has_caller && (sync.caller_fd = fcntl(caller_fd, F_DUPFD_CLOEXEC, 3)) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "sync the mounts of a sandbox");
        if (r == 0 && !(s->mounts_sync = malloc(sizeof(sync)))) {
                peer_close_copy(&sync.caller_fd);
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "sync the mounts of a sandbox");
        }
        if (r < 0)
                return r;
        *s->mounts_sync = sync;
        json_decref(s->synced);
        s->synced = NULL;
        return 0;
}

/* -- the work --------------------------------------------------------------------------------------------------- */

void sandbox_mounts_end_sync(struct sandbox *s)
{
        struct mounts_sync *sync = s->mounts_sync;

        if (!sync)
                return;
        s->mounts_sync = NULL;
        cloche_sync_free(sync->sync);
        cloche_changeset_free(sync->set);
        peer_close_copy(&sync->caller_fd);
        free(sync);
}

/* The sync, or the mounts, are on the stack: they are freed in the next loop iteration. */
static void complete(struct sandbox *s, const struct cloche_err *e)
{
        s->mounts_sync->is_ended = 1;
        if (e)
                s->mounts_sync->error = *e;
        sandbox_schedule_turn(s);
}

void sandbox_mounts_turn(struct sandbox *s)
{
        void (*done)(struct sandbox * s, const struct cloche_err *e);
        struct cloche_err e;

        if (!s->mounts_sync || !s->mounts_sync->is_ended)
                return;
        done = s->mounts_sync->done;
        e = s->mounts_sync->error;
        sandbox_mounts_end_sync(s);
        done(s, e.code ? &e : NULL);
}

/* Names that are no text have another form in frames: replace them. */
static void keep_texts(json_t *value)
{
        const char *key;
        json_t *member;
        void *next;

        for (size_t i = 0; i < json_array_size(value); i++)
                if (json_object_get(json_array_get(value, i), "$"))
                        json_array_set_new(value, i, json_string("(a name that is no text)"));
                else
                        keep_texts(json_array_get(value, i));
        json_object_foreach_safe (value, next, key, member) {
                if (json_object_get(member, "$"))
                        json_object_set_new(value, key, json_string("(a name that is no text)"));
                else
                        keep_texts(member);
        }
}

/* With changes that could not be written the sandbox goes on: they exist only there. */
static int check_result(const json_t *result, struct cloche_err *e)
{
        const json_t *first = json_array_get(json_object_get(result, "failed"), 0);
        size_t count = json_array_size(json_object_get(result, "failed"));
        const char *path = json_string_value(json_object_get(first, "path")),
                   *message = json_string_value(json_object_get(json_object_get(first, "error"), "message"));

        if (count == 0 && !json_object_get(result, "error"))
                return 0;
        return err_set(e, CLOCHE_E_STATE, "%zu changes were not written to the host, the first is %.100s: %.150s",
                       count, path ? path : "of a whole directory", message ? message : "?");
}

/* The writes in mounts whose server has ended are gone, whether the sandbox goes on or not. */
static void add_lost(const struct sandbox *s)
{
        json_t *lost = json_array();

        for (size_t i = 0; i < s->mounts->options.count; i++)
                if (s->mounts->rows[i].is_lost)
                        json_array_append_new(lost, json_string(s->mounts->rows[i].option->target));
        if (json_array_size(lost) > 0)
                json_object_set(s->synced, "lost", lost);
        json_decref(lost);
}

static void on_synced(void *data, cloche_sync *sync)
{
        struct sandbox *s = data;
        struct cloche_err e = {0};
        json_t *result = NULL;
        int r = sync_result(sync, &result, &e);

        s->synced = r < 0 ? NULL : json_deep_copy(result);
        json_decref(result);
        keep_texts(s->synced);
        add_lost(s);
        if (r == 0)
                r = check_result(s->synced, &e);
        complete(s, r < 0 ? &e : NULL);
}

static int start(struct sandbox *s, struct cloche_err *e)
{
        struct mounts_sync *sync = s->mounts_sync;
        struct cloche_sync_options opt = {.on_error = sync->policies.on_error,
                                          .conflict = sync->policies.conflict,
                                          .links = sync->policies.links,
                                          .has_caller = sync->caller_fd >= 0,
                                          .caller_fd = sync->caller_fd,
                                          .on_end = on_synced,
                                          .data = s};
        int r;

        if (s->mounts->error.code) {
                *e = s->mounts->error;
                return -(int)e->code;
        }
        r = changeset_take(s->mounts, &sync->set, e);
        opt.changes = sync->set;
        return r < 0 ? r : cloche_sync_start(s->all->engine, &opt, &sync->sync, e);
}

static void on_collected(void *data)
{
        struct sandbox *s = data;
        struct cloche_err e = {0};

        if (start(s, &e) < 0)
                complete(s, &e);
}

void sandbox_mounts_sync(struct sandbox *s, void (*done)(struct sandbox *s, const struct cloche_err *e))
{
        s->mounts_sync->done = done;
        s->mounts->on_collected = on_collected;
        if (mounts_collect_again(s->mounts) == 0)
                on_collected(s);
}
