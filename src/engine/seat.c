#include "seat.h"

#include "base/err.h"
#include "base/fd.h"
#include "engine.h"
#include "handle.h"
#include "template.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

struct trunk *trunk_ref(struct trunk *trunk)
{
        trunk->refs++;
        return trunk;
}

void trunk_unref(struct trunk *trunk)
{
        if (!trunk || --trunk->refs > 0)
                return;
        box_drop_later(&trunk->box);
        trunk_unref(trunk->beneath);
        free(trunk);
}

static void discard(struct seat *seat)
{
        handle_close(seat->init_poll);
        channel_close(&seat->channel);
        stdio_close(&seat->stdio);
        box_drop_later(&seat->box);
        trunk_unref(seat->trunk);
        mounts_unref(seat->mounts);
        free(seat);
}

void seat_free(struct seat *seat)
{
        if (!seat)
                return;
        if (seat->state == SEAT_MAKING)
                seat->abandoned = 1; /* the keeper's answer will find it so */
        else
                discard(seat);
}

static void fail(struct seat *seat, const struct cloche_err *e)
{
        seat->state = SEAT_READY;
        if (seat->abandoned)
                discard(seat);
        else if (seat->shared_with != KEEPER_NO_BOX)
                seat->told(seat, e);
        else
                template_seat_failed(seat->of, seat, e);
}

static void on_forked(void *data, struct keeper_reply *reply)
{
        struct seat *seat = data;

        if (reply->error || seat->abandoned) {
                fail(seat, reply->error);
                return;
        }
        (void)engine_box_usage(seat->of->engine, seat->shared_with == KEEPER_NO_BOX ? seat->box.id : seat->shared_with, &seat->before, NULL);
        seat->state = SEAT_READY;
        if (seat->shared_with != KEEPER_NO_BOX)
                seat->told(seat, NULL);
        else
                template_seat_ready(seat->of, seat);
}

/* The call may be written before the child exists: it waits in the socket. */
static int ask_for_fork(struct seat *seat, struct cloche_err *e)
{
        int fds[KEEPER_FORK_FDS], agent_fd = -EBADF;
        int r = seat->is_template ? stdio_open_null(&seat->stdio, e) : stdio_open(&seat->stdio, e);

        if (r == 0)
                r = channel_open(&seat->channel, FRAME_BYTES_MAX, &agent_fd, e);
        for (int i = 0; r == 0 && i < 3; i++)
                fds[i] = seat->stdio.guest_fds[i];
        fds[3] = agent_fd;
        fds[4] = seat->box.fork_fd;
        if (r == 0)
                r = keeper_box_fork_later(seat->box.keeper, seat->box.id, fds, seat->is_template ? 5 : 4, on_forked, seat,
                                          &seat->fork, e);
        fd_close(&agent_fd);
        fd_close(&seat->box.fork_fd);
        stdio_close_guest(&seat->stdio);
        return r;
}

static enum init_op question(enum seat_state state)
{
        return state == SEAT_RENEWING ? INIT_RENEW : state == SEAT_ENTERING ? INIT_KILL : INIT_MARK;
}

/* That of a box that shares is asked only to hear that it has arrived (keeper/protocol.h): for what costs nothing, a signal to a pid nobody has. */
static int ask_whether_arrived(struct box *box, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_KILL, .pid = INT32_MAX, .signal = SIGCONT};
        int r = fd_send(box->control_fd, &request, sizeof(request), NULL, 0);

        return r < 0 ? err_os(e, CLOCHE_E_STATE, -r, "the box's init is gone") : 0;
}

static void on_init_answer(uv_poll_t *poll, int status, int events)
{
        struct seat *seat = poll->data;
        int is_renewed = seat->state == SEAT_RENEWING, is_clean = 0;
        struct cloche_err e = {0};
        int r = box_hear_answer(&seat->box, question(seat->state), &is_clean, &e);

        (void)status;
        (void)events;
        if (r == 0)
                return;
        handle_close(seat->init_poll);
        seat->init_poll = NULL;
        seat->state = SEAT_MAKING;
        if (r > 0 && is_renewed && !is_clean)
                r = err_set(&e, CLOCHE_E_STATE, "the run left something in its box");
        if (r > 0)
                r = ask_for_fork(seat, &e);
        if (r < 0)
                fail(seat, &e);
}

