/* Instances: a box on a template's, seeded, with a child forked into it. Runs in: the engine, on
 * its loop. */
#include "instance.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "base/state.h"
#include "engine/loop/engine.h"
#include "engine/loop/handle.h"
#include "template.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* -- parent boxes ----------------------------------------------------------------------------------------------- */

/* Number of live boxes on a context, which can itself be gone before them. Reference-counted. */
struct tally {
        unsigned refs, boxes;
};

static void tally_unref(struct tally *tally)
{
        if (tally && --tally->refs == 0)
                free(tally);
}

static void on_box_dropped(void *data, struct keeper_reply *reply)
{
        struct tally *tally = data;

        (void)reply; /* if the keeper is gone, so is the box */
        tally->boxes--;
        tally_unref(tally);
}

/* Takes the reference to tally; NULL: no tally counts the box. */
static void drop_box(struct box *box, struct tally *tally)
{
        if (!box_drop(box, tally ? on_box_dropped : NULL, tally) && tally)
                on_box_dropped(tally, NULL);
}

struct parent_box *parent_box_new(struct box *box)
{
        struct parent_box *parent_box = calloc(1, sizeof(*parent_box));

        if (!parent_box)
                return NULL;
        parent_box->refs = 1;
        parent_box->box = box_move(box);
        return parent_box;
}

struct parent_box *parent_box_ref(struct parent_box *parent_box)
{
        parent_box->refs++;
        return parent_box;
}

void parent_box_unref(struct parent_box *parent_box)
{
        if (!parent_box || --parent_box->refs > 0)
                return;
        drop_box(&parent_box->box, parent_box->counted_in);
        tally_unref(parent_box->children);
        parent_box_unref(parent_box->parent);
        free(parent_box);
}

/* -- states ----------------------------------------------------------------------------------------------------- */

static const unsigned transitions[INSTANCE_STATES] = {
        [INSTANCE_MAKING] = STATE_TO(INSTANCE_SEEDING) | STATE_TO(INSTANCE_MADE) | STATE_TO(INSTANCE_READY),
        [INSTANCE_SEEDING] = STATE_TO(INSTANCE_SEEDING) | STATE_TO(INSTANCE_MADE) | STATE_TO(INSTANCE_MAKING) |
                             STATE_TO(INSTANCE_READY),
        [INSTANCE_MADE] = STATE_TO(INSTANCE_MAKING),
        [INSTANCE_READY] = STATE_TO(INSTANCE_READY), /* the fork failed after all */
};

static void set_state(struct instance *instance, enum instance_state state)
{
        STATE_CHECK(transitions, instance->state, state);
        instance->state = state;
}

/* -- ending ----------------------------------------------------------------------------------------------------- */

/* Kill its programs. The box has to stay, for the kernel would kill the boxes on it. The answer is
 * not read. */
static void end_programs(struct parent_box *parent_box)
{
        const struct init_request request = {.op = INIT_KILL,
                                             .pid = 1,
                                             .signal = SIGKILL,
                                             .flags = INIT_KILL_TREE | INIT_KILL_BELOW};

        parent_box->is_dead = 1;
        (void)fd_send(parent_box->box.control_fd, &request, sizeof(request), NULL, 0);
}

static void discard(struct instance *instance)
{
        template_unfollow(&instance->child);
        seeding_stop(&instance->seeding);
        setup_free(instance->seed);
        channel_close(&instance->channel);
        stdio_close(&instance->stdio);
        if (instance->as_parent && instance->as_parent->refs > 1)
                end_programs(instance->as_parent);
        parent_box_unref(instance->as_parent);
        drop_box(&instance->box, instance->counted_in);
        parent_box_unref(instance->parent_box);
        mounts_unref(instance->mounts);
        free(instance);
}

void instance_free(struct instance *instance)
{
        if (!instance)
                return;
        if (instance->state == INSTANCE_MAKING)
                instance->is_detached = 1; /* discarded at the keeper's answer */
        else
                discard(instance);
}

/* -- making ----------------------------------------------------------------------------------------------------- */

static int is_of_context(const struct instance *instance)
{
        return instance->shared_with != KEEPER_NO_BOX || !instance->of;
}

