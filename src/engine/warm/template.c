/* The life of a template: started, set up, frozen, lost. Its messages are hostile. Runs in: the
 * engine, on its loop. */
#include "template.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/state.h"
#include "engine/loop/engine.h"
#include "engine/loop/handle.h"
#include "wire/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CRASHES_MAX 3                 /* in a row; then the waiting runs fail */
#define START_PATIENCE_MS 30000       /* to start, to freeze: Node waits without end for a thread that it cannot have */
#define TEMPLATE_FRAME_MAX (4u << 20) /* of messages from a template */
#define PREPARE_ID 1
#define STDERR_BYTES 4096 /* a stack of Python's, whose last line has the reason */

static void advance(struct template *t);

/* -- the list --------------------------------------------------------------------------------------------------- */

void setup_free(struct setup *setup)
{
        if (!setup || --setup->refs > 0)
                return;
        kept_files_done(&setup->files);
        buf_done(&setup->prepare);
        build_done(&setup->build);
        free(setup->key);
        free(setup);
}

/* parent NULL: any base, for a prefix stays on the base that it was made on. */
static int stands_on(const struct template *t, const struct template *parent)
{
        return parent ? t->parent == parent : !t->parent || !t->parent->setup;
}

static struct template *find(struct cloche_engine *engine, const struct runtime *runtime, const struct image *image,
                             int64_t tenant, const struct template *parent, const struct setup *setup)
{
        struct template *t;

        TAILQ_FOREACH (t, &engine->templates, link)
                if (t->runtime == runtime && t->tenant == tenant && image_equals(&t->image, image) && !t->is_retired &&
                    stands_on(t, parent) && !t->setup == !setup && (!setup || strcmp(t->setup->key, setup->key) == 0))
                        return t;
        return NULL;
}

static int add(struct cloche_engine *engine, const struct runtime *runtime, const struct image *image, int64_t tenant,
               struct template **ret, struct cloche_err *e)
{
        struct template *t = calloc(1, sizeof(*t));

        if (!t)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a template");
        t->engine = engine;
        t->runtime = runtime;
        t->image = *image;
        image_hold(&t->image);
        t->tenant = tenant;
        t->channel.fd = t->stderr_fd = -EBADF;
        t->used_ns = clock_now_ns();
        t->turn = ++engine->turns;
        TAILQ_INIT(&t->instances);
        TAILQ_INIT(&t->waiting);
        TAILQ_INIT(&t->active);
        TAILQ_INIT(&t->waits);
        TAILQ_INIT(&t->children);
        translations_init(&t->translations);
        TAILQ_INSERT_TAIL(&engine->templates, t, link);
        *ret = t;
        return 0;
}

int template_base(struct cloche_engine *engine, const struct runtime *runtime, const struct image *image,
                  int64_t tenant, struct template **ret, struct cloche_err *e)
{
        *ret = find(engine, runtime, image, tenant, NULL, NULL);
        return *ret ? 0 : add(engine, runtime, image, tenant, ret, e);
}

/* Until it is retired, lookups find the old base, which is first in the list. */
void template_replace(struct template *base)
{
        struct template *next = TAILQ_NEXT(base, link);

        while (next && (next->runtime != base->runtime || !image_equals(&next->image, &base->image) ||
                        next->tenant != base->tenant || next->setup))
                next = TAILQ_NEXT(next, link);
        if (!next && add(base->engine, base->runtime, &base->image, base->tenant, &next, NULL) == 0)
                template_start(next);
        if (!next || next->state != TEMPLATE_READY)
                return; /* the old one stays in use if the new one cannot be started */
        next->pool_limits = base->pool_limits;
        next->has_pool_limits = base->has_pool_limits;
        translations_move(&base->translations, &next->translations);
        base->is_retired = 1;
        template_drop_instances(base);
        engine_schedule_refill(base->engine);
}

/* Takes the reference to setup. */
static int add_on(struct template *parent, struct setup *setup, struct template **ret, struct cloche_err *e)
{
        int r = add(parent->engine, parent->runtime, &parent->image, parent->tenant, ret, e);

        if (r < 0) {
                setup_free(setup);
                return r;
        }
        (*ret)->setup = setup;
        (*ret)->parent = parent;
        parent->users++;
        return 0;
}

