/* Forks of live contexts. A checkpoint is a fork that stays stopped. The context gets the request
 * `branch` and stops; then boxes are made beneath its own, files are copied into them, and it is
 * forked into each; the children get the request `enter` and live. A rollback does the same with a
 * checkpoint. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "context.h"
#include "sandbox/core/copy.h"

#include "base/err.h"
#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORKS_MAX 100
#define CHECKPOINTS_MAX 64

/* A context that is being made. */
struct child {
        struct context_fork *fork;
        struct context *to;
        struct instance *instance; /* moved to the context later */
        struct copy *copy;
        int is_made, is_filled, is_forked, is_open;
};

struct context_fork {
        struct context_task task; /* `branch`, for from */
        struct sandbox_request *request;
        struct context *from;              /* the context, or the checkpoint of a rollback; NULL after its release */
        struct context_branch_owner owner; /* of a BRANCH, which has no request */
        enum { FORKS, CHECKPOINT, ROLLBACK, BRANCH } kind;
        int needs_files; /* pack the workspace into files_fd */
        int files_fd;    /* in a rollback, that of the checkpoint */
        struct copy *packing;
        int is_packing; /* a BRANCH: its owner packs the files that the memory of the context belongs to */
        int may_enter;  /* a BRANCH: the files are in place */
        int is_prepared;
        unsigned ordered, making; /* numbers of boxes */
        unsigned count;
        struct child children[];
};

/* -- the end ---------------------------------------------------------------------------------------------------- */

static void prewarm_next_fork(struct context *from);

/* Release the context: it continues with its queue. */
static void resume_origin(struct context_fork *fork)
{
        struct context *from = fork->from;

        fork->from = NULL;
        from->fork = NULL;
        from->is_held = 0;
        if (from->state == CONTEXT_LIVE) {
                if (fork->kind != BRANCH)
                        prewarm_next_fork(from);
                context_tasks_begin(from);
        }
}

static void fork_free(struct context_fork *fork)
{
        sandbox_copy_cancel(fork->packing);
        for (unsigned i = 0; i < fork->count; i++) {
                sandbox_copy_cancel(fork->children[i].copy);
                instance_free(fork->children[i].instance);
                if (fork->children[i].to)
                        fork->children[i].to->fork = NULL;
        }
        if (fork->kind != ROLLBACK)
                fd_close(&fork->files_fd);
        free(fork);
}

/* Undo it. The original stays as it was, except in a rollback: the context's old interpreter has
 * ended already. */
static void cancel_fork(struct context_fork *fork, const struct cloche_err *e)
{
        struct sandbox_request *request = fork->request;
        struct context_branch_owner owner = fork->owner;
        struct context *to[FORKS_MAX];
        unsigned count = fork->count;
        int rolls_back = fork->kind == ROLLBACK;
        struct cloche_err copy = *e;

        for (unsigned i = 0; i < count; i++)
                to[i] = fork->children[i].to;
        if (fork->from && fork->is_prepared)
                resume_origin(fork);
        else if (fork->from)
                fork->from->fork = NULL;
        fork_free(fork);
        for (unsigned i = 0; i < count; i++) {
                if (!to[i])
                        continue;
                if (rolls_back && to[i]->state != CONTEXT_ENDED)
                        context_end(to[i], &copy);
                else if (!rolls_back)
                        context_schedule_free(to[i]);
        }
        if (request)
                sandbox_request_fail(request, &copy, NULL);
        if (owner.done)
                owner.done(owner.data, &copy);
}

/* One of the new contexts ends before the agent of the original has answered `branch`: the others
 * are dropped too. */
static void drop_child(struct context_fork *fork, struct context *c, const struct cloche_err *e)
{
        struct sandbox_request *request = fork->request;

        for (unsigned i = 0; i < fork->count; i++)
                if (fork->children[i].to == c)
                        fork->children[i].to = NULL;
        c->fork = NULL;
        fork->request = NULL;
        if (!fork->task.is_detached)
                context_task_detach(&fork->task);
        if (request)
                sandbox_request_fail(request, e, NULL);
}

void context_fork_abort(struct context_fork *fork, struct context *c, const struct cloche_err *e)
{
        /* If the original ends earlier, its task fails and reports that. */
        if (fork->is_prepared)
                cancel_fork(fork, e);
        else if (c != fork->from)
                drop_child(fork, c, e);
}

