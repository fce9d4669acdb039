/* Mounted directories: kept change sets, running syncs, their events. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "changes.h"
#include "bridge.h"
#include "run.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/engine.h"
#include "engine/mounts/changeset.h"
#include "wire/value.h"

#include <cloche/cloche.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MAX 1000 /* per caller */
#define IDLE_NS UINT64_C(600000000000)

struct sync_job {
        struct client_pending pending;
        TAILQ_ENTRY(sync_job) link;
        cloche_sync *sync;
        struct kept_changeset *kept; /* the changes: this set, or */
        cloche_changeset *own;
        unsigned open; /* unanswered questions */
        int is_ended;
};

/* -- mounts --------------------------------------------------------------------------------------------------- */

static const struct {
        const char *name, *method;
} events[] = {
        [CLOCHE_FILE_DENIED] = {"permissionDenied", "permissionDenied"},
        [CLOCHE_SYNC_BEFORE] = {"beforeSync", "sync.before"},
        [CLOCHE_SYNC_AFTER] = {"afterSync", "sync.after"},
        [CLOCHE_SYNC_ERROR] = {"syncError", "sync.error"},
};
#define EVENTS (sizeof(events) / sizeof(events[0]))

static int read_events(const json_t *list, unsigned *ret, struct cloche_err *e)
{
        *ret = 0;
        if (list && !json_is_array(list))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.events must be an array of names of events");
        for (size_t i = 0; i < json_array_size(list); i++) {
                const char *name = json_string_value(json_array_get(list, i));
                size_t event = 0;

                while (event < EVENTS && (!name || strcmp(events[event].name, name) != 0))
                        event++;
                if (event == EVENTS)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "mount.events[%zu] must be beforeSync, afterSync, syncError or "
                                       "permissionDenied, not \"%.40s\"",
                                       i, name ? name : "");
                *ret |= 1u << event;
        }
        return 0;
}

int changes_read_mount(const struct daemon *d, const json_t *mount, json_t **ret_mount, unsigned *ret_events,
                       struct cloche_err *e)
{
        int r = read_events(json_object_get(mount, "events"), ret_events, e);

        if (r == 0)
                r = mount_roots_check(&d->engine->mount_roots, e);
        if (r < 0)
                return r;
        *ret_mount = json_copy((json_t *)mount);
        if (!*ret_mount)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the mount");
        json_object_del(*ret_mount, "events"); /* the daemon reads it, not the engine */
        return 0;
}

/* -- events --------------------------------------------------------------------------------------------------- */

static void happened(struct client *client, const json_t *id, void *owner, unsigned *open, enum cloche_file_event event,
                     const char *about, cloche_sync_question *question)
{
        if (event == CLOCHE_SYNC_BEFORE)
                bridge_send_sync(client, id, owner, open, about, question);
        else if (client)
                client->face->notify(client, id, events[event].method, about);
}

void changes_of_job(void *data, cloche_run *run, enum cloche_file_event event, const char *about,
                    cloche_sync_question *question)
{
        struct job *job = data;

        (void)run;
        happened(job->pending.client, job->pending.id, job, &job->requests_open, event, about, question);
}

static void of_sync(void *data, cloche_run *run, enum cloche_file_event event, const char *about,
                    cloche_sync_question *question)
{
        struct sync_job *job = data;

        (void)run;
        happened(job->pending.client, job->pending.id, job, &job->open, event, about, question);
}

/* -- change sets ---------------------------------------------------------------------------------------------- */

static int is_visible(const struct client *client, const struct kept_changeset *k)
{
        return k->client ? k->client == client : k->principal == client->principal;
}

static void kept_free(struct daemon *d, struct kept_changeset *k)
{
        TAILQ_REMOVE(&d->changesets, k, link);
        cloche_changeset_free(k->set);
        free(k);
}

static void kept_drop(struct daemon *d, struct kept_changeset *k)
{
        k->is_dropped = 1;
        if (k->syncs == 0)
                kept_free(d, k);
}

