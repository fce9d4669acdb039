/* Pauses. With memory:
 *
 *   RUNNING ── saved, if asked for ──▶ PAUSING ── all are frozen ──▶ PAUSED
 *      ▲                                  │ one of them cannot be        │ a request, a stop
 *      └────────── thawed ────────── RESUMING ◀──────────────────────────┘
 *
 * With files only it is saved and stopped (core/sandbox.c), and told as paused: has_files_only.
 *
 * The control groups of the sandbox hold its programs and those of its contexts. Our programs
 * that serve its mounts and networks are not frozen (keeper/box.c). Timers of the sandbox stop,
 * so that no timeout ends for time in which nothing could run. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "pause.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/handle.h"
#include "log.h"
#include "sandbox/context/context.h"
#include "sandbox/context/prewarm.h"
#include "sandbox/core/store.h"
#include "sandbox/network/port.h"
#include "sandbox/session/session.h"
#include "startup.h"
#include "state.h"

#include <string.h>

#define PATIENCE_NS UINT64_C(3000000000)
#define FIRST_RETRY_MS 1
#define LAST_RETRY_MS 50

static int wants_memory(const struct sandbox_request *request)
{
        return sandbox_request_flag(request, "memory", 1);
}

void sandbox_answer_pauses(struct sandbox *s, const struct cloche_err *e)
{
        struct sandbox_request *request, *next;

        for (request = TAILQ_FIRST(&s->requests); request; request = next) {
                next = TAILQ_NEXT(request, link);
                if (request->method->handle != handle_PAUSE || request->phase != REQUEST_OPEN)
                        continue;
                if (!e && sandbox_has_memory(s) && !wants_memory(request))
                        continue; /* it is saved and stopped next */
                if (e)
                        sandbox_request_fail(request, e, NULL);
                else
                        sandbox_request_result(request, sandbox_json(s), NULL);
        }
}

static void hold(struct sandbox *s, int is_held)
{
        struct session *session;
        struct context *c;

        control_hold(&s->control, is_held);
        TAILQ_FOREACH (session, &s->sessions, link)
                control_hold(&session->own_control, is_held);
        TAILQ_FOREACH (c, &s->contexts, link)
                control_hold(&c->control, is_held);
        if (is_held)
                sandbox_timers_hold(s);
        else
                sandbox_timers_release(s);
}

/* -- resuming --------------------------------------------------------------------------------------------------- */

static void on_thawed(void *data, struct keeper_reply *reply)
{
        struct sandbox *s = data;
        struct cloche_err why = s->pause_error;

        if (s->state != SANDBOX_RESUMING)
                return; /* its box ended meanwhile */
        if (reply->error) {
                sandbox_collapse(s, reply->error);
                return;
        }
        if (why.code)
                sandbox_log(s, "failed", why.msg);
        hold(s, 0);
        s->is_wanted = 0;
        s->pause_error = (struct cloche_err){0};
        sandbox_touch(s);
        sandbox_set_state(s, SANDBOX_RUNNING);
        sandbox_schedule_turn(s); /* tasks of contexts, and a stop, may wait */
        sessions_take_up(s);
        sandbox_port_watch_need(s);
        if (why.code)
                sandbox_answer_pauses(s, &why);
        sandbox_requests_begin(s);
}

void sandbox_resume(struct sandbox *s)
{
        struct cloche_err e;

        sandbox_set_state(s, SANDBOX_RESUMING);
        if (s->all->boxes->freeze(s->all, s->box, 0, on_thawed, s, &e) < 0)
                sandbox_collapse(s, &e);
}

void sandbox_wake(struct sandbox *s)
{
        s->is_wanted = 1;
        sandbox_schedule_turn(s);
}

/* -- pausing ---------------------------------------------------------------------------------------------------- */

static void give_up(struct sandbox *s, const struct cloche_err *e)
{
        s->pause_error = *e;
        sandbox_resume(s);
}

static void try_to_freeze(struct sandbox *s);

static void on_retry(uv_timer_t *timer)
{
        try_to_freeze(timer->data);
}

