/* The life of one sandbox:
 *
 *   STOPPED ── a request ──▶ STARTING (box, control, network, saved files) ──▶ RUNNING ◀────┐ cannot
 *      ▲                       │ fails                                    collapsed │ │ idle, │ be saved
 *      │                       ▼                                                    │ ▼ stop   │
 *      └── box dropped ── DROPPING ◀──────────────────────────────────────────── STOPPING (saves files)
 *
 * A running one may be paused, and go on: life/pause.c.
 *
 * Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "copy.h"
#include "sandbox/context/cell-output.h"
#include "sandbox/context/context.h"
#include "sandbox/environment/mounts.h"
#include "sandbox/environment/volumes.h"
#include "sandbox/life/deadline.h"
#include "sandbox/life/log.h"
#include "sandbox/life/metrics.h"
#include "sandbox/life/pause.h"
#include "sandbox/life/snapshot.h"
#include "sandbox/life/startup.h"
#include "sandbox/life/state.h"
#include "sandbox/network/connections.h"
#include "sandbox/network/port.h"
#include "store.h"
#include "tool.h"
#include "update.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hex.h"
#include "engine/box/network.h"
#include "engine/loop/handle.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SANDBOXES_MAX 1000
#define SAVED_MAX 10000
#define IDLE_MS 1200000

int sandbox_name_check_of(const char *kind, const char *name, struct cloche_err *e)
{
        size_t size = strlen(name);
        int good = size > 0 && size < SANDBOX_NAME_MAX && name[0] != '-' && name[size - 1] != '-';

        for (size_t i = 0; good && i < size; i++)
                good = isalnum((unsigned char)name[i]) || name[i] == '-';
        return good ? 0
                    : err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                              "\"%.70s\" is not a valid name of a %s: expected 1 to %d of A-Z a-z 0-9 -, without "
                              "a hyphen at its ends",
                              name, kind, SANDBOX_NAME_MAX - 1);
}

int sandbox_name_check(const char *name, struct cloche_err *e)
{
        return sandbox_name_check_of("sandbox", name, e);
}

struct sandbox *sandbox_find(const struct sandboxes *all, int64_t principal, const char *name)
{
        struct sandbox *s;

        TAILQ_FOREACH (s, &all->list, link)
                if (s->principal == principal && !s->is_deleted && strcmp(s->name, name) == 0)
                        return s;
        return NULL;
}

#define NO_LIMIT CLOCHE_UNLIMITED

/* A sandbox has no time limits, and larger other limits than a run. */
static const struct cloche_limits sandbox_limits = {
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, scope, sandbox, ...) .field = sandbox,
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};

static void use_defaults(struct cloche_limits *limits)
{
        const uint64_t *from = (const uint64_t *)&sandbox_limits;
        uint64_t *to = (uint64_t *)limits;

        for (size_t i = 0; i < sizeof(*limits) / sizeof(uint64_t); i++)
                if (to[i] == 0)
                        to[i] = from[i];
}

const char *const limits_of_runs[] = {
#define OF_BOX(json)
#define OF_RUN(json) json,
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, scope, ...) OF_##scope(json)
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
        NULL,
};

void sandbox_schedule_turn(struct sandbox *s)
{
        s->all->has_put_off = 1;
        sandboxes_schedule_turn(s->all);
}

int sandbox_set_limits(struct sandbox *s, const struct cloche_limits *requested, struct cloche_err *e)
{
        struct cloche_limits limits = *requested;

        use_defaults(&limits);
        return limits_resolve(&limits, &s->limits, e);
}

void sandbox_replace(json_t **member, json_t *by)
{
        if (!by)
                return;
        json_decref(*member);
        *member = json_incref(by);
}

struct sandbox *sandbox_alloc(struct sandboxes *all, struct cloche_err *e)
{
        struct sandbox *s = calloc(1, sizeof(*s));
        static const struct cloche_limits none;