int template_on(struct template *parent, struct setup *setup, struct template **ret, struct cloche_err *e)
{
        *ret = find(parent->engine, parent->runtime, &parent->image, parent->tenant, parent, setup);
        if (!*ret)
                return add_on(parent, setup, ret, e);
        setup_free(setup);
        return 0;
}

int template_prefix(struct cloche_engine *engine, const struct runtime *runtime, const struct image *image,
                    int64_t tenant, struct setup *setup, struct template **ret, struct cloche_err *e)
{
        struct template *base;
        int r;

        *ret = find(engine, runtime, image, tenant, NULL, setup);
        if (*ret) {
                setup_free(setup);
                return 0;
        }
        r = template_base(engine, runtime, image, tenant, &base, e);
        if (r == 0)
                return add_on(base, setup, ret, e);
        setup_free(setup);
        return r;
}

static void stop_timer(struct template *t);

void template_free(struct template *t)
{
        TAILQ_REMOVE(&t->engine->templates, t, link);
        if (t->parent)
                t->parent->users--;
        (void)keeper_detach(t->engine->keeper, t);
        stop_timer(t);
        template_drop_instances(t);
        instance_free(t->own_instance);
        channel_close(&t->channel);
        fd_close(&t->stderr_fd);
        parent_box_unref(t->parent_box);
        json_decref(t->failure);
        translations_done(&t->translations);
        setup_free(t->setup);
        image_drop(&t->image);
        free(t);
}

/* -- states ----------------------------------------------------------------------------------------------------- */

static const unsigned transitions[TEMPLATE_STATES] = {
        [TEMPLATE_IDLE] = STATE_TO(TEMPLATE_STARTING),
        [TEMPLATE_STARTING] = STATE_TO(TEMPLATE_READY) | STATE_TO(TEMPLATE_BROKEN) | STATE_TO(TEMPLATE_IDLE),
        [TEMPLATE_READY] = STATE_TO(TEMPLATE_BROKEN) | STATE_TO(TEMPLATE_IDLE),
        [TEMPLATE_BROKEN] = STATE_TO(TEMPLATE_IDLE),
};

static void set_state(struct template *t, enum template_state state)
{
        STATE_CHECK(transitions, t->state, state);
        t->state = state;
}

/* -- failure ---------------------------------------------------------------------------------------------------- */

static void finish_waits(struct template *t, const struct cloche_err *e)
{
        struct template_wait *wait;

        while ((wait = TAILQ_FIRST(&t->waits))) {
                template_cancel_wait(wait);
                wait->on_ready(wait, e);
        }
}

/* The template ends, in any state. Forked runs go on: they hold the parent box. */
static void take_down(struct template *t)
{
        t->is_frozen = 0;
        (void)keeper_detach(t->engine->keeper, t);
        stop_timer(t);
        template_drop_instances(t);
        instance_free(t->own_instance);
        t->own_instance = NULL;
        channel_close(&t->channel);
        fd_close(&t->stderr_fd);
        if (t->parent_box)
                t->parent_box->is_dead = 1;
        parent_box_unref(t->parent_box);
        t->parent_box = NULL;
        while (!TAILQ_EMPTY(&t->children))
                template_unfollow(TAILQ_FIRST(&t->children));
}

void template_fail_waiting(struct template *t, const struct cloche_err *e)
{
        struct cloche_run *run;

        while ((run = TAILQ_FIRST(&t->waiting))) {
                TAILQ_REMOVE(&t->waiting, run, link);
                t->waiting_count--;
                t->engine->waiting--;
                run->place = RUN_NOWHERE;
                run_failed(run, e);
        }
}

static void advance_children(struct template *t)
{
        struct template *other;

        TAILQ_FOREACH (other, &t->engine->templates, link)
                if (other->parent == t && other->state == TEMPLATE_STARTING && !other->own_instance &&
                    !other->parent_box)
                        advance(other);
}

static int is_waited_for(const struct template *t)
{
        const struct template *other;

        TAILQ_FOREACH (other, &t->engine->templates, link)
                if (other->parent == t && other->state == TEMPLATE_STARTING && !other->parent_box)
                        return 1;
        return 0;
}

/* Mark the template broken: its set-up failed, or the host lacks something. */
static void break_down(struct template *t, const struct cloche_err *e)
{
        take_down(t);
        set_state(t, TEMPLATE_BROKEN);
        t->error = *e;
        template_fail_waiting(t, e);
        finish_waits(t, e);
        advance_children(t);
}

