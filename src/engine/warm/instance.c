#include "instance.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "engine/loop/engine.h"
#include "engine/loop/handle.h"
#include "template.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

/* -- trunks --------------------------------------------------------------------------------------------------- */

/* Number of live boxes on a context, which can itself be gone before them. Reference-counted. */
struct tally {
        unsigned refs, boxes;
};

static void tally_unref(struct tally *tally)
{
        if (tally && --tally->refs == 0)
                free(tally);
}

static void on_gone(void *data, struct keeper_reply *reply)
{
        struct tally *tally = data;

        (void)reply; /* if the keeper is gone, so is the box */
        tally->boxes--;
        tally_unref(tally);
}

/* Takes the reference to tally; NULL: no tally counts the box. */
static void drop_box(struct box *box, struct tally *tally)
{
        if (!box_drop(box, tally ? on_gone : NULL, tally) && tally)
                on_gone(tally, NULL);
}

struct trunk *trunk_new(struct box *box)
{
        struct trunk *trunk = calloc(1, sizeof(*trunk));

        if (!trunk)
                return NULL;
        trunk->refs = 1;
        trunk->box = box_move(box);
        return trunk;
}

struct trunk *trunk_ref(struct trunk *trunk)
{
        trunk->refs++;
        return trunk;
}

void trunk_unref(struct trunk *trunk)
{
        if (!trunk || --trunk->refs > 0)
                return;
        drop_box(&trunk->box, trunk->counted_in);
        tally_unref(trunk->above);
        trunk_unref(trunk->beneath);
        free(trunk);
}

/* -- ending --------------------------------------------------------------------------------------------------- */

/* Kill its programs. The box has to stay, for the kernel would kill the boxes on it. The answer is
 * not read. */
static void end_programs(struct trunk *trunk)
{
        const struct init_request request = {.op = INIT_KILL,
                                             .pid = 1,
                                             .signal = SIGKILL,
                                             .flags = INIT_KILL_TREE | INIT_KILL_BELOW};

        trunk->is_dead = 1;
        (void)fd_send(trunk->box.control_fd, &request, sizeof(request), NULL, 0);
}

static void discard(struct seat *seat)
{
        placing_stop(&seat->placing);
        setup_free(seat->furniture);
        channel_close(&seat->channel);
        stdio_close(&seat->stdio);
        if (seat->own_trunk && seat->own_trunk->refs > 1)
                end_programs(seat->own_trunk);
        trunk_unref(seat->own_trunk);
        drop_box(&seat->box, seat->counted_in);
        trunk_unref(seat->trunk);
        mounts_unref(seat->mounts);
        free(seat);
}

void seat_free(struct seat *seat)
{
        if (!seat)
                return;
        if (seat->state == SEAT_MAKING)
                seat->abandoned = 1; /* discarded at the keeper's answer */
        else
                discard(seat);
}

/* -- making --------------------------------------------------------------------------------------------------- */

static int is_of_context(const struct seat *seat)
{
        return seat->shared_with != KEEPER_NO_BOX || !seat->of;
}

static void fail(struct seat *seat, const struct cloche_err *e)
{
        seat->state = SEAT_READY;
        if (seat->abandoned)
                discard(seat);
        else if (is_of_context(seat))
                seat->told(seat, e);
        else
                template_seat_failed(seat->of, seat, e);
}

static void become_ready(struct seat *seat)
{
        seat->state = SEAT_READY;
        if (is_of_context(seat))
                seat->told(seat, NULL);
        else
                template_seat_ready(seat->of, seat);
}

static void on_usage(void *data, struct keeper_reply *reply)
{
        struct seat *seat = data;

        if (seat->abandoned) {
                fail(seat, NULL);
                return;
        }
        if (!reply->error) /* else the keeper is gone, and the run fails */
                seat->before = reply->answer->usage;
        become_ready(seat);
}

static void on_forked(void *data, struct keeper_reply *reply)
{
        struct seat *seat = data;

        if (reply->error || seat->abandoned) {
                fail(seat, reply->error);
                return;
        }
        if (seat->fork_error.code) {
                struct cloche_err e = seat->fork_error; /* the seat may be freed before e is read */

                fail(seat, &e);
                return;
        }
        if (seat->of)
                seat->of->forks++;
        if (!is_of_context(seat) && !engine_read_usage(seat->engine, seat->box.id, &seat->before) &&
            keeper_box_usage_later(seat->engine->keeper, seat->box.id, on_usage, seat, NULL) == 0)
                return;
        become_ready(seat);
}

