/* Forks of live contexts. A checkpoint is a fork that stays stopped. The context gets the request
 * `branch` and stops; then boxes are made beneath its own, files are copied into them, and it is
 * forked into each; the children get the request `enter` and live. A rollback does the same with a
 * checkpoint. */
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
struct twig {
        struct branching *branching;
        struct context *to;
        struct seat *seat; /* moved to the context later */
        struct copy *copy;
        int is_made, is_filled, is_forked, is_open;
};

struct branching {
        struct context_task task; /* `branch`, for from */
        struct sandbox_ask *ask;
        struct context *from; /* the context, or the checkpoint of a rollback; NULL after its release */
        enum { FORKS, CHECKPOINT, ROLLBACK } kind;
        int needs_files; /* pack the workspace into files_fd */
        int files_fd;    /* in a rollback, that of the checkpoint */
        struct copy *packing;
        int is_branched;
        unsigned ordered, making; /* numbers of boxes */
        unsigned count;
        struct twig twigs[];
};

/* -- the end -------------------------------------------------------------------------------------------------- */

static void make_spare(struct context *from);

/* Release the context: it continues with its queue. */
static void let_go(struct branching *b)
{
        struct context *from = b->from;

        b->from = NULL;
        from->branching = NULL;
        from->is_held = 0;
        if (from->state == CONTEXT_LIVE) {
                make_spare(from);
                context_tasks_begin(from);
        }
}

static void branching_free(struct branching *b)
{
        copy_cancel(b->packing);
        for (unsigned i = 0; i < b->count; i++) {
                copy_cancel(b->twigs[i].copy);
                seat_free(b->twigs[i].seat);
                if (b->twigs[i].to)
                        b->twigs[i].to->branching = NULL;
        }
        if (b->kind != ROLLBACK)
                fd_close(&b->files_fd);
        free(b);
}

/* Undo it. The original stays as it was, except in a rollback: the context's old interpreter has
 * ended already. */
static void give_up(struct branching *b, const struct cloche_err *e)
{
        struct sandbox_ask *ask = b->ask;
        struct context *to[FORKS_MAX];
        unsigned count = b->count;
        int rolls_back = b->kind == ROLLBACK;
        struct cloche_err copy = *e;

        for (unsigned i = 0; i < count; i++)
                to[i] = b->twigs[i].to;
        if (b->from && b->is_branched)
                let_go(b);
        else if (b->from)
                b->from->branching = NULL;
        branching_free(b);
        for (unsigned i = 0; i < count; i++) {
                if (!to[i])
                        continue;
                if (rolls_back && to[i]->state != CONTEXT_ENDED)
                        context_end(to[i], &copy);
                else if (!rolls_back)
                        context_free_soon(to[i]);
        }
        if (ask)
                ask_fail(ask, &copy, NULL);
}

/* One of the new contexts ends before the agent of the original has answered `branch`: the others
 * are dropped too. */
static void forget_one(struct branching *b, struct context *c, const struct cloche_err *e)
{
        struct sandbox_ask *ask = b->ask;

        for (unsigned i = 0; i < b->count; i++)
                if (b->twigs[i].to == c)
                        b->twigs[i].to = NULL;
        c->branching = NULL;
        b->ask = NULL;
        if (!b->task.is_abandoned)
                context_task_abandon(&b->task);
        if (ask)
                ask_fail(ask, e, NULL);
}

void branching_abort(struct branching *b, struct context *c, const struct cloche_err *e)
{
        /* If the original ends earlier, its task fails and reports that. */
        if (b->is_branched)
                give_up(b, e);
        else if (c != b->from)
                forget_one(b, c, e);
}

static json_t *checkpoint_json(const struct context *k)
{
        return json_pack("{s:s, s:o, s:I, s:b}", "checkpoint", k->name, "createdAt", time_json(k->created_ms),
                         "executionCount", (json_int_t)k->count, "files", k->files_fd >= 0);
}