/* The template died after it was ready, or while only our code ran in it. Restart it if runs or
 * others wait for it. */
static void crash(struct template *t, const struct cloche_err *e)
{
        struct cloche_run *run;

        if (++t->crashes >= CRASHES_MAX) {
                break_down(t, e);
                return;
        }
        take_down(t);
        TAILQ_FOREACH (run, &t->active, link)
                run_template_died(run);
        set_state(t, TEMPLATE_IDLE);
        if (t->waiting_count > 0 || is_waited_for(t) || !TAILQ_EMPTY(&t->waits))
                template_start(t);
}

void template_reset(struct template *t)
{
        if (t->state != TEMPLATE_BROKEN)
                return;
        set_state(t, TEMPLATE_IDLE);
        t->crashes = 0;
        json_decref(t->failure);
        t->failure = NULL;
}

/* CLOCHE_E_TEMPLATE: its interpreter ended, which its own code caused. */
int template_failed_by_host(const struct template *t)
{
        return t->state == TEMPLATE_BROKEN && t->error.code != CLOCHE_E_TEMPLATE &&
               cloche_code_fault(t->error.code) == CLOCHE_FAULT_HOST;
}

/* -- messages of a template ------------------------------------------------------------------------------------- */

static void fail_with_answer(struct template *t, const struct rpc_message *m, const struct frame *f)
{
        const json_t *data = json_object_get(m->error, "data");
        const char *type = json_string_value(json_object_get(data, "type")),
                   *code = json_string_value(json_object_get(data, "code"));
        struct cloche_err e = {0};

        t->failure = value_failure_read(json_is_object(data) ? data : m->error, VALUE_FRAME, f->attachments,
                                        f->attachments_size);
        json_object_del(t->failure, "cpuMs");
        json_object_del(t->failure, "heapBytes");
        err_set(&e, CLOCHE_E_PREFIX, "%s%s%.200s",
                type   ? type
                : code ? code
                       : "",
                type || code ? ": " : "", m->error_message);
        break_down(t, &e);
}

static void become_ready(struct template *t)
{
        set_state(t, TEMPLATE_READY);
        fd_close(&t->stderr_fd);
        t->ready_ns = clock_now_ns();
        t->users++; /* do not evict this one, whose channel may be being read */
        templates_evict(t->engine);
        t->users--;
        advance_children(t);
        templates_dispatch(t->engine);
        finish_waits(t, NULL);
}

static void on_usage(void *data, struct keeper_reply *reply)
{
        struct template *t = data;

        t->memory_bytes = reply->error ? 0 : reply->answer->usage.memory_peak_bytes;
        become_ready(t);
}

static void measure(struct template *t)
{
        struct keeper_usage usage;
        struct cloche_err e;

        if (engine_read_usage(t->engine, t->parent_box->box.id, &usage)) {
                t->memory_bytes = usage.memory_peak_bytes;
                become_ready(t);
        } else if (keeper_box_usage_async(t->engine->keeper, t->parent_box->box.id, on_usage, t, &e) < 0) {
                break_down(t, &e);
        }
}

static void on_limit(void *data, struct keeper_reply *reply)
{
        (void)reply; /* after an error there is still room for some hundred children */
        measure(data);
}

static void on_slow_start(uv_timer_t *timer)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_TEMPLATE,
                "the interpreter did not start within %d s: the host may have no process left for its threads",
                START_PATIENCE_MS / 1000);
        break_down(timer->data, &e);
}

static void on_slow_setup(uv_timer_t *timer)
{
        struct template *t = timer->data;
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_PREFIX, "the set-up took more than %llu ms (its limit wallMs)",
                (unsigned long long)t->setup->limits.wall_ms);
        break_down(t, &e);
}

static void on_slow_freeze(uv_timer_t *timer)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_PREFIX, "the set-up's interpreter was not ready to be forked within %d s",
                START_PATIENCE_MS / 1000);
        break_down(timer->data, &e);
}

/* Start the timer, or start it again for the next step. */
static int start_timer(struct template *t, uv_timer_cb on_slow, uint64_t timeout_ms, struct cloche_err *e)
{
        if (!t->timer)
                t->timer = handle_timer(&t->engine->loop, t);
        if (!t->timer)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "watch a template");
        uv_timer_start(t->timer, on_slow, timeout_ms, 0);
        return 0;
}