        if (!s) {
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a sandbox");
                return NULL;
        }
        s->env = json_object();
        s->labels = json_object();
        s->network_policy = json_incref(all->network);
        s->decisions = json_array();
        s->connections.sandbox = s;
        s->all = all;
        s->image.settings = all->engine->own_settings;
        image_hold(&s->image);
        s->created_ms = s->used_ms = clock_real_ms();
        s->used_ns = clock_now_ns();
        s->idle_ms = IDLE_MS;
        sandbox_make_up_name("cloche", s->identity.host_name);
        control_init(&s->control, &control_of_sandbox);
        s->pidfd = s->given_fd = -EBADF;
        (void)sandbox_set_limits(s, &none, NULL);
        LIST_INIT(&s->timers);
        TAILQ_INIT(&s->sessions);
        TAILQ_INIT(&s->processes);
        TAILQ_INIT(&s->drains);
        TAILQ_INIT(&s->tools);
        TAILQ_INIT(&s->requests);
        TAILQ_INIT(&s->waiting);
        TAILQ_INIT(&s->ports);
        TAILQ_INIT(&s->dials);
        TAILQ_INIT(&s->probes);
        TAILQ_INIT(&s->contexts);
        TAILQ_INIT(&s->outputs);
        TAILQ_INIT(&s->copies);
        STAILQ_INIT(&s->updates);
        STAILQ_INIT(&s->settling);
        return s;
}

int sandbox_check_count(const struct sandboxes *all, int64_t principal, unsigned more, struct cloche_err *e)
{
        unsigned most = all->options.saved_max ? all->options.saved_max : SAVED_MAX,
                 count = snapshots_count(all, principal);
        const struct sandbox *s;

        TAILQ_FOREACH (s, &all->list, link)
                count += s->principal == principal && !s->is_deleted;
        return count + more <= most
                       ? 0
                       : err_set(e, CLOCHE_E_QUEUE_FULL,
                                 "this caller has %u sandboxes and snapshots, at most %u are kept: delete those that "
                                 "are not needed",
                                 count, most);
}

struct sandbox *sandbox_new(struct sandboxes *all, int64_t principal, const char *name, struct cloche_err *e)
{
        struct sandbox *s = sandbox_alloc(all, e);

        if (!s)
                return NULL;
        strcpy(s->name, name);
        s->principal = principal;
        TAILQ_INSERT_TAIL(&all->list, s, link);
        return s;
}

/* A session whose own box is being made is freed only after the keeper's reply. */
static void session_end(struct session *session)
{
        unsigned replies = session->sandbox->all->boxes->detach(session->sandbox->all, session);

        session->users++;
        session_close(session);
        while (replies-- > 0)
                session_unuse(session);
        session_unuse(session);
}

/* It must be stopped. */
static void sandbox_free(struct sandbox *s)
{
        struct session *session;

        while ((session = TAILQ_FIRST(&s->sessions)))
                session_end(session);
        sandbox_updates_free(s);
        sandbox_ports_free(s);
        context_outputs_free(s);
        sandbox_metrics_free(s);
        sandbox_log_free(s);
        json_decref(s->decisions);
        TAILQ_REMOVE(s->is_pooled ? &s->all->pool : &s->all->list, s, link);
        json_decref(s->env);
        json_decref(s->labels);
        json_decref(s->network_policy);
        image_drop(&s->image);
        json_decref(s->image_name);
        json_decref(s->commands);
        json_decref(s->packages);
        json_decref(s->mount);
        json_decref(s->volumes);
        json_decref(s->synced);
        fd_close(&s->given_fd);
        if (s->holder)
                *s->holder = NULL;
        free(s);
}

void sandbox_touch(struct sandbox *s)
{
        s->used_ns = clock_now_ns();
        s->used_ms = clock_real_ms();
}

void sandbox_change(struct sandbox *s)
{
        sandbox_touch(s);
        s->is_dirty = 1;
}

/* Count the requests that do not keep the sandbox from being idle. */
static unsigned onlookers(const struct sandbox *s)
{
        const struct sandbox_request *request;
        unsigned count = 0;

        TAILQ_FOREACH (request, &s->requests, link)
                count += request->method->handle == handle_EVENTS;
        return count;
}

int sandbox_is_busy(const struct sandbox *s)
{
        return s->request_count > onlookers(s) || processes_running(s) > sandbox_startup_processes(s) ||
               !TAILQ_EMPTY(&s->dials) || s->store_job;
}