static json_t *answer_of(const struct branching *b)
{
        json_t *list;

        if (b->kind == ROLLBACK)
                return context_json(b->twigs[0].to);
        if (b->kind == CHECKPOINT)
                return checkpoint_json(b->twigs[0].to);
        list = json_array();
        for (unsigned i = 0; i < b->count; i++)
                json_array_append_new(list, context_json(b->twigs[i].to));
        return json_pack("{s:o}", "contexts", list);
}

static void conclude_if_all(struct branching *b)
{
        struct sandbox_ask *ask = b->ask;

        for (unsigned i = 0; i < b->count; i++)
                if (!b->twigs[i].is_open)
                        return;
        if (b->kind == CHECKPOINT)
                b->twigs[0].to->files_fd = TAKE_FD(b->files_fd);
        ask_result(ask, answer_of(b), NULL);
        branching_free(b);
}

void branching_opened(struct branching *b, struct context *c)
{
        for (unsigned i = 0; i < b->count; i++)
                if (b->twigs[i].to == c)
                        b->twigs[i].is_open = 1;
        conclude_if_all(b);
}

/* -- files, forks --------------------------------------------------------------------------------------------- */

/* Release the context if all forks and its files are taken. */
static void let_go_if_all(struct branching *b)
{
        for (unsigned i = 0; i < b->count; i++)
                if (!b->twigs[i].is_forked)
                        return;
        if (b->from && !b->packing)
                let_go(b);
}

/* Start the child if it is forked and its files are in place. */
static int enter_if_ready(struct twig *twig, struct cloche_err *e)
{
        struct seat *seat = twig->seat;

        if (!twig->is_forked || !twig->is_filled)
                return 0;
        twig->seat = NULL;
        return context_adopt(twig->to, seat, "enter", e);
}

static void on_filled(void *data, int fd, const struct cloche_err *e)
{
        struct twig *twig = data;
        struct cloche_err error = {0};

        (void)fd;
        twig->copy = NULL;
        twig->is_filled = 1;
        if (e)
                error = *e;
        if (e || enter_if_ready(twig, &error) < 0)
                give_up(twig->branching, &error);
}

/* Copy the files into the box, if both are there, while the interpreter is being forked. */
static int fill(struct twig *twig, struct cloche_err *e)
{
        struct branching *b = twig->branching;
        struct sandbox *s = twig->to->sandbox;
        int is_apart = twig->to->is_apart;

        if (!twig->is_made || twig->copy || b->packing)
                return 0;
        if (b->files_fd >= 0 && b->kind != CHECKPOINT) /* a checkpoint keeps them packed */
                return copy_in(s, is_apart ? &twig->to->control : &s->control, b->files_fd, !is_apart, on_filled, twig,
                               &twig->copy, e);
        twig->is_filled = 1;
        return enter_if_ready(twig, e);
}

static void on_forked(struct twig *twig)
{
        struct branching *b = twig->branching;
        struct cloche_err e;

        twig->is_forked = 1;
        let_go_if_all(b);
        if (enter_if_ready(twig, &e) < 0)
                give_up(b, &e);
}

static int go_on(struct twig *twig, struct cloche_err *e)
{
        int r;

        twig->is_made = 1;
        r = context_take_control(twig->to, twig->seat, e);
        if (r == 0)
                r = fill(twig, e);
        return r < 0 ? r : seat_fork(twig->seat, e);
}

static int make_boxes(struct branching *b, struct cloche_err *e);

static void on_made(struct twig *twig)
{
        struct branching *b = twig->branching;
        struct cloche_err e;

        b->making--;
        if (go_on(twig, &e) < 0 || make_boxes(b, &e) < 0)
                give_up(b, &e);
}

static void on_seat(struct seat *seat, const struct cloche_err *e)
{
        struct twig *twig = seat->owner;
        struct cloche_err error;

        if (e) {
                error = *e;
                give_up(twig->branching, &error);
        } else if (seat->state == SEAT_MADE) {
                on_made(twig);
        } else {
                on_forked(twig);
        }
}