static void fail(struct instance *instance, const struct cloche_err *e)
{
        set_state(instance, INSTANCE_READY);
        if (instance->is_detached)
                discard(instance);
        else if (is_of_context(instance))
                instance->on_ready(instance, e);
        else
                template_instance_failed(instance->of, instance, e);
}

static void become_ready(struct instance *instance)
{
        set_state(instance, INSTANCE_READY);
        if (is_of_context(instance))
                instance->on_ready(instance, NULL);
        else
                template_instance_ready(instance->of, instance);
}

static void on_usage(void *data, struct keeper_reply *reply)
{
        struct instance *instance = data;

        if (instance->is_detached) {
                fail(instance, NULL);
                return;
        }
        if (!reply->error) /* else the keeper is gone, and the run fails */
                instance->before = reply->answer->usage;
        become_ready(instance);
}

static void on_forked(void *data, struct keeper_reply *reply)
{
        struct instance *instance = data;

        if (reply->error || instance->is_detached) {
                fail(instance, reply->error);
                return;
        }
        if (instance->fork_error.code) {
                struct cloche_err e = instance->fork_error; /* the instance may be freed before e is read */

                fail(instance, &e);
                return;
        }
        if (instance->of)
                instance->of->forks++;
        if (!is_of_context(instance) && !engine_measure_box(instance->engine, &instance->box, &instance->before) &&
            keeper_box_usage_async(instance->engine->keeper, instance->box.id, on_usage, instance, NULL) == 0)
                return;
        become_ready(instance);
}

/* A run that takes the instance finds its handles on the loop: that is no part of its time. */
static int register_handles(struct instance *instance, struct cloche_err *e)
{
        int r = stdio_watch(&instance->stdio, &instance->engine->loop, e);

        return r < 0 ? r : channel_register(&instance->channel, &instance->engine->loop, e);
}

static struct instance *instance_of(struct template_child *child)
{
        return (struct instance *)((char *)child - offsetof(struct instance, child));
}

static void on_child_failed(struct template_child *child, const char *message, int code)
{
        template_unfollow(child);
        instance_fork_failed(instance_of(child), message, code);
}

static void on_child_exited(struct template_child *child, const struct init_answer *exit)
{
        struct instance *instance = instance_of(child);

        template_unfollow(child);
        if (instance->state == INSTANCE_READY && instance->on_exit)
                instance->on_exit(instance, exit);
        else
                instance_fork_failed(instance, "the forked interpreter has ended", 0);
}

/* The template reports a failed fork or an exit as soon as it was asked, also before the keeper
 * answers. */
static void follow(struct instance *instance)
{
        instance->child.failed = on_child_failed;
        instance->child.exited = on_child_exited;
        template_follow(instance->of, &instance->child, instance->fork);
}

/* The request to the child may be written before the child exists: it waits in the socket. */
static int request_fork(struct instance *instance, struct cloche_err *e)
{
        int fds[KEEPER_FORK_FDS], agent_fd = -EBADF;
        int is_for_run = !instance->is_template && !is_of_context(instance);
        int r = instance->is_template && !is_of_context(instance) ? stdio_open_null(&instance->stdio, e)
                                                                  : stdio_open(&instance->stdio, e);

        if (r == 0)
                r = channel_open(&instance->channel, FRAME_BYTES_MAX, &agent_fd, e);
        if (r == 0 && is_for_run)
                r = register_handles(instance, e);
        for (int i = 0; r == 0 && i < 3; i++)
                fds[i] = instance->stdio.guest_fds[i];
        fds[3] = agent_fd;
        fds[4] = instance->box.fork_fd;
        if (r == 0)
                r = keeper_box_fork_async(instance->box.keeper, instance->box.id, fds, instance->is_template ? 5 : 4,
                                          on_forked, instance, &instance->fork, e);
        instance->is_forked = r == 0;
        if (r == 0 && instance->of && is_of_context(instance))
                follow(instance);
        fd_close(&agent_fd);
        fd_close(&instance->box.fork_fd);
        stdio_close_guest(&instance->stdio);
        return r;
}

static void on_started(void *data, const struct init_answer *answer, int fd, const struct cloche_err *error)
{
        struct instance *instance = data;
        struct cloche_err missing;

        fd_close(&fd);
        if (error) {
                missing = *runtime_explain(instance->runtime, error, &missing);
                fail(instance, &missing);
                return;
        }
        instance->box.pid = answer->pid;
        become_ready(instance);
}