void sandbox_send_event(struct sandbox *s, const char *event, json_t *about)
{
        struct sandbox_request *request;

        TAILQ_FOREACH (request, &s->requests, link)
                if (request->method->handle == handle_EVENTS && request->phase == REQUEST_OPEN && request->cancel)
                        sandbox_request_event(request, event, json_incref(about), NULL);
        json_decref(about);
}

/* The definition records whether the sandbox runs, by which the next daemon detects that it was not
 * stopped. If it cannot be written, that is reported now. */
static void define_state(struct sandbox *s)
{
        struct cloche_err e = {0};

        if (!s->is_pooled && !s->is_deleted && sandbox_store_define(s, &e) < 0 && s->state == SANDBOX_RUNNING)
                sandbox_store_failed(s, &e);
}

/* -- the end ---------------------------------------------------------------------------------------------------- */

/* Answer the requests to stop it, and later ones to save it. e: why it was not stopped, or NULL. */
static void answer_stops(struct sandbox *s, const struct cloche_err *e)
{
        struct sandbox_request *request, *next;
        json_t *stopped;

        for (request = TAILQ_FIRST(&s->requests); request; request = next) {
                next = TAILQ_NEXT(request, link);
                if ((request->method->handle != handle_STOP && request->method->handle != handle_SAVE) ||
                    request->cancel || request->phase == REQUEST_ENDED)
                        continue;
                if (e) {
                        sandbox_request_fail(request, e, NULL);
                        continue;
                }
                stopped = sandbox_json(s);
                if (s->synced && json_object_get(request->params, "sync"))
                        json_object_set(stopped, "sync", s->synced);
                sandbox_request_result(request, stopped, NULL);
        }
}

static void is_stopped(struct sandbox *s)
{
        s->all->running--;
        sandbox_set_state(s, SANDBOX_STOPPED);
        sandbox_volumes_close(s); /* after its box: the last user of a mount writes all that is dirty */
        if (s->is_dirty && s->all->state_fd >= 0 && !s->is_pooled && !s->is_deleted)
                sandbox_store_lost(s, clock_real_ms());
        else
                define_state(s);
        s->is_dirty = 0;
        answer_stops(s, NULL);
        if (s->has_files_only)
                sandbox_answer_pauses(s, NULL);
        if (s->is_pooled)
                sandbox_pool_failed(s);
        s->plan = SANDBOX_STAYS;
        if (s->all->is_stopping || s->is_deleted) {
                struct cloche_err e;

                if (s->is_deleted)
                        err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox was deleted");
                else
                        err_set(&e, CLOCHE_E_STOPPING,
                                "the daemon is about to end and stops its sandboxes: try again when it runs again");
                sandbox_requests_refuse(s, &e, NULL);
                sandbox_schedule_turn(s);
        } else if (!TAILQ_EMPTY(&s->waiting)) {
                sandbox_start(s);
        }
        if (s->is_deleted)
                sandbox_schedule_turn(s); /* the registry frees it */
}

static void on_dropped(void *data, struct keeper_reply *reply)
{
        (void)reply;
        is_stopped(data);
}

void sandbox_drop_box(const struct sandboxes *all, uint32_t box)
{
        /* An error means that the keeper has ended, and the box with it. */
        (void)all->boxes->drop(all, box, NULL, NULL);
}

static void end_work(struct sandbox *s)
{
        sandbox_store_on_box_closed(s);
        sandbox_ports_on_box_closed(s);
        sandbox_probes_on_box_closed(s);
        sandbox_tools_on_box_closed(s);
        contexts_on_box_closed(s);
        processes_on_box_closed(s);
        sandbox_startup_on_box_closed(s); /* after its processes, which have it as their data */
        sessions_on_box_closed(s);
}

/* Release our objects of a box that is dead or will be. */
static void release(struct sandbox *s)
{
        end_work(s);
        sandbox_pause_on_box_closed(s);
        sandbox_metrics_on_box_closed(s);
        connections_close(&s->connections);
        sandbox_mounts_close(s);
        control_close(&s->control);
        fd_close(&s->pidfd);
}