int changes_keep(struct client *client, cloche_changeset *set, const char **ret_id, struct cloche_err *e)
{
        struct kept_changeset *k;
        unsigned count = 0;

        *ret_id = NULL;
        if (!set)
                return 0;
        TAILQ_FOREACH (k, &client->daemon->changesets, link)
                count += is_visible(client, k);
        k = count < KEPT_MAX ? calloc(1, sizeof(*k)) : NULL;
        if (!k) {
                cloche_changeset_free(set);
                return count < KEPT_MAX ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the changes")
                                        : err_set(e, CLOCHE_E_QUEUE_FULL,
                                                  "%u change sets are kept already; drop some (changeset.drop)", count);
        }
        *k = (struct kept_changeset){
                .client = client->face->has_bridge ? client : NULL,
                .principal = client->principal,
                .set = set,
                .used_ns = clock_now_ns(),
        };
        snprintf(k->id, sizeof(k->id), "c%llu", (unsigned long long)++client->daemon->next_changeset);
        TAILQ_INSERT_TAIL(&client->daemon->changesets, k, link);
        *ret_id = k->id;
        return 0;
}

static int find(const struct client *client, const char *id, struct kept_changeset **ret, struct cloche_err *e)
{
        struct kept_changeset *k;

        TAILQ_FOREACH (k, &client->daemon->changesets, link)
                if (!k->is_dropped && is_visible(client, k) && strcmp(k->id, id) == 0) {
                        *ret = k;
                        return 0;
                }
        return err_set(e, CLOCHE_E_NOT_FOUND, "there is no change set \"%.60s\": it was dropped, or not kept", id);
}

int changes_drop(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        struct kept_changeset *k;
        int r = find(request->client, json_string_value(json_object_get(request->params, "changeset")), &k, e);

        if (r < 0)
                return r;
        kept_drop(request->client->daemon, k);
        *ret = json_object();
        return 0;
}

/* -- syncs ---------------------------------------------------------------------------------------------------- */

static void sync_job_free(struct sync_job *job)
{
        bridge_on_owner_closed(job->pending.client, job);
        cloche_sync_free(job->sync);
        cloche_changeset_free(job->own);
        if (job->kept) {
                job->kept->syncs--;
                job->kept->used_ns = clock_now_ns();
                if (job->kept->is_dropped && job->kept->syncs == 0)
                        kept_free(job->pending.daemon, job->kept);
        }
        TAILQ_REMOVE(&job->pending.daemon->syncs, job, link);
        client_pending_remove(&job->pending);
        free(job);
}

static void on_end(void *data, cloche_sync *sync)
{
        struct sync_job *job = data;
        struct client *client = job->pending.client;
        json_t *id = json_incref(job->pending.id), *result = NULL;
        struct cloche_err e = {0};
        int r = sync_result(sync, &result, &e);

        job->is_ended = 1; /* freed by changes_reap, when nothing on the stack uses it */
        bridge_on_owner_closed(client, job);
        client_pending_remove(&job->pending);
        if (client && r == 0)
                client->face->result(client, operation_at(OPERATION_SYNC), id, result);
        else if (client)
                client->face->fail(client, id, &e, NULL);
        json_decref(result);
        json_decref(id);
}

/* Get the changes: a kept set, or the list in the request. */
static int read_changes(const struct client_request *request, struct sync_job *job, unsigned *ret_events,
                        struct cloche_err *e)
{
        const json_t *changeset = json_object_get(request->params, "changeset"),
                     *changes = json_object_get(request->params, "changes");
        const json_t *mount = json_object_get(request->params, "mount");
        json_t *plain = NULL;
        char *changes_text, *mount_text;
        int r;