static int request_start(struct instance *instance, struct cloche_err *e)
{
        static const struct cloche_run_options agent = {.kind = CLOCHE_CALL};
        _cleanup_buf_ struct buf strings = {0};
        struct init_request request = {.op = INIT_SPAWN};
        int agent_fd = -EBADF, r = request_strings(&agent, instance->image, NULL, instance->runtime, &strings,
                                                   &request.argc, &request.envc, e);

        if (r == 0)
                r = stdio_open(&instance->stdio, e);
        if (r == 0)
                r = channel_open(&instance->channel, FRAME_BYTES_MAX, &agent_fd, e);
        if (r == 0) {
                const int *stdio = instance->stdio.guest_fds;
                int fds[] = {stdio[0], stdio[1], stdio[2], agent_fd};

                r = control_spawn(instance->box.control, &request, strings.data, strings.size, fds, 4, on_started,
                                  instance, e);
        }
        fd_close(&agent_fd);
        stdio_close_guest(&instance->stdio);
        return r;
}

static void fork_or_hold(struct instance *instance)
{
        int is_pooled = !instance->is_template && !is_of_context(instance);
        struct cloche_err e = {0};

        if (instance->runtime) {
                if (request_start(instance, &e) < 0)
                        fail(instance, &e);
                return;
        }
        if (is_pooled ? !template_wants_fork(instance->of, instance) : instance->holds_fork) {
                set_state(instance, INSTANCE_MADE);
                if (!is_pooled)
                        instance->on_ready(instance, NULL);
                return;
        }
        set_state(instance, INSTANCE_MAKING);
        if (request_fork(instance, &e) < 0)
                fail(instance, &e);
}

static void on_listed(void *data, const struct init_answer *answer, int fd, const struct cloche_err *error)
{
        struct instance *instance = data;
        struct cloche_err e;

        (void)answer;
        instance->box.files_fd = fd;
        if (!error && fd >= 0) {
                fork_or_hold(instance);
                return;
        }
        if (error)
                e = *error;
        else
                err_set(&e, CLOCHE_E_PROTOCOL, "the box's init sent no list of files");
        fail(instance, &e);
}

/* List the set-up's files in the recorded box: runs compare their files with these. */
static void list_files(struct instance *instance)
{
        struct init_request request = {.op = INIT_LIST};
        struct cloche_err e = {0};

        if (!instance->has_files)
                fork_or_hold(instance);
        else if (control_request_path(instance->box.control, &request, FILES_ROOT, NULL, 0, on_listed, instance, &e) <
                 0)
                fail(instance, &e);
}

/* Init has recorded the box's state, or checked it after a run; or the box has joined the
 * sandbox's. */
static void on_init_answer(void *data, const struct init_answer *answer, int fd, const struct cloche_err *error)
{
        struct instance *instance = data;
        struct cloche_err e;

        fd_close(&fd);
        if (error) {
                e = *error;
                fail(instance, &e);
        } else if (answer->op == INIT_CHECK_CLEAN && answer->is_clean != 1) {
                err_set(&e, CLOCHE_E_STATE, "the run left something in its box");
                fail(instance, &e);
        } else if (answer->op == INIT_RECORD_STATE) {
                instance->box.is_recorded = 1;
                list_files(instance);
        } else {
                fork_or_hold(instance);
        }
}

/* Fork the child only after the answer: changes it makes before would count as part of the clean
 * state. */
static int request_init(struct instance *instance, const struct init_request *request, struct cloche_err *e)
{
        set_state(instance, INSTANCE_SEEDING);
        return control_request(instance->box.control, request, NULL, 0, on_init_answer, instance, e);
}

/* Init of a box that shares, or has mounts in others, or of files, answers only when the box is
 * ready (proto/keeper.h), so send the cheapest request, a signal to an unused pid. A box with
 * mounts is not reused, so its state is not recorded. */
static void go_on(struct instance *instance)
{
        static const struct init_request record = {.op = INIT_RECORD_STATE},
                                         nothing = {.op = INIT_KILL, .pid = INT32_MAX, .signal = SIGCONT};
        int is_awaited = instance->shared_with != KEEPER_NO_BOX || mounts_are_awaited(instance->mounts);
        struct cloche_err e = {0};

        if (!is_awaited && (instance->is_template || instance->mounts || is_of_context(instance)))
                fork_or_hold(instance);
        else if (request_init(instance, is_awaited ? &nothing : &record, &e) < 0)
                fail(instance, &e);
}