/* End the requests under way, then drop the box. */
static void drop(struct sandbox *s, const struct cloche_err *why)
{
        struct cloche_err e = *why;

        sandbox_set_state(s, SANDBOX_DROPPING);
        s->start_error = (struct cloche_err){0};
        sandbox_requests_end(s, &e);
        if (!s->has_files_only) /* else they are answered when the box is gone */
                sandbox_answer_pauses(s, &e);
        release(s);
        if (s->has_box && s->all->boxes->drop(s->all, s->box, on_dropped, s) == 0) {
                s->has_box = 0;
                return;
        }
        s->has_box = 0;
        is_stopped(s);
}

static void drop_stopped(struct sandbox *s)
{
        struct cloche_err why;

        err_set(&why, CLOCHE_E_SANDBOX_ENDED, "the sandbox was %s", s->is_deleted ? "deleted" : "stopped");
        drop(s, &why);
}

/* True if PID 1 has ended. collapse is called next, after the callbacks of pending
 * answers. */
static int has_lost_box(const struct sandbox *s)
{
        return s->control.fd < 0;
}

#define UNSAVED "it cannot be saved (make room in the daemon's state directory, or delete the sandbox)"
#define UNSYNCED "its mounts could not be synced (stop it with another sync, or without)"

/* Keep the sandbox running, because its files exist only in its box. */
static void stop_failed(struct sandbox *s, const char *reason, const struct cloche_err *e)
{
        struct cloche_err why = *e;

        if (s->all->is_stopping)
                answer_stops(s, e);
        if (s->all->is_stopping || s->is_deleted) {
                drop_stopped(s);
                return;
        }
        s->plan = SANDBOX_STAYS;
        s->has_files_only = 0;
        sandbox_mounts_end_sync(s);
        err_wrap(&why, "the sandbox %s goes on running, as %s", s->name, reason);
        sandbox_log(s, "failed", why.msg);
        s->cause = NULL;
        answer_stops(s, &why);
        if (!s->is_saving_to_pause) /* else the end of that save decides */
                sandbox_answer_pauses(s, &why);
        sandbox_set_state(s, SANDBOX_RUNNING);
        sandbox_port_watch_need(s);
        sandbox_requests_begin(s);
}

static void on_saved(void *data, const struct cloche_err *e)
{
        struct sandbox *s = data;

        if (s->state == SANDBOX_DROPPING || (e && has_lost_box(s))) /* it collapsed meanwhile */
                return;
        if (e)
                stop_failed(s, UNSAVED, e);
        else
                drop_stopped(s);
}

static void save_quiet(struct sandbox *s)
{
        if (s->plan != SANDBOX_SAVES || s->is_deleted || s->all->state_fd < 0)
                drop_stopped(s);
        else
                sandbox_store_save(s, on_saved, s);
}

static void on_synced(struct sandbox *s, const struct cloche_err *e)
{
        if (s->state != SANDBOX_STOPPING || has_lost_box(s)) /* it collapsed meanwhile */
                return;
        if (e)
                stop_failed(s, UNSYNCED, e);
        else
                save_quiet(s);
}

static void on_quiet(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct sandbox *s = data;

        (void)answer;
        (void)e; /* programs that could not be ended end with the box */
        fd_close(&fd);
        if (s->state != SANDBOX_STOPPING || !s->has_box || has_lost_box(s))
                return;
        if (s->mounts_sync)
                sandbox_mounts_sync(s, on_synced);
        else
                save_quiet(s);
}

/* End all other programs before a save, so that files do not change and no guest can stop the file
 * program or take its memory. */
static int quiesce(struct sandbox *s, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_QUIESCE};
        struct cloche_err why;

        err_set(&why, CLOCHE_E_SANDBOX_ENDED, "the sandbox was %s", s->is_deleted ? "deleted" : "stopped");
        sandbox_requests_end(s, &why);
        end_work(s);
        return control_request(&s->control, &request, NULL, 0, on_quiet, s, e);
}

static void save_and_drop(struct sandbox *s)
{
        struct cloche_err e;

        if (quiesce(s, &e) < 0) {
                sandbox_store_failed(s, &e);
                stop_failed(s, UNSAVED, &e);
        }
}