void branching_failed(struct branching *b, const json_t *about)
{
        json_int_t fork = json_integer_value(json_object_get(about, "fork"));
        const char *message = json_string_value(json_object_get(about, "message"));

        for (unsigned i = 0; i < b->count; i++)
                if (b->twigs[i].seat && (json_int_t)b->twigs[i].seat->fork == fork) {
                        seat_fork_failed(b->twigs[i].seat, message ? message : "");
                        return;
                }
}

static void on_packed(void *data, int fd, const struct cloche_err *e)
{
        struct branching *b = data;
        struct cloche_err error;

        b->packing = NULL;
        b->files_fd = fd;
        if (e) {
                error = *e;
                give_up(b, &error);
                return;
        }
        let_go_if_all(b);
        for (unsigned i = 0; i < b->count; i++)
                if (fill(&b->twigs[i], &error) < 0) {
                        give_up(b, &error);
                        return;
                }
}

/* -- boxes ---------------------------------------------------------------------------------------------------- */

static int make_box(struct context *from, const struct seat_order *order, struct seat **ret, struct cloche_err *e)
{
        struct trunk *trunk = seat_trunk(from->seat, e);

        return trunk ? seat_branch(from->sandbox->all->engine, trunk, order, ret, e) : -(int)e->code;
}

static struct seat_order order_of(const struct context *from)
{
        return (struct seat_order){.limits = limits_of_box(&from->sandbox->limits),
                                   .shared_with = KEEPER_NO_BOX,
                                   .holds_fork = 1};
}

static void on_spare(struct seat *seat, const struct cloche_err *e)
{
        struct context *c = seat->owner;

        if (!e)
                return;
        seat_free(seat); /* the next fork makes one, or returns the error */
        c->spare = NULL;
}

/* A context that was forked once is often forked again, so keep a box ready: that is half of the
 * time of a fork. */
static void make_spare(struct context *from)
{
        struct seat_order order = order_of(from);
        struct cloche_err e;

        order.told = on_spare;
        order.owner = from;
        if (!from->spare && from->is_forkable && !from->of && keeper_may_make(from->sandbox->all->engine->keeper) &&
            make_box(from, &order, &from->spare, &e) < 0)
                from->spare = NULL;
}

/* 1: the twig has it now. */
static int take_spare(struct twig *twig, const struct seat_order *order)
{
        struct context *from = twig->branching->from;
        struct seat *spare = from->spare;

        if (!spare || order->is_template || order->shared_with != KEEPER_NO_BOX)
                return 0;
        from->spare = NULL;
        if (memcmp(&spare->limits, &order->limits, sizeof(order->limits)) !=
            0) { /* the sandbox's limits have changed */
                seat_free(spare);
                return 0;
        }
        spare->told = on_seat;
        spare->owner = twig;
        twig->seat = spare;
        return 1;
}

static int find_box(struct twig *twig, struct cloche_err *e)
{
        struct branching *b = twig->branching;
        struct seat_order order = order_of(b->from);
        int r;

        order.told = on_seat;
        order.owner = twig;
        order.is_template = twig->to->is_forkable;
        if (!twig->to->is_apart)
                order.shared_with = b->from->sandbox->box;
        if (take_spare(twig, &order) && twig->seat->state == SEAT_MADE)
                return go_on(twig, e);
        r = twig->seat ? 0 : make_box(b->from, &order, &twig->seat, e);
        b->making += r == 0;
        return r;
}

/* Order only as many boxes as the keeper accepts without blocking: a blocking order runs callbacks
 * of other boxes. */
static int make_boxes(struct branching *b, struct cloche_err *e)
{
        int r = 0;

        while (r == 0 && b->ordered < b->count &&
               (b->making == 0 || keeper_may_make(b->from->sandbox->all->engine->keeper))) {
                r = find_box(&b->twigs[b->ordered], e);
                b->ordered += r == 0;
        }
        return r;
}

static json_t *no_params(struct context_task *task)
{
        (void)task;
        return json_object();
}