static void on_seeded(void *data, const struct cloche_err *error)
{
        struct instance *instance = data;
        struct cloche_err e = error ? *error : (struct cloche_err){0};

        setup_free(instance->seed);
        instance->seed = NULL;
        if (error)
                fail(instance, &e);
        else
                go_on(instance);
}

/* Place the files of the set-up. */
static void seed(struct instance *instance)
{
        instance->seed = is_of_context(instance)
                                 ? NULL
                                 : template_seed(instance->of, instance); /* a context's owner seeds its files */
        set_state(instance, INSTANCE_SEEDING);
        instance->has_files = instance->seed != NULL;
        if (instance->seed)
                seeding_start(&instance->seeding, &instance->box, instance->mounts, &instance->seed->files, on_seeded,
                              instance);
        else
                go_on(instance);
}

static void on_made(void *data, struct keeper_reply *reply)
{
        struct instance *instance = data;
        struct cloche_err e = {0};
        int r = reply->error ? -1
                             : box_adopt(&instance->box, instance->engine->keeper, reply, &instance->engine->loop, &e);

        if (reply->error)
                e = *reply->error;
        if (r == 0 && instance->is_detached)
                r = -1;
        if (r == 0 && instance->mounts)
                r = mounts_serve(instance->mounts, instance->box.keeper, instance->box.id, &e);
        if (r < 0)
                fail(instance, &e);
        else
                seed(instance);
}

static struct instance *instance_alloc(struct cloche_engine *engine, struct template *of,
                                       const struct keeper_box_limits *limits, struct parent_box *parent_box)
{
        struct instance *instance = calloc(1, sizeof(*instance));

        if (!instance)
                return NULL;
        instance->engine = engine;
        instance->of = of;
        instance->limits = *limits;
        instance->parent_box = parent_box;
        instance->shared_with = KEEPER_NO_BOX;
        instance->box = BOX_NONE;
        instance->channel.fd = -EBADF;
        instance->stdio = STDIO_NONE;
        return instance;
}

int instance_reuse(struct template *of, const struct keeper_box_limits *limits, struct box *box,
                   struct parent_box *parent_box, struct instance **ret, struct cloche_err *e)
{
        static const struct init_request check = {.op = INIT_CHECK_CLEAN};
        struct instance *instance = instance_alloc(of->engine, of, limits, parent_box);
        int r;

        if (!instance) {
                (void)box_drop(box, NULL, NULL);
                parent_box_unref(parent_box);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "use a box again");
        }
        instance->box = box_move(box);
        instance->is_used = 1;
        r = box_return_control(&instance->box, &of->engine->loop, e);
        if (r == 0 && instance->box.check == BOX_CLEAN)
                set_state(instance, INSTANCE_MADE); /* nothing runs in it since */
        else if (r == 0)
                r = request_init(instance, &check, e);
        instance->box.check = BOX_UNCHECKED;
        if (r < 0) {
                discard(instance);
                return r;
        }
        *ret = instance;
        return 0;
}

/* Request a box on the parent box, or beside a sandbox's, from the keeper. A failure leaves the
 * instance unchanged. */
static int begin(struct instance *instance, struct cloche_err *e)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        int r = spec ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "prepare a box");

        if (r == 0) {
                spec->limits = instance->limits;
                spec->parent = instance->parent_box ? instance->parent_box->box.id : KEEPER_NO_BOX;
                spec->shared_with = instance->shared_with;
                spec->is_template = (uint32_t)instance->is_template;
                spec->optional_guards = instance->engine->optional_guards;
                if (instance->mounts)
                        mounts_describe(instance->mounts, spec);
                if (instance->runtime) /* it has room: its templates have the same */
                        snprintf(spec->runtime_dir, sizeof(spec->runtime_dir), "%s", instance->runtime->directory);
                r = keeper_box_make_async(instance->engine->keeper, spec, on_made, instance, e);
        }
        free(spec);
        return r;
}