/* From now on the template only forks. Its children's page tables count to it, so its memory limit
 * is raised. The state stays STARTING until the keeper has answered. */
static void on_frozen(struct template *t)
{
        uint64_t own = t->setup ? t->setup->limits.memory_bytes : TEMPLATE_MEMORY_BYTES;
        const struct keeper_box_limits limits = {.memory_bytes = own + TEMPLATE_CHILDREN_BYTES};
        struct cloche_err e;

        stop_timer(t);
        t->is_frozen = 1;
        if (own == CLOCHE_UNLIMITED)
                measure(t);
        else if (keeper_box_limit_async(t->engine->keeper, t->parent_box->box.id, &limits, on_limit, t, &e) < 0)
                break_down(t, &e);
}

static int on_frozen_answer(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct template *t = data;

        if (t->state != TEMPLATE_STARTING || t->is_frozen)
                return err_set(e, CLOCHE_E_PROTOCOL, "an answer to a request that nobody made");
        if (m->kind == RPC_ERROR)
                fail_with_answer(t, m, f);
        else
                on_frozen(t);
        return 0;
}

static int freeze(struct template *t, struct cloche_err *e)
{
        return channel_request(&t->channel, "freeze", json_object(), -EBADF, on_frozen_answer, e);
}

static int on_answer(struct template *t, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        json_int_t id = json_integer_value(m->id);
        int is_build = id == BUILD_ID && t->setup && t->setup->build.is_requested;

        if (t->state != TEMPLATE_STARTING || t->is_frozen || (id != PREPARE_ID && !is_build))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the template sent an invalid message: an answer without a request");
        if (m->kind == RPC_ERROR) {
                fail_with_answer(t, m, f);
                return 0;
        }
        if (is_build)
                return build_on_answer(t->engine, &t->setup->build, m, f, e);
        /* The set-up has ended, and its clock with it: the time to freeze is ours. */
        return start_timer(t, on_slow_freeze, START_PATIENCE_MS, e) < 0 ? -1 : freeze(t, e);
}

static struct cloche_run *find_run(struct template *t, json_int_t fork)
{
        struct cloche_run *run;

        TAILQ_FOREACH (run, &t->active, link)
                if (run->fork == fork)
                        return run;
        return NULL;
}

static struct instance *find_forked(struct template *t, json_int_t fork)
{
        struct instance *instance;

        TAILQ_FOREACH (instance, &t->instances, link)
                if (instance->is_forked && instance->fork == fork)
                        return instance;
        return NULL;
}

/* A child died before a run used it. A run that waits for it gets another, or the error. */
static void lose_child(struct template *t, json_int_t fork)
{
        struct instance *instance = find_forked(t, fork);
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_TEMPLATE, "the forked interpreter has ended");
        if (instance && instance->state == INSTANCE_READY) {
                template_drop_instance(t, instance);
                templates_dispatch(t->engine);
                engine_schedule_refill(t->engine);
        } else if (instance) {
                template_instance_failed(t, instance, &e);
        }
}

static uint64_t number(const json_t *params, const char *name)
{
        json_int_t value = json_integer_value(json_object_get(params, name));

        return value < 0 ? 0 : (uint64_t)value;
}

static struct template_child *find_child(struct template *t, uint64_t fork)
{
        struct template_child *child;

        TAILQ_FOREACH (child, &t->children, link)
                if (child->fork == fork)
                        return child;
        return NULL;
}

static void on_exited(struct template *t, const json_t *params)
{
        struct cloche_run *run = find_run(t, (json_int_t)number(params, "fork"));
        struct init_answer exit = {
                .op = INIT_EXITED,
                .wait_status = (int32_t)number(params, "status"),
                .user_us = number(params, "userUs"),
                .system_us = number(params, "systemUs"),
                .max_rss_bytes = number(params, "maxRssBytes"),
        };
        struct template_child *child = run ? NULL : find_child(t, number(params, "fork"));

        if (run)
                run_exited(run, &exit);
        else if (child)
                child->exited(child, &exit);
        else
                lose_child(t, (json_int_t)number(params, "fork"));
}