static void on_branched(struct context_task *task, const struct rpc_message *m, const struct frame *f)
{
        struct branching *b = (struct branching *)task;
        struct context *from = b->from;
        struct sandbox *s = from->sandbox;
        struct cloche_err e;

        (void)f;
        if (m->kind == RPC_ERROR) {
                context_read_error(m, &e);
                give_up(b, &e);
                return;
        }
        b->is_branched = 1;
        from->is_held = 1;
        if ((b->needs_files &&
             copy_out(s, from->is_apart ? &from->control : &s->control, on_packed, b, &b->packing, &e) < 0) ||
            make_boxes(b, &e) < 0)
                give_up(b, &e);
}

static void on_not_branched(struct context_task *task, const struct cloche_err *e)
{
        give_up((struct branching *)task, e);
}

static void on_release(struct context_task *task)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_CANCELLED, "the request was cancelled");
        give_up((struct branching *)task, &e);
}

static const struct context_task_kind branch_kind = {"branch", no_params, on_branched, on_not_branched, on_release, 1};

static void on_cancel(struct sandbox_ask *ask)
{
        struct branching *b = ask->state;
        struct cloche_err e;

        b->ask = NULL;
        err_set(&e, CLOCHE_E_CANCELLED, "the request was cancelled");
        if (b->is_branched)
                give_up(b, &e);
        else
                context_task_abandon(&b->task);
}

static struct branching *branching_new(struct sandbox_ask *ask, int kind, struct context *from, unsigned count,
                                       struct cloche_err *e)
{
        struct branching *b = calloc(1, sizeof(*b) + count * sizeof(b->twigs[0]));

        if (!b) {
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "fork a context");
                return NULL;
        }
        b->ask = ask;
        b->kind = kind;
        b->from = from;
        b->count = count;
        b->files_fd = -EBADF;
        for (unsigned i = 0; i < count; i++)
                b->twigs[i].branching = b;
        return b;
}

static void graft(struct branching *b, unsigned i, struct context *to)
{
        b->twigs[i].to = to;
        to->branching = b;
}

static int begin(struct branching *b, struct cloche_err *e)
{
        struct sandbox_ask *ask = b->ask;
        struct cloche_err error;
        int r;

        ask->state = b;
        ask->cancel = on_cancel;
        b->from->branching = b;
        r = context_ask(b->from, &b->task, &branch_kind, &error);
        if (r == 0)
                return 0;
        ask->cancel = NULL;
        b->ask = NULL;
        give_up(b, &error);
        *e = error;
        return r;
}

/* -- the methods ---------------------------------------------------------------------------------------------- */

static struct context *forkable_of(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct context *c = context_of(ask, e);

        if (!c)
                return NULL;
        if (!c->is_forkable)
                err_set(e, CLOCHE_E_STATE, "the context \"%s\" was not made forkable (context.create with forkable)",
                        c->name);
        else if (c->branching)
                err_set(e, CLOCHE_E_STATE, "the context \"%s\" is being forked, made or rolled back already", c->name);
        else
                return c;
        return NULL;
}