        *ret_events = 0;
        if (!changeset == !changes || !changes != !mount)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "sync needs either the field \"changeset\", or \"changes\" and \"mount\"");
        if (changeset)
                return find(request->client, json_string_value(changeset), &job->kept, e);
        r = changes_read_mount(request->client->daemon, mount, &plain, ret_events, e);
        if (r < 0)
                return r;
        changes_text = value_dump(changes, JSON_COMPACT);
        mount_text = value_dump(plain, JSON_COMPACT);
        r = changes_text && mount_text
                    ? cloche_changeset_from_json(job->pending.daemon->engine, changes_text, mount_text, &job->own, e)
                    : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the changes");
        free(changes_text);
        free(mount_text);
        json_decref(plain);
        return r;
}

static int sync_start(const struct client_request *request, struct sync_job *job, struct cloche_err *e)
{
        const json_t *list = json_object_get(request->params, "events");
        unsigned wanted, more;
        int r = read_changes(request, job, &wanted, e);

        if (r == 0)
                r = read_events(list, &more, e);
        if (r < 0)
                return r;
        if (job->kept)
                job->kept->syncs++;
        return cloche_sync_start(job->pending.daemon->engine,
                                 &(struct cloche_sync_options){
                                         .changes = job->kept ? job->kept->set : job->own,
                                         .on_error = json_string_value(json_object_get(request->params, "onError")),
                                         .conflict = json_string_value(json_object_get(request->params, "conflict")),
                                         .links = json_string_value(json_object_get(request->params, "links")),
                                         .dry_run = json_is_true(json_object_get(request->params, "dryRun")),
                                         .on_event = of_sync,
                                         .event_data = job,
                                         .events = wanted | more,
                                         .on_end = on_end,
                                         .data = job,
                                         .has_caller = request->client->peer_fd >= 0,
                                         .caller_fd = request->client->peer_fd,
                                 },
                                 &job->sync, e);
}

/* The changes of the sync are undone if possible. */
static void on_cancel(struct client_pending *pending)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_STATE, "the sync was cancelled by the caller");
        pending->client->face->fail(pending->client, pending->id, &e, NULL);
        sync_job_free((struct sync_job *)pending);
}

static void on_client_closed(struct client_pending *pending)
{
        sync_job_free((struct sync_job *)pending);
}

int changes_sync(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        static const struct client_pending_kind kind = {.cancel = on_cancel, .on_client_closed = on_client_closed};
        struct sync_job *job;
        int r = client_pending_check(request, e);

        (void)ret;
        if (r < 0)
                return r;
        job = calloc(1, sizeof(*job));
        if (!job)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a sync");
        client_pending_add(&job->pending, &kind, request);
        TAILQ_INSERT_TAIL(&job->pending.daemon->syncs, job, link);
        r = sync_start(request, job, e);
        if (r < 0) {
                if (job->kept && job->kept->syncs == 0)
                        job->kept = NULL;
                sync_job_free(job);
                return r;
        }
        return 1;
}

/* -- ends ----------------------------------------------------------------------------------------------------- */

void changes_reap(struct daemon *d)
{
        struct sync_job *job, *next;

        for (job = TAILQ_FIRST(&d->syncs); job; job = next) {
                next = TAILQ_NEXT(job, link);
                if (job->is_ended)
                        sync_job_free(job);
        }
}

void changes_tidy(struct daemon *d, uint64_t now_ns)
{
        struct kept_changeset *k, *next;

        for (k = TAILQ_FIRST(&d->changesets); k; k = next) {
                next = TAILQ_NEXT(k, link);
                if (!k->client && k->syncs == 0 && now_ns - k->used_ns > IDLE_NS)
                        kept_free(d, k);
        }
}

void changes_on_client_closed(struct client *client)
{
        struct kept_changeset *k, *next;

        for (k = TAILQ_FIRST(&client->daemon->changesets); k; k = next) {
                next = TAILQ_NEXT(k, link);
                if (k->client == client)
                        kept_drop(client->daemon, k);
        }
}

void changes_drop_all(struct daemon *d)
{
        while (!TAILQ_EMPTY(&d->syncs))
                sync_job_free(TAILQ_FIRST(&d->syncs));
        while (!TAILQ_EMPTY(&d->changesets))
                kept_free(d, TAILQ_FIRST(&d->changesets));
}