static void on_failed(struct template *t, const json_t *params)
{
        struct cloche_run *run = find_run(t, (json_int_t)number(params, "fork"));
        struct template_child *child = run ? NULL : find_child(t, number(params, "fork"));
        struct instance *instance = run || child ? NULL : find_forked(t, (json_int_t)number(params, "fork"));
        const char *message = json_string_value(json_object_get(params, "message"));
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_TEMPLATE, "fork the template: %.180s", message ? message : "?");
        if (run)
                run_failed(run, &e);
        else if (child)
                child->failed(child, message ? message : "?", (int)number(params, "errno"));
        else if (instance)
                template_instance_failed(t, instance, &e);
}

static int on_message(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct template *t = data;

        if (m->kind == RPC_RESULT || m->kind == RPC_ERROR)
                return on_answer(t, m, f, e);
        if (m->kind == RPC_NOTIFICATION && strcmp(m->method, "exited") == 0)
                on_exited(t, m->params);
        else if (m->kind == RPC_NOTIFICATION && strcmp(m->method, "failed") == 0)
                on_failed(t, m->params);
        else if (m->kind == RPC_REQUEST)
                return err_set(e, CLOCHE_E_PROTOCOL, "the template sent an invalid request: \"%.60s\"", m->method);
        return 0;
}

static void end_setup(struct template *t, const struct keeper_usage *usage)
{
        struct cloche_err e = {0};

        if (usage && usage->oom_kills > 0)
                err_set(&e, CLOCHE_E_PREFIX, "the set-up ran out of memory; the limit is %llu bytes",
                        (unsigned long long)t->setup->limits.memory_bytes);
        else
                err_set(&e, CLOCHE_E_TEMPLATE, "the template's interpreter ended");
        break_down(t, &e);
}

static void on_last_usage(void *data, struct keeper_reply *reply)
{
        end_setup(data, reply->error ? NULL : &reply->answer->usage);
}

/* The interpreter ended in the set-up's code, and would do so again. The box's usage shows whether
 * memory ran out. */
static void on_setup_end(struct template *t)
{
        struct keeper_usage usage;
        uint32_t box = t->parent_box->box.id;

        channel_close(&t->channel);
        if (engine_read_usage(t->engine, box, &usage))
                end_setup(t, &usage);
        else if (keeper_box_usage_async(t->engine->keeper, box, on_last_usage, t, NULL) < 0)
                end_setup(t, NULL);
}

/* The interpreter of a base ended while only our code ran in it. One that lacks a file says so;
 * one that was killed for memory does not. */
static void explain_end(const struct template *t, struct cloche_err *ret)
{
        char text[STDERR_BYTES];
        ssize_t n = pread(t->stderr_fd, text, sizeof(text), 0);

        if (n > 0)
                runtime_explain_end(t->runtime, text, (size_t)n, ret);
}

static void on_end(void *data, const struct cloche_err *e)
{
        struct template *t = data;
        struct cloche_err lost = {0};

        if (!e)
                err_set(&lost, CLOCHE_E_TEMPLATE, "the template's interpreter ended");
        if (!e && t->state == TEMPLATE_STARTING && t->stderr_fd >= 0)
                explain_end(t, &lost);
        if (t->state == TEMPLATE_STARTING && t->setup && !e && t->parent_box)
                on_setup_end(t);
        else if (t->state == TEMPLATE_STARTING && t->setup)
                break_down(t, e ? e : &lost);
        else
                crash(t, e ? e : &lost);
}

/* -- starting --------------------------------------------------------------------------------------------------- */

static void stop_timer(struct template *t)
{
        handle_close(t->timer);
        t->timer = NULL;
}

static struct keeper_box_limits template_limits(const struct template *t)
{
        struct keeper_box_limits limits;

        memset(&limits, 0xff, sizeof(limits)); /* unlimited: runs can lower inherited limits, but not raise them */
        limits.memory_bytes = t->setup ? t->setup->limits.memory_bytes : TEMPLATE_MEMORY_BYTES;
        limits.pids = TEMPLATE_PIDS;
        limits.disk_bytes = t->setup ? t->setup->limits.disk_bytes : TEMPLATE_DISK_BYTES;
        limits.disk_inodes = t->setup ? t->setup->limits.disk_inodes : TEMPLATE_DISK_INODES;
        return limits;
}