static void on_measured(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct sandbox *s = data;
        struct cloche_err why;

        fd_close(&fd);
        if (s->state == SANDBOX_DROPPING || has_lost_box(s))
                return;
        if (s->is_deleted)
                drop_stopped(s);
        /* The end of the daemon ends the box in any case, so a save is tried even without room. */
        else if (!e && !s->all->is_stopping && sandbox_store_check_room(s, answer->disk_bytes_used, &why) < 0) {
                sandbox_store_failed(s, &why);
                stop_failed(s, UNSAVED, &why);
        } else
                save_and_drop(s);
}

/* Check for room first, so that no program in the box is ended before a save is likely to
 * succeed. */
static void stop_now(struct sandbox *s)
{
        struct init_request request = {.op = INIT_DISK};

        sandbox_set_state(s, SANDBOX_STOPPING);
        if (s->is_deleted || (!s->mounts_sync && (s->plan != SANDBOX_SAVES || s->all->state_fd < 0)))
                drop_stopped(s);
        else if (s->all->is_stopping || s->all->state_fd < 0 ||
                 control_request(&s->control, &request, NULL, 0, on_measured, s, NULL) < 0)
                save_and_drop(s);
}

void sandbox_stop(struct sandbox *s, int save)
{
        if (s->state != SANDBOX_STARTING && !sandbox_is_live(s))
                return;
        if (save && sandbox_is_live(s)) /* a sandbox that is starting has no unsaved changes */
                s->plan = SANDBOX_SAVES;
        else if (s->plan == SANDBOX_STAYS)
                s->plan = SANDBOX_STOPS;
        sandbox_schedule_turn(s);
}

/* The box ended unexpectedly. */
void sandbox_collapse(struct sandbox *s, const struct cloche_err *why)
{
        struct cloche_err e;

        if (!s->has_box)
                return;
        err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox ended by itself: %s", why->msg);
        sandbox_log(s, "failed", e.msg);
        s->cause = "by itself";
        if (s->state == SANDBOX_STOPPING && s->plan == SANDBOX_SAVES) {
                sandbox_store_failed(s, &e);
                answer_stops(s, &e);
        }
        if (s->is_untried && !sandbox_startup_is_over(s)) {
                s->is_deleted = 1;
                sandbox_store_remove(s);
        }
        sandbox_answer_pauses(s, &e);
        s->has_files_only = sandbox_has_memory(s) && sandbox_has_saved_files(s);
        sandbox_requests_refuse(s, &e, NULL);
        drop(s, &e);
}

/* -- the start -------------------------------------------------------------------------------------------------- */

static void on_control_end(void *data, const struct cloche_err *e)
{
        sandbox_collapse(data, e);
}

static void on_exit_of_program(void *data, const struct init_answer *exit)
{
        struct sandbox *s = data;

        sessions_exited(s, exit);
        processes_exited(s, &s->control, exit);
        sandbox_tools_exited(s, exit);
        sandbox_stores_exited(s, exit);
        sandbox_copies_exited(s, &s->control, exit);
}

void sandbox_start_failed(struct sandbox *s, const struct cloche_err *e, json_t *output)
{
        struct cloche_err copy = *e;

        sandbox_log(s, "failed", copy.msg);
        s->cause = "as it could not be started";
        s->is_dirty = 0;     /* it has only saved files */
        if (s->is_untried) { /* else its creator would find it with these options the next time */
                s->is_deleted = 1;
                sandbox_store_remove(s);
        }
        sandbox_requests_refuse(s, &copy, output);
        drop(s, &copy);
}

static void fail_start(struct sandbox *s, const struct cloche_err *e)
{
        sandbox_start_failed(s, e, NULL);
}

/* Before any program, for PID 1 handles requests in their order. A guest that put something else at
 * its path, or used up its disk, only does without it. */
static int put_gemrc(struct sandbox *s, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_PUT, .mode = 0644};

        return s->all->gemrc_fd < 0 ? 0
                                    : control_request_path(&s->control, &request, SANDBOX_GEMRC, &s->all->gemrc_fd, 1,
                                                           NULL, NULL, e);
}

