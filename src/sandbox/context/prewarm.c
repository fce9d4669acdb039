#include "prewarm.h"

#include "base/clock.h"
#include "base/err.h"
#include "engine/loop/handle.h"
#include "sandbox/core/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define AFTER_MS 30
#define KEPT_NS UINT64_C(60000000000)

struct ahead {
        struct sandbox *sandbox;
        const struct runtime *runtime; /* of the last context */
        struct seat *seat;
        uv_timer_t *timer;
        uint64_t wanted_ns;
};

static void drop_seat(struct ahead *ahead)
{
        seat_free(ahead->seat);
        ahead->seat = NULL;
}

void ahead_gone(struct sandbox *s)
{
        struct ahead *ahead = s->ahead;

        if (!ahead)
                return;
        s->ahead = NULL;
        drop_seat(ahead);
        handle_close(ahead->timer);
        free(ahead);
}

void ahead_tidy(struct sandbox *s, uint64_t now_ns)
{
        if (s->ahead && s->ahead->seat && now_ns - s->ahead->wanted_ns > KEPT_NS)
                drop_seat(s->ahead);
}

static void on_seat(struct seat *seat, const struct cloche_err *e)
{
        struct ahead *ahead = seat->owner;

        if (e) /* the request for the next context gets the error */
                drop_seat(ahead);
}

static void make(struct ahead *ahead)
{
        struct sandbox *s = ahead->sandbox;
        struct keeper_box_limits limits = limits_of_box(&s->limits);
        const struct runtime *runtime;
        struct template *template;
        struct cloche_err e;

        if (ahead->seat || s->state != SANDBOX_RUNNING || !keeper_may_make(s->all->engine->keeper) ||
            notebook_find(s->all, s->principal, ahead->runtime->name, &runtime, &template, &e) < 0 ||
            template->state != TEMPLATE_READY || seat_new(template, &limits, NULL, s->box, 0, &ahead->seat, &e) < 0)
                return;
        ahead->seat->told = on_seat;
        ahead->seat->owner = ahead;
}

static void on_timer(uv_timer_t *timer)
{
        make(timer->data);
}

void ahead_want(struct sandbox *s, const struct runtime *runtime)
{
        struct ahead *ahead = s->ahead;

        if (!ahead) {
                ahead = calloc(1, sizeof(*ahead));
                if (ahead)
                        ahead->timer = handle_timer(&s->all->engine->loop, ahead);
                if (!ahead || !ahead->timer) {
                        free(ahead);
                        return;
                }
                ahead->sandbox = s;
                s->ahead = ahead;
        }
        if (ahead->runtime != runtime)
                drop_seat(ahead);
        ahead->runtime = runtime;
        ahead->wanted_ns = clock_now_ns();
        uv_timer_start(ahead->timer, on_timer, AFTER_MS, 0);
}

/* True if no process of the instance was killed, and its limits are still the sandbox's. */
static int is_well(const struct seat *seat, const struct keeper_box_limits *limits)
{
        char byte;

        return seat->state == SEAT_READY && !seat->trunk->is_dead &&
               memcmp(&seat->limits, limits, sizeof(*limits)) == 0 &&
               recv(seat->channel.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

struct seat *ahead_take(struct sandbox *s, const struct runtime *runtime)
{
        struct ahead *ahead = s->ahead;
        struct keeper_box_limits limits = limits_of_box(&s->limits);
        struct seat *seat = ahead && ahead->runtime == runtime ? ahead->seat : NULL;

        if (!seat || seat->state != SEAT_READY) /* an instance that is not ready is left for the next context */
                return NULL;
        ahead->seat = NULL;
        if (is_well(seat, &limits))
                return seat;
        seat_free(seat);
        return NULL;
}