static json_t *checkpoint_json(const struct context *k)
{
        return json_pack("{s:s, s:o, s:I, s:b}", "checkpoint", k->name, "createdAt", sandbox_time_json(k->created_ms),
                         "executionCount", (json_int_t)k->count, "files", k->files_fd >= 0);
}

static json_t *answer_of(const struct context_fork *fork)
{
        json_t *list;

        if (fork->kind == ROLLBACK)
                return context_json(fork->children[0].to);
        if (fork->kind == CHECKPOINT)
                return checkpoint_json(fork->children[0].to);
        list = json_array();
        for (unsigned i = 0; i < fork->count; i++)
                json_array_append_new(list, context_json(fork->children[i].to));
        return json_pack("{s:o}", "contexts", list);
}

static void conclude_if_all(struct context_fork *fork)
{
        struct sandbox_request *request = fork->request;
        struct context_branch_owner owner = fork->owner;

        for (unsigned i = 0; i < fork->count; i++)
                if (!fork->children[i].is_open)
                        return;
        if (fork->kind == CHECKPOINT)
                fork->children[0].to->files_fd = TAKE_FD(fork->files_fd);
        if (request)
                sandbox_request_result(request, answer_of(fork), NULL);
        fork_free(fork);
        if (owner.done)
                owner.done(owner.data, NULL);
}

void context_fork_opened(struct context_fork *fork, struct context *c)
{
        for (unsigned i = 0; i < fork->count; i++)
                if (fork->children[i].to == c)
                        fork->children[i].is_open = 1;
        conclude_if_all(fork);
}

/* -- files, forks ----------------------------------------------------------------------------------------------- */

/* Release the context if all forks and its files are taken. */
static void resume_origin_if_all(struct context_fork *fork)
{
        for (unsigned i = 0; i < fork->count; i++)
                if (!fork->children[i].is_forked)
                        return;
        if (fork->from && !fork->packing && !fork->is_packing)
                resume_origin(fork);
}

/* Start the child if it is forked and its files are in place. */
static int enter_if_ready(struct child *child, struct cloche_err *e)
{
        struct instance *instance = child->instance;

        if (!child->is_forked || !child->is_filled)
                return 0;
        child->instance = NULL;
        return context_adopt(child->to, instance, "enter", e);
}

static void on_filled(void *data, int fd, const struct cloche_err *e)
{
        struct child *child = data;
        struct cloche_err error = {0};

        (void)fd;
        child->copy = NULL;
        child->is_filled = 1;
        if (e)
                error = *e;
        if (e || enter_if_ready(child, &error) < 0)
                cancel_fork(child->fork, &error);
}

/* Copy the files into the box, if both are there, while the interpreter is being forked. */
static int fill(struct child *child, struct cloche_err *e)
{
        struct context_fork *fork = child->fork;
        struct sandbox *s = child->to->sandbox;
        int is_apart = child->to->is_apart;

        if (!child->is_made || child->copy || fork->packing || (fork->kind == BRANCH && !fork->may_enter))
                return 0;
        if (fork->files_fd >= 0 && fork->kind != CHECKPOINT) /* a checkpoint keeps them packed */
                return sandbox_copy_in(s, is_apart ? &child->to->control : &s->control, fork->files_fd, !is_apart,
                                       on_filled, child, &child->copy, e);
        child->is_filled = 1;
        return enter_if_ready(child, e);
}

static void on_forked(struct child *child)
{
        struct context_fork *fork = child->fork;
        struct cloche_err e;

        child->is_forked = 1;
        resume_origin_if_all(fork);
        if (enter_if_ready(child, &e) < 0)
                cancel_fork(fork, &e);
}

static int go_on(struct child *child, struct cloche_err *e)
{
        int r;

        child->is_made = 1;
        r = context_take_control(child->to, child->instance, e);
        if (r == 0)
                r = fill(child, e);
        return r < 0 ? r : instance_fork_resume(child->instance, e);
}

static int make_boxes(struct context_fork *fork, struct cloche_err *e);

static void on_made(struct child *child)
{
        struct context_fork *fork = child->fork;
        struct cloche_err e;

        fork->making--;
        if (go_on(child, &e) < 0 || make_boxes(fork, &e) < 0)
                cancel_fork(fork, &e);
}