/* reason: of the wait */
static void retry(struct sandbox *s, const char *reason)
{
        struct cloche_err e;

        if (clock_now_ns() - s->freeze_since_ns > PATIENCE_NS) {
                err_set(&e, CLOCHE_E_STATE, "the sandbox \"%s\" goes on running, as it could not be paused: %s",
                        s->name, reason);
                give_up(s, &e);
                return;
        }
        uv_timer_start(s->freeze_timer, on_retry, s->freeze_retry_ms, 0);
        s->freeze_retry_ms = s->freeze_retry_ms < LAST_RETRY_MS / 2 ? s->freeze_retry_ms * 2 : LAST_RETRY_MS;
}

/* Since the save began. Programs that nobody counts, such as jobs of a session's
 * shell, are in its groups. */
static int could_change_files(const struct sandbox *s)
{
        struct cgroup_present now;
        const struct session *session;
        uint64_t known = 1; /* PID 1 */

        if (processes_running(s) > 0 || contexts_count(s) > 0)
                return 1;
        TAILQ_FOREACH (session, &s->sessions, link) /* its shell with its supervisor, and its own PID 1 */
                known += 2 * (uint64_t)(session->state != SHELL_NONE) + (uint64_t)session->has_box;
        s->all->boxes->read_present(s->all, s->box, &now);
        return !now.pids_known || now.pids > known;
}

static void on_frozen(void *data, struct keeper_reply *reply)
{
        struct sandbox *s = data;

        if (s->state != SANDBOX_PAUSING)
                return; /* its box ended meanwhile */
        if (reply->error) {
                give_up(s, reply->error);
        } else if (!reply->answer->is_frozen) {
                retry(s, "one of its processes does not freeze, for it waits in the kernel");
        } else {
                s->is_dirty |= could_change_files(s);
                sandbox_set_state(s, SANDBOX_PAUSED);
                sandbox_answer_pauses(s, NULL);
                sandbox_schedule_turn(s); /* a request or a stop may have come meanwhile */
        }
}

/* A box that is being made in frozen groups would never be ready. */
static void try_to_freeze(struct sandbox *s)
{
        struct cloche_err e;

        if (s->state != SANDBOX_PAUSING)
                return;
        if (!contexts_are_settled(s))
                retry(s, "a context is being started or forked");
        else if (!sessions_are_settled(s))
                retry(s, "a session is being started");
        else if (s->store_job || !TAILQ_EMPTY(&s->copies))
                retry(s, "its files are being saved");
        else if (s->all->boxes->freeze(s->all, s->box, 1, on_frozen, s, &e) < 0)
                give_up(s, &e);
}

static void freeze(struct sandbox *s)
{
        struct cloche_err e;

        if (!s->freeze_timer)
                s->freeze_timer = handle_timer(&s->all->engine->loop, s);
        if (!s->freeze_timer) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "pause a sandbox");
                sandbox_answer_pauses(s, &e);
                return;
        }
        sandbox_set_state(s, SANDBOX_PAUSING);
        context_prewarm_close(s);
        hold(s, 1);
        s->freeze_since_ns = clock_now_ns();
        s->freeze_retry_ms = FIRST_RETRY_MS;
        try_to_freeze(s);
}

static void on_saved(void *data, const struct cloche_err *e)
{
        struct sandbox *s = data;
        struct cloche_err why;

        s->is_saving_to_pause = 0;
        if (s->state != SANDBOX_RUNNING || s->plan != SANDBOX_STAYS)
                return; /* its stop answers */
        if (e) {
                why = *e;
                err_wrap(&why, "the sandbox \"%s\" is not paused, as it cannot be saved (save: false omits that)",
                         s->name);
                sandbox_answer_pauses(s, &why);
        } else {
                freeze(s);
        }
}

void sandbox_pause(struct sandbox *s, int save)
{
        if (s->state != SANDBOX_RUNNING || s->is_saving_to_pause || s->plan != SANDBOX_STAYS)
                return;
        if (save && s->is_dirty && s->all->state_fd >= 0) {
                s->is_saving_to_pause = 1;
                sandbox_store_save(s, on_saved, s);
        } else {
                freeze(s);
        }
}