static void on_restored(void *data, const struct cloche_err *e)
{
        struct sandbox *s = data;
        struct cloche_err lost;

        if (s->state != SANDBOX_STARTING)
                return; /* it collapsed meanwhile */
        if (e || put_gemrc(s, &lost) < 0) {
                fail_start(s, e ? e : &lost);
                return;
        }
        s->is_dirty = s->plan == SANDBOX_STAYS && !TAILQ_EMPTY(&s->waiting); /* they will use it */
        s->kept_ns = clock_now_ns();
        sandbox_set_state(s, SANDBOX_RUNNING);
        define_state(s);
        if (s->plan != SANDBOX_STAYS || s->is_deleted)
                sandbox_stop(s, 0); /* perhaps again: an earlier turn came before it ran */
        else
                sandbox_startup_begin(s);
}

void sandbox_started(struct sandbox *s)
{
        s->is_untried = 0;
        if (s->is_pooled)
                sandbox_pool_started(s);
        else
                sandbox_requests_begin(s);
}

/* Commands must find the network in force, and the mounts served; without them there is no wait. */
static void restore_when_ready(struct sandbox *s)
{
        if (s->is_restoring || s->awaits_files || !sandbox_mounts_are_ready(s) ||
            (s->connections.network && !connections_are_settled(&s->connections)))
                return;
        s->is_restoring = 1;
        sandbox_store_restore(s, on_restored, s);
}

void sandbox_on_files(struct sandbox *s)
{
        s->awaits_files = 0;
        if (s->state == SANDBOX_STARTING && s->has_box)
                restore_when_ready(s);
}

void sandbox_on_mounts(struct sandbox *s, const struct cloche_err *e)
{
        if (s->state != SANDBOX_STARTING)
                return; /* the guest gets errors there from now on, and the description has the state */
        if (!e) {
                restore_when_ready(s);
                return;
        }
        if (!s->start_error.code)
                s->start_error = *e;
        sandbox_schedule_turn(s); /* a failed start frees the mounts, which are on the stack now */
}

static void on_network(struct connections *c, const struct cloche_err *e)
{
        struct sandbox *s = c->sandbox;
        struct cloche_err copy;

        if (s->state != SANDBOX_STARTING)
                return;
        if (e) {
                copy = *e;
                fail_start(s, &copy);
        } else {
                restore_when_ready(s);
        }
}

static void on_made(void *data, struct keeper_reply *reply)
{
        struct sandbox *s = data;
        struct cloche_err e = {0};
        struct keeper_box made;
        int r = reply->error ? -1 : keeper_box_take(reply->answer->box, reply->fds, reply->fd_count, &made, &e);

        if (r < 0) {
                fail_start(s, reply->error ? reply->error : &e);
                return;
        }
        s->box = s->connections.box = made.id;
        s->connections.on_change = on_network;
        s->has_box = 1;
        s->has_usage = s->is_restoring = 0;
        s->pidfd = made.pidfd;
        fd_close(&made.fork_fd);
        s->control.on_exit = on_exit_of_program;
        s->control.on_end = on_control_end;
        s->control.data = s;
        r = control_open(&s->control, made.control_fd, &s->all->engine->loop, &e);
        if (r == 0)
                r = sandbox_connections_open(s, s->network_policy, &e);
        if (r == 0)
                r = sandbox_mounts_serve(s, reply->answer->mount_user, &e);
        if (r < 0) {
                fail_start(s, &e);
                return;
        }
        if (s->holder && s->on_box)
                s->on_box(s);
        restore_when_ready(s);
}

static int make_box(struct sandbox *s, struct cloche_err *e)
{
        s->waits_for_volumes = 0;
        return s->all->boxes->make(s->all, &s->image, &s->limits, KEEPER_NO_BOX, s->has_writable_root, s->has_root,
                                   &s->identity, s->mounts, s->volume_uses, on_made, s, e);
}