static void on_instance(struct instance *instance, const struct cloche_err *e)
{
        struct child *child = instance->owner;
        struct cloche_err error;

        if (e) {
                error = *e;
                cancel_fork(child->fork, &error);
        } else if (instance->state == INSTANCE_MADE) {
                on_made(child);
        } else {
                on_forked(child);
        }
}

void context_fork_failed(struct context_fork *fork, const json_t *about)
{
        json_int_t index = json_integer_value(json_object_get(about, "fork"));
        const char *message = json_string_value(json_object_get(about, "message"));

        for (unsigned i = 0; i < fork->count; i++)
                if (fork->children[i].instance && (json_int_t)fork->children[i].instance->fork == index) {
                        instance_fork_failed(fork->children[i].instance, message ? message : "", 0);
                        return;
                }
}

static void on_packed(void *data, int fd, const struct cloche_err *e)
{
        struct context_fork *fork = data;
        struct cloche_err error;

        fork->packing = NULL;
        fork->files_fd = fd;
        if (e) {
                error = *e;
                cancel_fork(fork, &error);
                return;
        }
        resume_origin_if_all(fork);
        for (unsigned i = 0; i < fork->count; i++)
                if (fill(&fork->children[i], &error) < 0) {
                        cancel_fork(fork, &error);
                        return;
                }
}

/* -- boxes ------------------------------------------------------------------------------------------------------ */

static int make_box(struct context *from, const struct instance_fork_order *order, struct instance **ret,
                    struct cloche_err *e)
{
        struct parent_box *parent_box = instance_as_parent(from->instance, e);

        return parent_box ? instance_fork(from->sandbox->all->engine, parent_box, order, ret, e) : -(int)e->code;
}

static struct instance_fork_order order_of(const struct context *from)
{
        return (struct instance_fork_order){.limits = limits_of_box(&from->sandbox->limits),
                                            .shared_with = KEEPER_NO_BOX,
                                            .holds_fork = 1};
}

static void on_next_fork(struct instance *instance, const struct cloche_err *e)
{
        struct context *c = instance->owner;

        if (!e)
                return;
        instance_free(instance); /* the next fork makes one, or returns the error */
        c->next_fork = NULL;
}

/* A context that was forked once is often forked again, so keep a box ready: that is half of the
 * time of a fork. */
static void prewarm_next_fork(struct context *from)
{
        struct instance_fork_order order = order_of(from);
        struct cloche_err e;

        order.on_ready = on_next_fork;
        order.owner = from;
        if (!from->next_fork && from->is_forkable && from->sandbox->state == SANDBOX_RUNNING && !from->of &&
            keeper_may_make(from->sandbox->all->engine->keeper) && make_box(from, &order, &from->next_fork, &e) < 0)
                from->next_fork = NULL;
}

/* 1: the child has it now. */
static int take_next_fork(struct child *child, const struct instance_fork_order *order)
{
        struct context *from = child->fork->from;
        struct instance *prewarmed = from->next_fork;

        if (!prewarmed || order->is_template || order->shared_with != KEEPER_NO_BOX)
                return 0;
        from->next_fork = NULL;
        if (memcmp(&prewarmed->limits, &order->limits, sizeof(order->limits)) !=
            0) { /* the sandbox's limits have changed */
                instance_free(prewarmed);
                return 0;
        }
        prewarmed->on_ready = on_instance;
        prewarmed->owner = child;
        child->instance = prewarmed;
        return 1;
}

static int find_box(struct child *child, struct cloche_err *e)
{
        struct context_fork *fork = child->fork;
        struct instance_fork_order order = order_of(fork->from);
        int r;

        order.on_ready = on_instance;
        order.owner = child;
        order.is_template = child->to->is_forkable;
        order.limits = limits_of_box(&child->to->sandbox->limits);
        if (!child->to->is_apart)
                order.shared_with = child->to->sandbox->box;
        if (take_next_fork(child, &order) && child->instance->state == INSTANCE_MADE)
                return go_on(child, e);
        r = child->instance ? 0 : make_box(fork->from, &order, &child->instance, e);
        fork->making += r == 0;
        return r;
}

/* Order only as many boxes as the keeper accepts without blocking: a blocking order runs callbacks
 * of other boxes. */
