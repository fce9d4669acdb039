/* The end of a sandbox's time. Clocks of the host may be set while it runs, so a moment is
 * monotonic; the state directory, which outlives boots, has it in real time too, for another
 * boot. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "deadline.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "pause.h"
#include "sandbox/context/context.h"

#include <fcntl.h>
#include <string.h>

#define RETRY_NS UINT64_C(10000000000)       /* after a pause that failed */
#define LIFETIME_MS_MAX INT64_C(31536000000) /* a year, as the command line */

static void stop(struct sandbox *s)
{
        sandbox_pause_forget(s);
        sandbox_stop(s, 1);
}

static void pause_it(struct sandbox *s)
{
        s->deadline.retry_ns = clock_now_ns() + RETRY_NS;
        sandbox_pause(s, 1);
}

static const struct {
        const char *name;
        void (*act)(struct sandbox *s);
        int is_for_idle; /* may be idleAction */
} actions[SANDBOX_ACTIONS] = {
        [SANDBOX_ACTION_STOP] = {"stop", stop, 1},
        [SANDBOX_ACTION_PAUSE] = {"pause", pause_it, 1},
        [SANDBOX_ACTION_DELETE] = {"delete", sandbox_delete, 0},
};

/* SANDBOX_ACTIONS: there is none of that name. */
static enum sandbox_action find_action(const char *name)
{
        int action = 0;

        while (action < SANDBOX_ACTIONS && (!name || strcmp(actions[action].name, name) != 0))
                action++;
        return (enum sandbox_action)action;
}

/* A pause that fails again and again would be no end. */
static int check_host(const struct keeper *keeper, struct cloche_err *e)
{
        const struct keeper_guard *freezer = keeper ? keeper_guard(keeper, CLOCHE_GUARD_FREEZER) : NULL;

        return !freezer || freezer->state == CLOCHE_GUARD_ENFORCED
                       ? 0
                       : err_set(e, CLOCHE_E_GUARD_MISSING,
                                 "this host cannot pause a sandbox (guard freezer: %s): use stop", freezer->reason);
}

int sandbox_deadline_check(const struct keeper *keeper, const struct deadline *before, const json_t *params,
                           struct cloche_err *e)
{
        const char *idle = json_string_value(json_object_get(params, "idleAction")),
                   *end = json_string_value(json_object_get(params, "endAction"));
        enum sandbox_action idle_action = idle ? find_action(idle) : SANDBOX_ACTION_STOP,
                            end_action = end ? find_action(end) : SANDBOX_ACTION_STOP;

        if (idle_action == SANDBOX_ACTIONS || !actions[idle_action].is_for_idle)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "idleAction \"%.40s\": expected stop or pause", idle);
        if (end_action == SANDBOX_ACTIONS)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "endAction \"%.40s\": expected stop, pause or delete",
                               end);
        if (json_integer_value(json_object_get(params, "lifetimeMs")) > LIFETIME_MS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "lifetimeMs must be an integer from 0 to %lld",
                               (long long)LIFETIME_MS_MAX);
        if (before && end && !json_integer_value(json_object_get(params, "lifetimeMs")) &&
            (!before->end_ns || json_object_get(params, "lifetimeMs")))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a sandbox without an end has no endAction: give it a lifetimeMs");
        return idle_action == SANDBOX_ACTION_PAUSE || end_action == SANDBOX_ACTION_PAUSE ? check_host(keeper, e) : 0;
}

void sandbox_deadline_take(struct deadline *deadline, const json_t *params)
{
        const char *idle = json_string_value(json_object_get(params, "idleAction")),
                   *end = json_string_value(json_object_get(params, "endAction"));
        const json_t *lifetime = json_object_get(params, "lifetimeMs");

        if (idle)
                deadline->idle_action = find_action(idle);
        if (end)
                deadline->end_action = find_action(end);
        if (lifetime)
                deadline->end_ns = json_integer_value(lifetime)
                                           ? clock_now_ns() + (uint64_t)json_integer_value(lifetime) * 1000000
                                           : 0;
}