static int watch(struct template *t, struct cloche_err *e)
{
        t->channel.on_message = on_message;
        t->channel.on_end = on_end;
        t->channel.data = t;
        t->channel.client.last_id = BUILD_ID; /* ids up to this are for requests that were built elsewhere */
        channel_limit_frames(&t->channel, t->setup && t->setup->build.params ? ARTIFACT_BYTES_MAX + TEMPLATE_FRAME_MAX
                                                                             : TEMPLATE_FRAME_MAX);
        return channel_watch(&t->channel, &t->engine->loop, e);
}

static void on_agent(void *data, const struct init_answer *answer, int fd, const struct cloche_err *error)
{
        struct template *t = data;
        struct cloche_err e = {0}, missing;
        int r;

        fd_close(&fd);
        if (error) {
                break_down(t, runtime_explain(t->runtime, error, &missing));
                return;
        }
        t->parent_box->box.pid = answer->pid;
        r = watch(t, &e);
        if (r == 0)
                r = start_timer(t, on_slow_start, START_PATIENCE_MS, &e);
        if (r == 0)
                r = freeze(t, &e);
        if (r < 0)
                break_down(t, &e);
}

static int spawn_agent(struct template *t, struct cloche_err *e)
{
        static const struct cloche_run_options agent = {.kind = CLOCHE_CALL};
        _cleanup_buf_ struct buf strings = {0};
        struct init_request request = {.op = INIT_SPAWN};
        struct runtime runtime = *t->runtime;
        struct box *box = &t->parent_box->box;
        struct stdio stdio = STDIO_NONE;
        int agent_fd = -EBADF, r;

        runtime.agent = runtime.template;
        r = request_strings(&agent, &t->image, NULL, &runtime, &strings, &request.argc, &request.envc, e);
        if (r == 0)
                r = stdio_open_null(&stdio, e);
        if (r == 0 && (t->stderr_fd = memfd_create("stderr", MFD_CLOEXEC)) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "hold what an interpreter prints");
        if (r == 0)
                r = channel_open(&t->channel, TEMPLATE_FRAME_MAX, &agent_fd, e);
        if (r == 0) {
                int fds[] = {stdio.guest_fds[0], stdio.guest_fds[1], t->stderr_fd, agent_fd, box->fork_fd};

                r = control_spawn(box->control, &request, strings.data, strings.size, fds, 5, on_agent, t, e);
        }
        fd_close(&agent_fd);
        fd_close(&box->fork_fd);
        stdio_close(&stdio);
        return r;
}

static void on_box_made(void *data, struct keeper_reply *reply)
{
        struct template *t = data;
        struct cloche_err e = {0};
        struct box box;
        int r;

        if (reply->error) {
                break_down(t, reply->error);
                return;
        }
        r = box_adopt(&box, t->engine->keeper, reply, &t->engine->loop, &e);
        if (r == 0 && !(t->parent_box = parent_box_new(&box))) {
                (void)box_drop(&box, NULL, NULL);
                r = err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "make a template");
        }
        if (r == 0)
                r = spawn_agent(t, &e);
        if (r < 0)
                break_down(t, &e);
}

/* Make its box, start its program, and wait until it reports that it is frozen. */
static int start_base(struct template *t, struct cloche_err *e)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        int r = spec ? engine_box_spec(t->engine, &t->image, t->runtime, spec, e)
                     : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a template");

        if (r == 0) {
                spec->limits = template_limits(t);
                spec->is_template = 1;
                r = keeper_box_make_async(t->engine->keeper, spec, on_box_made, t, e);
        }
        free(spec);
        return r;
}

/* Turn the instance forked from the base into this template. */
static int start_prefix(struct template *t, struct cloche_err *e)
{
        struct instance *instance = t->own_instance;
        int r;

        t->own_instance = NULL;
        t->parent_box = parent_box_new(&instance->box);
        if (!t->parent_box) {
                instance_free(instance);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a template");
        }
        t->parent_box->parent = parent_box_ref(instance->parent_box);
        t->channel = instance->channel;
        instance->channel = (struct channel){.fd = -EBADF};
        instance_free(instance);
        r = t->setup->build.params ? build_request(t->engine, &t->setup->build, channel_out(&t->channel), e) : 0;
        if (r == 0 && buf_append(channel_out(&t->channel), t->setup->prepare.data, t->setup->prepare.size) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "send the set-up");
        if (r == 0)
                r = watch(t, e);
        if (r == 0 && t->setup->limits.wall_ms != CLOCHE_UNLIMITED)
                r = start_timer(t, on_slow_setup, t->setup->limits.wall_ms, e);
        if (r == 0)
                channel_flush(&t->channel);
        return r;
}