static int make_boxes(struct context_fork *fork, struct cloche_err *e)
{
        int r = 0;

        while (r == 0 && fork->ordered < fork->count &&
               (fork->making == 0 || keeper_may_make(fork->from->sandbox->all->engine->keeper))) {
                r = find_box(&fork->children[fork->ordered], e);
                fork->ordered += r == 0;
        }
        return r;
}

static json_t *no_params(struct context_task *task)
{
        (void)task;
        return json_object();
}

static void on_prepared(struct context_task *task, const struct rpc_message *m, const struct frame *f)
{
        struct context_fork *fork = (struct context_fork *)task;
        struct context *from = fork->from;
        struct sandbox *s = from->sandbox;
        struct cloche_err e;

        (void)f;
        if (m->kind == RPC_ERROR) {
                context_read_error(m, &e);
                cancel_fork(fork, &e);
                return;
        }
        fork->is_prepared = 1;
        from->is_held = 1;
        if (fork->kind == BRANCH) {
                fork->owner.prepared(fork->owner.data);
                return;
        }
        if ((fork->needs_files && sandbox_copy_out(s, from->is_apart ? &from->control : &s->control, WORKSPACE,
                                                   on_packed, fork, &fork->packing, &e) < 0) ||
            make_boxes(fork, &e) < 0)
                cancel_fork(fork, &e);
}

static void on_not_prepared(struct context_task *task, const struct cloche_err *e)
{
        cancel_fork((struct context_fork *)task, e);
}

static void on_release(struct context_task *task)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_CANCELLED, "the request was cancelled");
        cancel_fork((struct context_fork *)task, &e);
}

static const struct context_task_kind prepare_kind = {"branch", no_params, on_prepared, on_not_prepared, on_release, 1};

static void on_cancel(struct sandbox_request *request)
{
        struct context_fork *fork = request->state;
        struct cloche_err e;

        fork->request = NULL;
        err_set(&e, CLOCHE_E_CANCELLED, "the request was cancelled");
        if (fork->is_prepared)
                cancel_fork(fork, &e);
        else
                context_task_detach(&fork->task);
}

static struct context_fork *fork_new(struct sandbox_request *request, int kind, struct context *from, unsigned count,
                                     struct cloche_err *e)
{
        struct context_fork *fork = calloc(1, sizeof(*fork) + count * sizeof(fork->children[0]));

        if (!fork) {
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "fork a context");
                return NULL;
        }
        fork->request = request;
        fork->kind = kind;
        fork->from = from;
        fork->count = count;
        fork->files_fd = -EBADF;
        for (unsigned i = 0; i < count; i++)
                fork->children[i].fork = fork;
        return fork;
}

static void attach_child(struct context_fork *fork, unsigned i, struct context *to)
{
        fork->children[i].to = to;
        to->fork = fork;
}

static int begin(struct context_fork *fork, struct cloche_err *e)
{
        struct sandbox_request *request = fork->request;
        struct cloche_err error;
        int r;

        if (request) {
                request->state = fork;
                request->cancel = on_cancel;
        }
        fork->from->fork = fork;
        r = context_request(fork->from, &fork->task, &prepare_kind, &error);
        if (r == 0)
                return 0;
        if (request)
                request->cancel = NULL;
        fork->request = NULL;
        fork->owner.done = NULL;
        cancel_fork(fork, &error);
        *e = error;
        return r;
}

/* -- into other sandboxes --------------------------------------------------------------------------------------- */

struct context_fork *context_branch_begin(struct context *c, unsigned count, const struct context_branch_owner *owner,
                                          struct cloche_err *e)
{
        struct context_fork *fork = fork_new(NULL, BRANCH, c, count, e);

        if (!fork)
                return NULL;
        fork->owner = *owner;
        fork->is_packing = 1;
        return begin(fork, e) < 0 ? NULL : fork;
}

int context_branch_go(struct context_fork *fork, struct sandbox *const *to, struct cloche_err *e)
{
        struct cloche_err error = {0};
        int r = 0;

        for (unsigned i = 0; i < fork->count && r == 0; i++) {
                struct context *c = context_like(to[i], fork->from, fork->from->name, &error);

                if (c)
                        c->is_forkable = 1;
                if (c)
                        attach_child(fork, i, c);
                else
                        r = -(int)error.code;
        }
        if (r == 0)
                r = make_boxes(fork, &error);
        if (r == 0)
                return 0;
        fork->owner.done = NULL;
        cancel_fork(fork, &error);
        *e = error;
        return r;
}