int begin_CONTEXT_FORK(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct context *c = forkable_of(ask, e);
        uint64_t count = ask_count(ask, "count", 1);
        struct sandbox *s = ask->sandbox;
        struct branching *b;

        if (!c)
                return -(int)e->code;
        if (count < 1 || count > FORKS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "count must be 1 to %d", FORKS_MAX);
        b = branching_new(ask, FORKS, c, (unsigned)count, e);
        if (!b)
                return -(int)e->code;
        b->needs_files = 1;
        for (unsigned i = 0; i < count; i++) {
                char name[SANDBOX_NAME_MAX];
                struct context *to;

                do
                        snprintf(name, sizeof(name), "%.40s-fork-%llu", c->name, (unsigned long long)++s->next_context);
                while (context_look_up(s, name));
                to = context_like(c, name, e);
                if (!to) {
                        struct cloche_err error = *e;

                        b->ask = NULL;
                        give_up(b, &error);
                        return -(int)e->code;
                }
                to->is_apart = 1;
                to->is_forkable = ask_flag(ask, "forkable", 0);
                strcpy(to->forked_from, c->name);
                graft(b, i, to);
        }
        return begin(b, e);
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

unsigned checkpoints_count(const struct context *c)
{
        const struct context *k;
        unsigned count = 0;

        TAILQ_FOREACH (k, &c->sandbox->contexts, link)
                count += (unsigned)is_checkpoint(k, c);
        return count;
}

void checkpoints_free(struct context *c)
{
        struct context *k, *next;

        for (k = TAILQ_FIRST(&c->sandbox->contexts); k; k = next) {
                next = TAILQ_NEXT(k, link);
                if (k->of == c)
                        context_free(k);
        }
}

int begin_CONTEXT_CHECKPOINT(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct context *c = forkable_of(ask, e), *k, *old;
        const char *name = ask_text(ask, "checkpoint");
        char made_up[32];
        struct branching *b;

        if (!c || (name && context_name_check(name, e) < 0))
                return -(int)e->code;
        if (checkpoints_count(c) >= CHECKPOINTS_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL, "the context \"%s\" has %d checkpoints already", c->name,
                               CHECKPOINTS_MAX);
        snprintf(made_up, sizeof(made_up), "checkpoint-%llu", (unsigned long long)++ask->sandbox->next_context);
        b = branching_new(ask, CHECKPOINT, c, 1, e);
        k = b ? context_like(c, name ? name : made_up, e) : NULL;
        if (!k) {
                free(b);
                return -(int)e->code;
        }
        old = checkpoint_find(c, k->name);
        if (old)
                context_free(old);
        k->of = c;
        k->is_apart = c->is_apart; /* a box with files of its own cannot return to the sandbox's */
        k->is_forkable = 1;
        b->needs_files = ask_flag(ask, "files", 1);
        graft(b, 0, k);
        return begin(b, e);
}

int begin_CONTEXT_ROLLBACK(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct context *c = forkable_of(ask, e), *k = c ? checkpoint_find(c, ask_text(ask, "checkpoint")) : NULL;
        struct branching *b;
        struct cloche_err why;

        if (!c)
                return -(int)e->code;
        if (!k)
                return err_set(e, CLOCHE_E_NOT_FOUND, "the context \"%s\" has no checkpoint%s%.64s", c->name,
                               ask_text(ask, "checkpoint") ? " " : "",
                               ask_text(ask, "checkpoint") ? ask_text(ask, "checkpoint") : "");
        b = branching_new(ask, ROLLBACK, k, 1, e);
        if (!b)
                return -(int)e->code;
        b->files_fd = k->files_fd;
        err_set(&why, CLOCHE_E_CONTEXT_ENDED, "the context is rolled back");
        context_end(c, &why);
        c->state = CONTEXT_STARTING;
        c->count = k->count;
        graft(b, 0, c);
        return begin(b, e);
}

int begin_CONTEXT_CHECKPOINTS(struct sandbox_ask *ask, struct cloche_err *e)
{
        const struct context *c = context_of(ask, e), *k;
        json_t *list;

        if (!c)
                return -(int)e->code;
        list = json_array();
        TAILQ_FOREACH (k, &ask->sandbox->contexts, link)
                if (is_checkpoint(k, c))
                        json_array_append_new(list, checkpoint_json(k));
        ask_result(ask, json_pack("{s:o}", "checkpoints", list), NULL);
        return 0;
}

int begin_CONTEXT_FORGET(struct sandbox_ask *ask, struct cloche_err *e)
{
        const char *checkpoint = ask_text(ask, "checkpoint");
        const struct context *c = context_of(ask, e);
        struct context *k = c && checkpoint ? checkpoint_find(c, checkpoint) : NULL;

        if (!c)
                return -(int)e->code;
        if (!k)
                return err_set(e, CLOCHE_E_NOT_FOUND, "the context \"%s\" has no checkpoint \"%.64s\"", c->name,
                               checkpoint ? checkpoint : "");
        if (k->branching)
                return err_set(e, CLOCHE_E_STATE, "the context \"%s\" is being rolled back to it", c->name);
        ask_result(ask, json_pack("{s:s}", "checkpoint", k->name), NULL);
        context_free(k);
        return 0;
}