/* Take the next step that the state of its parent permits. */
static void advance(struct template *t)
{
        struct keeper_box_limits limits = template_limits(t);
        struct cloche_err e = {0};
        int r = 0;

        if (!t->parent) {
                r = start_base(t, &e);
        } else if (t->parent->state == TEMPLATE_BROKEN) {
                e = t->parent->error;
                r = -1;
        } else if (t->parent->state == TEMPLATE_READY) {
                r = instance_new(t->parent, &limits, NULL, KEEPER_NO_BOX, 1, &t->own_instance, &e);
        } else {
                template_start(t->parent);
        }
        if (r < 0)
                break_down(t, &e);
}

void template_start(struct template *t)
{
        if (t->state != TEMPLATE_IDLE)
                return;
        set_state(t, TEMPLATE_STARTING);
        if (t->parent)
                template_reset(t->parent);
        advance(t);
}

/* -- users ------------------------------------------------------------------------------------------------------ */

void template_await(struct template *t, struct template_wait *wait)
{
        wait->of = t;
        TAILQ_INSERT_TAIL(&t->waits, wait, link);
        template_reset(t);
        template_start(t);
}

void template_cancel_wait(struct template_wait *wait)
{
        if (wait->of)
                TAILQ_REMOVE(&wait->of->waits, wait, link);
        wait->of = NULL;
}

void template_follow(struct template *t, struct template_child *child, uint32_t fork)
{
        child->of = t;
        child->fork = fork;
        TAILQ_INSERT_TAIL(&t->children, child, link);
}

void template_unfollow(struct template_child *child)
{
        if (child->of)
                TAILQ_REMOVE(&child->of->children, child, link);
        child->of = NULL;
}

/* -- instances -------------------------------------------------------------------------------------------------- */

/* Find the prefix that requested a template instance, which belongs to the base. */
static struct template *find_by_own_instance(struct cloche_engine *engine, const struct instance *instance)
{
        struct template *t;

        TAILQ_FOREACH (t, &engine->templates, link)
                if (t->own_instance == instance)
                        return t;
        return NULL;
}

/* The files of a prefix are seeded for its set-up and for every run. */
struct setup *template_seed(const struct template *of, const struct instance *instance)
{
        const struct template *t = instance->is_template ? find_by_own_instance(of->engine, instance) : of;

        if (!t || !t->setup || t->setup->files.count == 0)
                return NULL;
        t->setup->refs++;
        return t->setup;
}

void template_instance_ready(struct template *of, struct instance *instance)
{
        struct template *t = instance->is_template ? find_by_own_instance(of->engine, instance) : NULL;
        struct cloche_err e = {0};

        if (!instance->is_template) {
                templates_dispatch(of->engine);
                engine_schedule_refill(of->engine);
                return;
        }
        if (start_prefix(t, &e) < 0)
                break_down(t, &e);
}

/* The instance was for one run, whose mounts may be the cause. */
static void fail_mounted(struct template *t, const struct mounts *mounts, const struct cloche_err *e)
{
        struct cloche_run *run;

        TAILQ_FOREACH (run, &t->waiting, link)
                if (run->mounts == mounts) {
                        TAILQ_REMOVE(&t->waiting, run, link);
                        t->waiting_count--;
                        t->engine->waiting--;
                        run->place = RUN_NOWHERE;
                        run_failed(run, mounts->error.code ? &mounts->error : e);
                        break;
                }
        templates_dispatch(t->engine);
}

void template_instance_failed(struct template *of, struct instance *instance, const struct cloche_err *e)
{
        struct template *t = instance->is_template ? find_by_own_instance(of->engine, instance) : of;
        int was_used = instance->is_used;

        if (instance->is_template) {
                t->own_instance = NULL;
                instance_free(instance);
                break_down(t, e);
                return;
        }
        template_take_instance(t, instance);
        if (instance->mounts) {
                fail_mounted(t, instance->mounts, e);
                instance_free(instance);
                return;
        }
        instance_free(instance);
        if (was_used) {
                templates_dispatch(t->engine);
                engine_schedule_refill(t->engine);
        } else if (!template_has_pending_instance(t)) {
                /* Fail the waiting runs if no instance is being made: instances with
                 * other limits do not fit them. */
                template_fail_waiting(t, e);
        }
}