void context_branch_packed(struct context_fork *fork)
{
        fork->is_packing = 0;
        resume_origin_if_all(fork);
}

int context_branch_enter(struct context_fork *fork, struct cloche_err *e)
{
        struct cloche_err error;
        int r = 0;

        fork->may_enter = 1;
        for (unsigned i = 0; i < fork->count && r == 0; i++)
                r = fill(&fork->children[i], &error);
        if (r == 0)
                return 0;
        fork->owner.done = NULL;
        cancel_fork(fork, &error);
        *e = error;
        return r;
}

void context_branch_cancel(struct context_fork *fork)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_CANCELLED, "the fork of its sandbox was cancelled");
        fork->owner.done = NULL;
        if (fork->is_prepared)
                cancel_fork(fork, &e);
        else
                context_task_detach(&fork->task);
}

/* -- the methods ------------------------------------------------------------------------------------------------ */

static struct context *forkable_of(struct sandbox_request *request, struct cloche_err *e)
{
        struct context *c = context_of(request, e);

        if (!c)
                return NULL;
        if (c->cold_why[0])
                err_set(e, CLOCHE_E_STATE, "the context \"%s\" was started cold, so it cannot be forked: %.150s",
                        c->name, c->cold_why);
        else if (!c->is_forkable)
                err_set(e, CLOCHE_E_STATE,
                        "the context \"%s\" was not created as forkable (context.create with forkable, context create "
                        "--forkable)",
                        c->name);
        else if (c->fork)
                err_set(e, CLOCHE_E_STATE,
                        "the context \"%s\" is being forked, made or rolled back: try again when this has ended",
                        c->name);
        else
                return c;
        return NULL;
}

int handle_CONTEXT_FORK(struct sandbox_request *request, struct cloche_err *e)
{
        struct context *c = forkable_of(request, e);
        uint64_t count = sandbox_request_count(request, "count", 1);
        struct context_fork *fork;

        if (!c)
                return -(int)e->code;
        if (count < 1 || count > FORKS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "count must be 1 to %d", FORKS_MAX);
        if (c->sandbox->has_writable_root)
                return err_set(e, CLOCHE_E_STATE,
                               "a fork has files of its own, which would be the image's without the changes of this "
                               "sandbox's writable root: use checkpoints, or other contexts");
        fork = fork_new(request, FORKS, c, (unsigned)count, e);
        if (!fork)
                return -(int)e->code;
        fork->needs_files = 1;
        for (unsigned i = 0; i < count; i++) {
                char name[SANDBOX_NAME_MAX];
                struct context *to;

                do
                        snprintf(name, sizeof(name), "%.40s-fork-%llu", c->name,
                                 (unsigned long long)++c->next_fork_name);
                while (context_look_up(c->sandbox, name));
                to = context_like(c->sandbox, c, name, e);
                if (!to) {
                        struct cloche_err error = *e;

                        fork->request = NULL;
                        cancel_fork(fork, &error);
                        return -(int)e->code;
                }
                to->is_apart = 1;
                to->is_forkable = sandbox_request_flag(request, "forkable", 0);
                strcpy(to->forked_from, c->name);
                attach_child(fork, i, to);
        }
        return begin(fork, e);
}

static int is_checkpoint(const struct context *k, const struct context *of)
{
        return k->of == of && !k->is_doomed && k->state == CONTEXT_LIVE;
}

static struct context *checkpoint_find(const struct context *c, const char *name)
{
        struct context *k, *found = NULL;

        TAILQ_FOREACH (k, &c->sandbox->contexts, link) /* the newest is the last */
                if (is_checkpoint(k, c) && (!name || strcmp(k->name, name) == 0))
                        found = k;
        return found;
}

unsigned context_checkpoints_count(const struct context *c)
{
        const struct context *k;
        unsigned count = 0;

        TAILQ_FOREACH (k, &c->sandbox->contexts, link)
                count += (unsigned)is_checkpoint(k, c);
        return count;
}