void sandbox_pause_on_box_closed(struct sandbox *s)
{
        handle_close(s->freeze_timer);
        s->freeze_timer = NULL;
        s->is_wanted = s->is_saving_to_pause = 0;
        s->pause_error = (struct cloche_err){0};
        if (s->are_timers_held)
                hold(s, 0);
}

void sandbox_pause_forget(struct sandbox *s)
{
        int was_paused = s->state == SANDBOX_STOPPED && s->has_files_only;

        s->has_files_only = 0;
        if (!was_paused)
                return;
        s->paused_ms = 0;
        (void)sandbox_store_define(s, NULL); /* if this fails, the next daemon finds it paused: it is as good */
        sandbox_send_event(s, "state", sandbox_state_json(s));
}

/* -- the methods ------------------------------------------------------------------------------------------------ */

static void wait_until_it_runs(struct sandbox_request *request)
{
        sandbox_request_set_phase(request, REQUEST_WAITING);
        TAILQ_INSERT_TAIL(&request->sandbox->waiting, request, turn_link);
        sandbox_schedule_turn(request->sandbox);
}

static int check_pause(const struct sandbox_request *request, struct cloche_err *e)
{
        if (wants_memory(request))
                return 0;
        if (!sandbox_request_flag(request, "save", 1))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "memory: false and save: false would keep nothing: use one of them");
        if (request->all->state_fd < 0)
                return err_set(e, CLOCHE_E_STATE,
                               "the daemon has no state directory (--state-dir): no files can be kept without memory");
        return 0;
}

static void keep_files_only(struct sandbox *s)
{
        s->has_files_only = 1;
        sandbox_stop(s, 1); /* the outcome comes when it has stopped */
}

int handle_PAUSE(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        int r = check_pause(request, e);

        if (r < 0)
                return r;
        if (!wants_memory(request) && sandbox_is_live(s) && s->state != SANDBOX_RESUMING) {
                keep_files_only(s);
                return 0;
        }
        switch (s->state) {
        case SANDBOX_RUNNING:
                sandbox_pause(s, !json_is_false(json_object_get(request->params, "save")));
                return 0;
        case SANDBOX_STARTING:
        case SANDBOX_RESUMING:
                wait_until_it_runs(request);
                return 0;
        case SANDBOX_PAUSING: /* the outcome is one */
                return 0;
        case SANDBOX_PAUSED:
                return err_set(e, CLOCHE_E_STATE, "the sandbox \"%s\" is paused already", s->name);
        case SANDBOX_STOPPING:
        case SANDBOX_DROPPING:
                if (s->has_files_only)
                        return 0; /* the outcome is that of the request under way */
                break;
        case SANDBOX_STOPPED:
                if (s->has_files_only)
                        return err_set(e, CLOCHE_E_STATE, "the sandbox \"%s\" is paused already, with its files only",
                                       s->name);
                break;
        case SANDBOX_STATES:
                break;
        }
        return err_set(e, CLOCHE_E_STATE, "the sandbox \"%s\" is stopped: it has no processes that could be paused",
                       s->name);
}

/* Where its processes come from: recorded when the request begins, told when the sandbox runs. */
static const char of_running[] = "running", of_memory[] = "memory", of_files[] = "files";

int handle_RESUME(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        json_t *object;

        (void)e;
        if (!request->state)
                request->state = (void *)(s->state == SANDBOX_RUNNING ? of_running
                                          : sandbox_is_live(s)        ? of_memory
                                                                      : of_files);
        if (s->state != SANDBOX_RUNNING || !sandbox_startup_is_over(s)) {
                wait_until_it_runs(request);
                sandbox_start(s);
                return 0;
        }
        object = sandbox_json(s);
        json_object_set_new(object, "resumed", json_string(request->state));
        sandbox_request_result(request, object, NULL);
        return 0;
}
