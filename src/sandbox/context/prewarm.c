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
        struct instance *instance;
        uv_timer_t *timer;
        uint64_t wanted_ns;
};

static void drop_instance(struct ahead *ahead)
{
        instance_free(ahead->instance);
        ahead->instance = NULL;
}

void ahead_gone(struct sandbox *s)
{
        struct ahead *ahead = s->ahead;

        if (!ahead)
                return;
        s->ahead = NULL;
        drop_instance(ahead);
        handle_close(ahead->timer);
        free(ahead);
}

void ahead_tidy(struct sandbox *s, uint64_t now_ns)
{
        if (s->ahead && s->ahead->instance && now_ns - s->ahead->wanted_ns > KEPT_NS)
                drop_instance(s->ahead);
}

static void on_instance(struct instance *instance, const struct cloche_err *e)
{
        struct ahead *ahead = instance->owner;

        if (e) /* the request for the next context gets the error */
                drop_instance(ahead);
}

static void make(struct ahead *ahead)
{
        struct sandbox *s = ahead->sandbox;
        struct keeper_box_limits limits = limits_of_box(&s->limits);
        const struct runtime *runtime;
        struct template *template;
        struct cloche_err e;

        if (ahead->instance || s->state != SANDBOX_RUNNING || !keeper_may_make(s->all->engine->keeper) ||
            notebook_find(s->all, s->principal, ahead->runtime->name, &runtime, &template, &e) < 0 ||
            template->state != TEMPLATE_READY ||
            instance_new(template, &limits, NULL, s->box, 0, &ahead->instance, &e) < 0)
                return;
        ahead->instance->on_ready = on_instance;
        ahead->instance->owner = ahead;
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
                drop_instance(ahead);
        ahead->runtime = runtime;
        ahead->wanted_ns = clock_now_ns();
        uv_timer_start(ahead->timer, on_timer, AFTER_MS, 0);
}

/* True if no process of the instance was killed, and its limits are still the sandbox's. */
static int is_well(const struct instance *instance, const struct keeper_box_limits *limits)
{
        char byte;

        return instance->state == INSTANCE_READY && !instance->parent_box->is_dead &&
               memcmp(&instance->limits, limits, sizeof(*limits)) == 0 &&
               recv(instance->channel.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

struct instance *ahead_take(struct sandbox *s, const struct runtime *runtime)
{
        struct ahead *ahead = s->ahead;
        struct keeper_box_limits limits = limits_of_box(&s->limits);
        struct instance *instance = ahead && ahead->runtime == runtime ? ahead->instance : NULL;

        if (!instance ||
            instance->state != INSTANCE_READY) /* an instance that is not ready is left for the next context */
                return NULL;
        ahead->instance = NULL;
        if (is_well(instance, &limits))
                return instance;
        instance_free(instance);
        return NULL;
}