void sandbox_on_volumes(struct sandbox *s, const struct cloche_err *e)
{
        struct cloche_err own = {0};

        if (!s->waits_for_volumes || s->start_error.code)
                return;
        if (!e && (!sandbox_volumes_are_open(s) || make_box(s, &own) == 0))
                return;
        s->start_error = e ? *e : own;
        sandbox_schedule_turn(s);
}

/* A random UUID, which is the kernel's form. */
static void make_up_boot_id(char ret[KEEPER_BOOT_ID_SIZE])
{
        static const unsigned char parts[] = {4, 2, 2, 2, 6};
        unsigned char chance[16], *at = chance;

        if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
                memset(chance, 0, sizeof(chance));
        chance[6] = (unsigned char)((chance[6] & 0x0f) | 0x40);
        chance[8] = (unsigned char)((chance[8] & 0x3f) | 0x80);
        for (size_t i = 0; i < sizeof(parts); at += parts[i++]) {
                hex_write(ret, at, parts[i]);
                ret += 2 * parts[i];
                *ret++ = i + 1 < sizeof(parts) ? '-' : '\0';
        }
}

void sandbox_start(struct sandbox *s)
{
        unsigned most = s->all->options.sandboxes_max ? s->all->options.sandboxes_max : SANDBOXES_MAX;
        struct cloche_err e = {0};
        int r;

        if (s->state == SANDBOX_PAUSING || s->state == SANDBOX_PAUSED) /* the requests in waiting let it go on */
                sandbox_schedule_turn(s);
        if (s->state != SANDBOX_STOPPED)
                return;
        sandbox_set_state(s, SANDBOX_STARTING);
        s->all->running++;
        s->life = ++s->all->next_life;
        make_up_boot_id(s->identity.boot_id);
        r = s->all->running - sandbox_pool_running(s->all) > most
                    ? err_set(&e, CLOCHE_E_QUEUE_FULL, "%u sandboxes run already: stop one (sandbox.stop)", most)
                    : sandbox_mounts_prepare(s, &e);
        if (r == 0)
                r = sandbox_volumes_prepare(s, &e);
        s->waits_for_volumes = r == 0;
        if (r == 0 && sandbox_volumes_are_open(s))
                r = make_box(s, &e);
        if (r < 0) { /* reported in the next loop iteration: no callback is called from within the request */
                s->start_error = e;
                sandbox_schedule_turn(s);
        }
}

void sandbox_delete(struct sandbox *s)
{
        s->is_deleted = 1;
        s->has_files_only = 0;
        sandbox_store_remove(s);
        if (s->state == SANDBOX_STOPPED) {
                struct cloche_err e;

                err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox was deleted");
                sandbox_requests_end(s, &e);
                sandbox_schedule_turn(s);
        } else if (s->state == SANDBOX_STOPPING) {
                drop_stopped(s); /* it may wait forever: the guest can stop PID 1 */
        } else {
                sandbox_stop(s, 0);
        }
}

void sandbox_end(struct sandbox *s)
{
        struct sandbox_request *request;

        while ((request = TAILQ_FIRST(&s->requests)))
                sandbox_request_cancel(request);
        if (s->has_box)
                sandbox_drop_box(s->all, s->box);
        s->has_box = 0;
        (void)s->all->boxes->detach(s->all, s); /* its box may be in the making, or being dropped */
        release(s);
        sandbox_volumes_close(s);
        sandbox_free(s);
}

/* Frozen programs cannot save: it goes on before it is stopped. */
static void paused_turn(struct sandbox *s)
{
        if (s->is_deleted || (s->plan == SANDBOX_STOPS && !s->mounts_sync))
                drop_stopped(s);
        else if (s->plan != SANDBOX_STAYS || s->is_wanted || !TAILQ_EMPTY(&s->waiting))
                sandbox_resume(s);
}

void sandbox_turn(struct sandbox *s)
{
        struct cloche_err e = s->start_error;

        contexts_turn(s);
        sandbox_mounts_turn(s);
        sandbox_startup_turn(s);
        if (e.code && s->state == SANDBOX_STARTING) {
                s->start_error = (struct cloche_err){0};
                fail_start(s, &e);
        }
        if (s->state == SANDBOX_PAUSED)
                paused_turn(s);
        if (s->plan != SANDBOX_STAYS && s->state == SANDBOX_RUNNING)
                stop_now(s);
        if (s->is_deleted && s->state == SANDBOX_STOPPED && s->request_count == 0)
                sandbox_free(s);
}