/* The request to the child may be written before the child exists: it waits in the socket. */
static int ask_for_fork(struct seat *seat, struct cloche_err *e)
{
        int fds[KEEPER_FORK_FDS], agent_fd = -EBADF;
        int r = seat->is_template && !is_of_context(seat) ? stdio_open_null(&seat->stdio, e)
                                                          : stdio_open(&seat->stdio, e);

        if (r == 0)
                r = channel_open(&seat->channel, FRAME_BYTES_MAX, &agent_fd, e);
        for (int i = 0; r == 0 && i < 3; i++)
                fds[i] = seat->stdio.guest_fds[i];
        fds[3] = agent_fd;
        fds[4] = seat->box.fork_fd;
        if (r == 0)
                r = keeper_box_fork_later(seat->box.keeper, seat->box.id, fds, seat->is_template ? 5 : 4, on_forked,
                                          seat, &seat->fork, e);
        fd_close(&agent_fd);
        fd_close(&seat->box.fork_fd);
        stdio_close_guest(&seat->stdio);
        return r;
}

static void fork_or_hold(struct seat *seat)
{
        struct cloche_err e = {0};

        if (seat->holds_fork) {
                seat->state = SEAT_MADE;
                seat->told(seat, NULL);
                return;
        }
        seat->state = SEAT_MAKING;
        if (ask_for_fork(seat, &e) < 0)
                fail(seat, &e);
}

/* Init has recorded the box's state, or checked it after a run; or the box has joined the
 * sandbox's. */
static void on_init_answer(void *data, const struct init_answer *answer, int fd, const struct cloche_err *error)
{
        struct seat *seat = data;
        struct cloche_err e;

        fd_close(&fd);
        if (error) {
                e = *error;
                fail(seat, &e);
        } else if (answer->op == INIT_RENEW && answer->is_clean != 1) {
                err_set(&e, CLOCHE_E_STATE, "the run left something in its box");
                fail(seat, &e);
        } else {
                fork_or_hold(seat);
        }
}

/* Fork the child only after the answer: changes it makes before would count as part of the clean
 * state. */
static int ask_init(struct seat *seat, const struct init_request *request, struct cloche_err *e)
{
        seat->state = SEAT_FURNISHING;
        return control_ask(seat->box.control, request, NULL, 0, on_init_answer, seat, e);
}

/* Init of a box that shares, or has mounts in others, or of files, answers only when the box is
 * ready (proto/keeper.h), so send the cheapest request, a signal to an unused pid. A box with
 * mounts is not reused, so its state is not recorded. */
static void go_on(struct seat *seat)
{
        static const struct init_request mark = {.op = INIT_MARK},
                                         nothing = {.op = INIT_KILL, .pid = INT32_MAX, .signal = SIGCONT};
        int is_awaited = seat->shared_with != KEEPER_NO_BOX || mounts_are_awaited(seat->mounts);
        struct cloche_err e = {0};

        if (!is_awaited && (seat->is_template || seat->mounts || is_of_context(seat)))
                fork_or_hold(seat);
        else if (ask_init(seat, is_awaited ? &nothing : &mark, &e) < 0)
                fail(seat, &e);
}

static void on_placed(void *data, const struct cloche_err *error)
{
        struct seat *seat = data;
        struct cloche_err e = error ? *error : (struct cloche_err){0};

        setup_free(seat->furniture);
        seat->furniture = NULL;
        if (error)
                fail(seat, &e);
        else
                go_on(seat);
}

/* Place the files of the set-up. */
static void furnish(struct seat *seat)
{
        seat->furniture = is_of_context(seat)
                                  ? NULL
                                  : template_furniture(seat->of, seat); /* a context's owner places its files */
        seat->state = SEAT_FURNISHING;
        if (seat->furniture)
                placing_begin(&seat->placing, &seat->box, seat->mounts, &seat->furniture->files, on_placed, seat);
        else
                go_on(seat);
}

static void on_made(void *data, struct keeper_reply *reply)
{
        struct seat *seat = data;
        struct cloche_err e = {0};
        int r = reply->error ? -1 : box_adopt(&seat->box, seat->trunk->box.keeper, reply, &seat->engine->loop, &e);

        if (reply->error)
                e = *reply->error;
        if (r == 0 && seat->abandoned)
                r = -1;
        if (r == 0 && seat->mounts)
                r = mounts_serve(seat->mounts, &seat->box, &e);
        if (r < 0)
                fail(seat, &e);
        else
                furnish(seat);
}

static struct seat *seat_of(struct cloche_engine *engine, struct template *of, const struct keeper_box_limits *limits,
                            struct trunk *trunk)
{
        struct seat *seat = calloc(1, sizeof(*seat));

        if (!seat)
                return NULL;
        seat->engine = engine;
        seat->of = of;
        seat->limits = *limits;
        seat->trunk = trunk;
        seat->shared_with = KEEPER_NO_BOX;
        seat->box = BOX_NONE;
        seat->channel.fd = -EBADF;
        seat->stdio = STDIO_NONE;
        return seat;
}