void context_checkpoints_free(struct context *c)
{
        struct context *k, *next;

        for (k = TAILQ_FIRST(&c->sandbox->contexts); k; k = next) {
                next = TAILQ_NEXT(k, link);
                if (k->of == c)
                        context_free(k);
        }
}

int handle_CONTEXT_CHECKPOINT(struct sandbox_request *request, struct cloche_err *e)
{
        struct context *c = forkable_of(request, e), *k, *old;
        const char *name = sandbox_request_text(request, "checkpoint");
        char made_up[32] = "";
        struct context_fork *fork;

        if (!c || (name && context_name_check(name, e) < 0))
                return -(int)e->code;
        if (context_checkpoints_count(c) >= CHECKPOINTS_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "the context \"%s\" has %d checkpoints already: remove one (context.forget)", c->name,
                               CHECKPOINTS_MAX);
        while (!name && (!made_up[0] || checkpoint_find(c, made_up)))
                snprintf(made_up, sizeof(made_up), "checkpoint-%llu", (unsigned long long)++c->next_checkpoint);
        fork = fork_new(request, CHECKPOINT, c, 1, e);
        k = fork ? context_like(c->sandbox, c, name ? name : made_up, e) : NULL;
        if (!k) {
                free(fork);
                return -(int)e->code;
        }
        old = checkpoint_find(c, k->name);
        if (old)
                context_free(old);
        k->of = c;
        k->is_apart = c->is_apart; /* a box with files of its own cannot return to the sandbox's */
        k->is_forkable = 1;
        fork->needs_files = sandbox_request_flag(request, "files", 1);
        attach_child(fork, 0, k);
        return begin(fork, e);
}

int handle_CONTEXT_ROLLBACK(struct sandbox_request *request, struct cloche_err *e)
{
        const char *name = sandbox_request_text(request, "checkpoint");
        struct context *c = forkable_of(request, e), *k = c ? checkpoint_find(c, name) : NULL;
        struct context_fork *fork;
        struct cloche_err why;

        if (!c)
                return -(int)e->code;
        if (!k && !name)
                return err_set(e, CLOCHE_E_NOT_FOUND,
                               "the context \"%s\" has no checkpoint: make one (context.checkpoint)", c->name);
        if (!k)
                return err_set(e, CLOCHE_E_NOT_FOUND,
                               "the context \"%s\" has no checkpoint \"%.64s\" (context.checkpoints lists them)",
                               c->name, name);
        fork = fork_new(request, ROLLBACK, k, 1, e);
        if (!fork)
                return -(int)e->code;
        fork->files_fd = k->files_fd;
        err_set(&why, CLOCHE_E_CONTEXT_ENDED, "the context is rolled back");
        context_end(c, &why);
        context_set_state(c, CONTEXT_STARTING);
        c->count = k->count;
        attach_child(fork, 0, c);
        return begin(fork, e);
}

int handle_CONTEXT_CHECKPOINTS(struct sandbox_request *request, struct cloche_err *e)
{
        const struct context *c = context_of(request, e), *k;
        json_t *list;

        if (!c)
                return -(int)e->code;
        list = json_array();
        TAILQ_FOREACH (k, &request->sandbox->contexts, link)
                if (is_checkpoint(k, c))
                        json_array_append_new(list, checkpoint_json(k));
        sandbox_request_result(request, json_pack("{s:o}", "checkpoints", list), NULL);
        return 0;
}

int handle_CONTEXT_FORGET(struct sandbox_request *request, struct cloche_err *e)
{
        const char *checkpoint = sandbox_request_text(request, "checkpoint");
        const struct context *c = context_of(request, e);
        struct context *k = c && checkpoint ? checkpoint_find(c, checkpoint) : NULL;

        if (!c)
                return -(int)e->code;
        if (!k)
                return err_set(e, CLOCHE_E_NOT_FOUND,
                               "the context \"%s\" has no checkpoint \"%.64s\" (context.checkpoints lists them)",
                               c->name, checkpoint ? checkpoint : "");
        if (k->fork)
                return err_set(e, CLOCHE_E_STATE,
                               "the context \"%s\" is being rolled back to it: try again when this has ended", c->name);
        sandbox_request_result(request, json_pack("{s:s}", "checkpoint", k->name), NULL);
        context_free(k);
        return 0;
}