/* -- its description -------------------------------------------------------------------------------------------- */

static void on_usage(void *data, struct keeper_reply *reply)
{
        struct sandbox *s = data;

        s->is_measuring = 0;
        s->has_usage = !reply->error;
        if (!reply->error)
                s->usage = reply->answer->usage;
}

/* If we may not read its groups, request the usage from the keeper; the next description has it. */
static void add_usage(struct sandbox *s, json_t *object)
{
        struct keeper_usage usage;
        int is_known = s->all->boxes->read_usage(s->all, s->box, &usage);

        if (!is_known && !s->is_measuring)
                s->is_measuring = s->all->boxes->request_usage(s->all, s->box, on_usage, s) == 0;
        if (!is_known)
                usage = s->usage;
        if (is_known || s->has_usage)
                json_object_set_new(object, "usage",
                                    json_pack("{s:I, s:I, s:I}", "cpuMs", (json_int_t)(usage.cpu_ns / 1000000),
                                              "memoryPeakBytes", (json_int_t)usage.memory_peak_bytes, "pidsPeak",
                                              (json_int_t)usage.pids_peak));
}

json_t *sandbox_json(struct sandbox *s)
{
        struct session *session;
        unsigned sessions = 0;
        json_t *object;

        TAILQ_FOREACH (session, &s->sessions, link)
                sessions++;
        object =
                json_pack("{s:s, s:o, s:o, s:o, s:O, s:o, s:I, s:O, s:i, s:i, s:i}", "sandbox", s->name, "createdAt",
                          sandbox_time_json(s->created_ms), "lastUsedAt", sandbox_time_json(s->used_ms), "limits",
                          limits_to_json(&s->limits), "env", s->env, "network", network_policy_shown(s->network_policy),
                          "idleMs", (json_int_t)s->idle_ms, "labels", s->labels, "sessions", (int)sessions, "processes",
                          (int)processes_running(s), "contexts", (int)contexts_count(s));
        if (object)
                json_object_update_new(object, sandbox_state_json(s));
        if (object) /* NULL: no memory */
                for (const char *const *name = limits_of_runs; *name; name++)
                        json_object_del(json_object_get(object, "limits"), *name);
        if (object)
                sandbox_deadline_describe(&s->deadline, object);
        if (object && s->image.name[0])
                json_object_set_new(object, "image", json_string(s->image.name));
        if (object && s->image.name[0] && s->image_name)
                json_object_set(object, "imageName", s->image_name);
        if (object && s->packages)
                json_object_set(object, "packages", s->packages);
        if (object && s->has_writable_root)
                json_object_set_new(object, "writableRoot", json_true());
        if (object && s->has_root)
                json_object_set_new(object, "root", json_true());
        if (object && s->mount)
                json_object_set_new(object, "mounts", sandbox_mounts_json(s));
        if (object && s->volumes)
                json_object_set(object, "volumes", s->volumes);
        if (object && s->save_error[0])
                json_object_set_new(object, "saveError", json_string(s->save_error));
        if (object && s->startup_error[0])
                json_object_set_new(object, "startupError", json_string(s->startup_error));
        if (object && json_object_get(object, "pauseKind"))
                json_object_set_new(object, "pausedAt", sandbox_time_json(s->paused_ms));
        if (object && s->saved_ms)
                json_object_set_new(object, "savedAt", sandbox_time_json(s->saved_ms));
        if (object && s->lost_to_ms)
                json_object_set_new(object, "lost",
                                    json_pack("{s:o, s:o}", "from", sandbox_time_json(s->lost_from_ms), "to",
                                              sandbox_time_json(s->lost_to_ms)));
        if (object)
                json_object_set_new(object, "hostName", json_string(s->identity.host_name));
        if (object && sandbox_is_live(s))
                json_object_set_new(object, "bootId", json_string(s->identity.boot_id));
        if (object && sandbox_is_live(s))
                add_usage(s, object);
        return object;
}