int seat_renew(struct template *of, const struct keeper_box_limits *limits, struct box *box, struct trunk *trunk,
               struct seat **ret, struct cloche_err *e)
{
        static const struct init_request renew = {.op = INIT_RENEW};
        struct seat *seat = seat_of(of->engine, of, limits, trunk);
        int r;

        if (!seat) {
                (void)box_drop(box, NULL, NULL);
                trunk_unref(trunk);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "use a box again");
        }
        seat->box = box_move(box);
        seat->is_used = 1;
        r = box_return_control(&seat->box, &of->engine->loop, e);
        if (r == 0)
                r = ask_init(seat, &renew, e);
        if (r < 0) {
                discard(seat);
                return r;
        }
        *ret = seat;
        return 0;
}

/* Request a box on the trunk's from the keeper. A failure leaves the seat unchanged. */
static int begin(struct seat *seat, struct cloche_err *e)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        int r = spec ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "prepare a box");

        if (r == 0) {
                spec->limits = seat->limits;
                spec->parent = seat->trunk->box.id;
                spec->shared_with = seat->shared_with;
                spec->is_template = (uint32_t)seat->is_template;
                spec->optional_guards = seat->engine->optional_guards;
                if (seat->mounts)
                        mounts_describe(seat->mounts, spec);
                r = keeper_box_make_later(seat->engine->keeper, spec, on_made, seat, e);
        }
        free(spec);
        return r;
}

int seat_new(struct template *of, const struct keeper_box_limits *limits, struct mounts *mounts, uint32_t shared_with,
             int is_template, struct seat **ret, struct cloche_err *e)
{
        struct seat *seat;
        int r;

        if (shared_with != KEEPER_NO_BOX && mounts)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a box with mounts does not share a sandbox's files");
        seat = seat_of(of->engine, of, limits, of->trunk);
        if (!seat)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "prepare a box");
        seat->is_template = is_template;
        seat->shared_with = shared_with;
        seat->mounts = mounts;
        r = begin(seat, e);
        if (r < 0) {
                free(seat);
                return r;
        }
        trunk_ref(of->trunk);
        if (mounts)
                mounts_ref(mounts);
        *ret = seat;
        return 0;
}

/* -- forking a context ---------------------------------------------------------------------------------------- */

struct trunk *seat_trunk(struct seat *seat, struct cloche_err *e)
{
        if (!seat->is_template || seat->state != SEAT_READY) {
                err_set(e, CLOCHE_E_STATE, "the context was not made to be forked");
                return NULL;
        }
        if (seat->own_trunk)
                return seat->own_trunk;
        seat->own_trunk = trunk_new(&seat->box);
        if (!seat->own_trunk) {
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "prepare to fork a context");
                return NULL;
        }
        seat->own_trunk->beneath = trunk_ref(seat->trunk);
        seat->own_trunk->counted_in = seat->counted_in;
        seat->counted_in = NULL;
        return seat->own_trunk;
}

/* Count a new box on the trunk. */
static int count_in(struct trunk *trunk, struct tally **ret, struct cloche_err *e)
{
        if (!trunk->above && (trunk->above = calloc(1, sizeof(*trunk->above))))
                trunk->above->refs = 1;
        if (!trunk->above)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "count the forks of a context");
        if (trunk->above->boxes >= SEAT_BRANCHES_MAX)
                return err_set(e, CLOCHE_E_STATE,
                               "%u forks of the context have not ended yet, or were not let go of by its interpreter; "
                               "at most %d can be",
                               trunk->above->boxes, SEAT_BRANCHES_MAX);
        trunk->above->boxes++;
        trunk->above->refs++;
        *ret = trunk->above;
        return 0;
}

int seat_branch(struct cloche_engine *engine, struct trunk *trunk, const struct seat_order *order, struct seat **ret,
                struct cloche_err *e)
{
        struct seat *seat = seat_of(engine, NULL, &order->limits, trunk);
        int r = seat ? count_in(trunk, &seat->counted_in, e) : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "fork a context");

        if (r < 0) {
                free(seat);
                return r;
        }
        seat->shared_with = order->shared_with;
        seat->is_template = order->is_template;
        seat->holds_fork = order->holds_fork;
        seat->told = order->told;
        seat->owner = order->owner;
        r = begin(seat, e);
        if (r < 0) {
                on_gone(seat->counted_in, NULL);
                free(seat);
                return r;
        }
        trunk_ref(trunk);
        *ret = seat;
        return 0;
}

int seat_fork(struct seat *seat, struct cloche_err *e)
{
        int r;

        seat->state = SEAT_MAKING;
        r = ask_for_fork(seat, e);
        if (r < 0)
                seat->state = SEAT_READY;
        return r;
}

void seat_fork_failed(struct seat *seat, const char *message)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_TEMPLATE, "fork the context: %.180s", message);
        if (seat->state == SEAT_READY)
                fail(seat, &e);
        else
                seat->fork_error = e;
}