/* What the child does in its box must come after the answer: done before the box is remembered, it would count as having
 * been there. */
static int ask_init(struct seat *seat, enum seat_state state, struct cloche_err *e)
{
        int r;

        r = handle_poll(&seat->of->engine->loop, seat->box.control_fd, seat, &seat->init_poll);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "hear the first process of a box");
        /* libuv made it nonblocking; other questions to init wait for their answers. */
        fcntl(seat->box.control_fd, F_SETFL, fcntl(seat->box.control_fd, F_GETFL) & ~O_NONBLOCK);
        seat->state = state;
        uv_poll_start(seat->init_poll, UV_READABLE, on_init_answer);
        return state == SEAT_ENTERING ? ask_whether_arrived(&seat->box, e) : box_tell(&seat->box, question(state), e);
}

/* A box with mounts is not used again: it need not be remembered. */
static int go_on(struct seat *seat, struct cloche_err *e)
{
        if (seat->shared_with != KEEPER_NO_BOX)
                return ask_init(seat, SEAT_ENTERING, e);
        return seat->is_template || seat->mounts ? ask_for_fork(seat, e) : ask_init(seat, SEAT_MARKING, e);
}

static void on_made(void *data, struct keeper_reply *reply)
{
        struct seat *seat = data;
        struct cloche_err e = {0};
        struct keeper_box made;
        int r = reply->error ? -1 : keeper_box_take(reply->answer->box, reply->fds, reply->fd_count, &made, &e);

        if (reply->error)
                e = *reply->error;
        if (r == 0) {
                box_adopt(&seat->box, seat->trunk->box.keeper, &made);
                r = seat->abandoned ? -1 : 0;
        }
        if (r == 0 && seat->mounts)
                r = mounts_serve(seat->mounts, &seat->box, &e);
        if (r == 0 && seat->shared_with == KEEPER_NO_BOX) /* the sandbox's files are its own */
                r = template_furnish(seat->of, seat, &e);
        if (r == 0)
                r = go_on(seat, &e);
        if (r < 0)
                fail(seat, &e);
}

static struct seat *seat_of(struct template *of, const struct keeper_box_limits *limits, struct trunk *trunk)
{
        struct seat *seat = calloc(1, sizeof(*seat));

        if (!seat)
                return NULL;
        seat->of = of;
        seat->limits = *limits;
        seat->trunk = trunk;
        seat->shared_with = KEEPER_NO_BOX;
        seat->channel.fd = seat->box.control_fd = seat->box.pidfd = seat->box.fork_fd = -EBADF;
        seat->stdio = STDIO_NONE;
        return seat;
}

int seat_renew(struct template *of, const struct keeper_box_limits *limits, struct box *box, struct trunk *trunk, struct seat **ret,
               struct cloche_err *e)
{
        struct seat *seat = seat_of(of, limits, trunk);
        int r;

        if (!seat) {
                box_drop_later(box);
                trunk_unref(trunk);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "use a box again");
        }
        seat->box = *box;
        seat->is_used = 1;
        box->made = 0;
        r = ask_init(seat, SEAT_RENEWING, e);
        if (r < 0) {
                discard(seat);
                return r;
        }
        *ret = seat;
        return 0;
}

int seat_new(struct template *of, const struct keeper_box_limits *limits, struct mounts *mounts, uint32_t shared_with, int is_template, struct seat **ret,
             struct cloche_err *e)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        struct seat *seat = seat_of(of, limits, of->trunk);
        int r = seat && spec ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "prepare a box");

        if (r == 0 && shared_with != KEEPER_NO_BOX && (mounts || is_template))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a %s does not share a sandbox's files", is_template ? "template" : "box with mounts");
        if (r == 0) {
                seat->is_template = is_template;
                seat->shared_with = shared_with;
                spec->limits = *limits;
                spec->parent = of->trunk->box.id;
                spec->shared_with = shared_with;
                spec->is_template = (uint32_t)is_template;
                spec->optional_guards = of->engine->optional_guards;
                if (mounts)
                        mounts_describe(mounts, spec);
                r = keeper_box_make_later(of->engine->keeper, spec, on_made, seat, e);
        }
        free(spec);
        if (r < 0) {
                free(seat);
                return r;
        }
        trunk_ref(of->trunk);
        if (mounts)
                seat->mounts = mounts_ref(mounts);
        *ret = seat;
        return 0;
}