/* In real time. */
static uint64_t end_ms(const struct deadline *deadline)
{
        uint64_t now_ns = clock_now_ns(), now_ms = clock_real_ms();

        return deadline->end_ns >= now_ns ? now_ms + (deadline->end_ns - now_ns) / 1000000
                                          : now_ms - (now_ns - deadline->end_ns) / 1000000;
}

static void put_actions(const struct deadline *deadline, json_t *object)
{
        json_object_set_new(object, "idleAction", json_string(actions[deadline->idle_action].name));
        json_object_set_new(object, "endAction", json_string(actions[deadline->end_action].name));
}

void sandbox_deadline_describe(const struct deadline *deadline, json_t *object)
{
        put_actions(deadline, object);
        if (deadline->end_ns)
                json_object_set_new(object, "endsAt", sandbox_time_json(end_ms(deadline)));
}

void sandbox_deadline_open(struct sandboxes *all)
{
        _cleanup_fd_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, all->boot_id, sizeof(all->boot_id) - 1);

        all->boot_id[n > 0 ? strcspn(all->boot_id, "\n") : 0] = '\0'; /* unknown: real time decides */
}

void sandbox_deadline_write(const struct sandbox *s, json_t *object)
{
        const struct deadline *deadline = &s->deadline;

        put_actions(deadline, object);
        if (!deadline->end_ns)
                return;
        json_object_set_new(object, "endsMs", json_integer((json_int_t)end_ms(deadline)));
        json_object_set_new(object, "endsNs", json_integer((json_int_t)deadline->end_ns));
        json_object_set_new(object, "bootId", json_string(s->all->boot_id));
}

/* Monotonic time is the same for all processes of a boot, and nobody sets it. */
static int is_of_this_boot(const struct sandboxes *all, const json_t *object)
{
        const char *boot_id = json_string_value(json_object_get(object, "bootId"));

        return boot_id && *boot_id && strcmp(boot_id, all->boot_id) == 0;
}

void sandbox_deadline_read(struct sandbox *s, const json_t *object)
{
        struct deadline *deadline = &s->deadline;
        const json_t *ends = json_object_get(object, "endsMs");
        uint64_t now_ns = clock_now_ns(), now_ms = clock_real_ms(), ends_ms;

        if (sandbox_deadline_check(NULL, NULL, object, NULL) == 0)
                sandbox_deadline_take(deadline, object);
        if (!ends)
                return;
        ends_ms = (uint64_t)json_integer_value(ends);
        if (is_of_this_boot(s->all, object))
                deadline->end_ns = (uint64_t)json_integer_value(json_object_get(object, "endsNs"));
        else
                deadline->end_ns = ends_ms > now_ms ? now_ns + (ends_ms - now_ms) * 1000000 : now_ns; /* passed: now */
}

void sandbox_deadline_settle(struct sandbox *s)
{
        struct deadline *d = &s->deadline;

        if (d->end_ns && d->end_action != SANDBOX_ACTION_DELETE && clock_now_ns() >= d->end_ns)
                d->end_ns = 0;
}

/* Programs that run no more need no stop and no pause. */
static int is_for_state(const struct sandbox *s, enum sandbox_action action)
{
        return action == SANDBOX_ACTION_DELETE || s->state == SANDBOX_RUNNING;
}

void sandbox_deadline_tidy(struct sandbox *s, uint64_t now_ns)
{
        struct deadline *d = &s->deadline;
        int is_over = d->end_ns && now_ns >= d->end_ns;

        if (s->is_pooled || s->is_deleted || now_ns < d->retry_ns)
                return;
        if (is_over && is_for_state(s, d->end_action)) {
                s->cause = "at the end of its lifetime";
                actions[d->end_action].act(s);
        } else if (is_over && (s->state == SANDBOX_PAUSED || s->state == SANDBOX_STOPPED)) {
                sandbox_deadline_settle(s); /* it was so before */
        } else if (s->state == SANDBOX_RUNNING && s->idle_ms && !sandbox_is_busy(s) &&
                   now_ns - s->used_ns > s->idle_ms * 1000000 && now_ns >= s->save_retry_ns &&
                   !contexts_have_forks(s)) {
                s->cause = "as it was idle";
                actions[d->idle_action].act(s);
        }
}