int instance_new(struct template *of, const struct keeper_box_limits *limits, struct mounts *mounts,
                 uint32_t shared_with, int is_template, struct instance **ret, struct cloche_err *e)
{
        struct instance *instance;
        int r;

        if (shared_with != KEEPER_NO_BOX && mounts)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a box with mounts does not share a sandbox's files");
        instance = instance_alloc(of->engine, of, limits, of->parent_box);
        if (!instance)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "prepare a box");
        instance->is_template = is_template;
        instance->shared_with = shared_with;
        instance->mounts = mounts;
        r = begin(instance, e);
        if (r < 0) {
                free(instance);
                return r;
        }
        parent_box_ref(of->parent_box);
        if (mounts)
                mounts_ref(mounts);
        *ret = instance;
        return 0;
}

/* -- starting the interpreter of a context cold ------------------------------------------------------------------ */

int instance_start_cold(struct cloche_engine *engine, const struct instance_cold_order *order, struct instance **ret,
                        struct cloche_err *e)
{
        struct instance *instance = instance_alloc(engine, NULL, &order->limits, NULL);
        int r;

        if (!instance)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "prepare a box");
        instance->runtime = order->runtime;
        instance->image = order->image;
        instance->shared_with = order->shared_with;
        instance->on_ready = order->on_ready;
        instance->owner = order->owner;
        r = begin(instance, e);
        if (r < 0)
                free(instance);
        else
                *ret = instance;
        return r;
}

/* -- forking a context ------------------------------------------------------------------------------------------ */

struct parent_box *instance_as_parent(struct instance *instance, struct cloche_err *e)
{
        if (!instance->is_template || instance->state != INSTANCE_READY) {
                err_set(e, CLOCHE_E_STATE, "the context was not made to be forked");
                return NULL;
        }
        if (instance->as_parent)
                return instance->as_parent;
        instance->as_parent = parent_box_new(&instance->box);
        if (!instance->as_parent) {
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "prepare to fork a context");
                return NULL;
        }
        instance->as_parent->parent = parent_box_ref(instance->parent_box);
        instance->as_parent->counted_in = instance->counted_in;
        instance->counted_in = NULL;
        return instance->as_parent;
}

/* Count a new box on the parent box. */
static int count_in(struct parent_box *parent_box, struct tally **ret, struct cloche_err *e)
{
        if (!parent_box->children && (parent_box->children = calloc(1, sizeof(*parent_box->children))))
                parent_box->children->refs = 1;
        if (!parent_box->children)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "count the forks of a context");
        if (parent_box->children->boxes >= INSTANCE_FORKS_MAX)
                return err_set(e, CLOCHE_E_STATE,
                               "%u forks of the context have not ended yet, or were not released by its interpreter; "
                               "at most %d can be",
                               parent_box->children->boxes, INSTANCE_FORKS_MAX);
        parent_box->children->boxes++;
        parent_box->children->refs++;
        *ret = parent_box->children;
        return 0;
}

int instance_fork(struct cloche_engine *engine, struct parent_box *parent_box, const struct instance_fork_order *order,
                  struct instance **ret, struct cloche_err *e)
{
        struct instance *instance = instance_alloc(engine, NULL, &order->limits, parent_box);
        int r = instance ? count_in(parent_box, &instance->counted_in, e)
                         : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "fork a context");

        if (r < 0) {
                free(instance);
                return r;
        }
        instance->shared_with = order->shared_with;
        instance->is_template = order->is_template;
        instance->holds_fork = order->holds_fork;
        instance->on_ready = order->on_ready;
        instance->owner = order->owner;
        r = begin(instance, e);
        if (r < 0) {
                on_box_dropped(instance->counted_in, NULL);
                free(instance);
                return r;
        }
        parent_box_ref(parent_box);
        *ret = instance;
        return 0;
}

int instance_fork_resume(struct instance *instance, struct cloche_err *e)
{
        int r;

        set_state(instance, INSTANCE_MAKING);
        r = request_fork(instance, e);
        if (r < 0)
                set_state(instance, INSTANCE_READY);
        return r;
}

void instance_fork_failed(struct instance *instance, const char *message, int code)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_TEMPLATE, "fork the context: %.180s", message);
        e.os_errno = code;
        if (instance->state == INSTANCE_READY)
                fail(instance, &e);
        else
                instance->fork_error = e;
}
