/* A prewarmed interpreter for the next context of a sandbox. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "prewarm.h"

#include "base/clock.h"
#include "base/err.h"
#include "sandbox/core/sandboxes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define AFTER_MS 30
#define KEPT_NS UINT64_C(60000000000)

struct prewarm {
        struct sandbox *sandbox;
        const struct runtime *runtime; /* of the last context */
        struct template *set_up;       /* of the last context, which is used here too; NULL: the notebook's */
        struct instance *instance;
        struct sandbox_timer *timer;
        uint64_t wanted_ns;
};

static void drop_instance(struct prewarm *prewarm)
{
        instance_free(prewarm->instance);
        prewarm->instance = NULL;
}

static void use_set_up(struct prewarm *prewarm, struct template *set_up)
{
        if (prewarm->set_up)
                prewarm->set_up->users--;
        prewarm->set_up = set_up;
        if (set_up)
                set_up->users++;
}

void context_prewarm_close(struct sandbox *s)
{
        struct prewarm *prewarm = s->prewarm;

        if (!prewarm)
                return;
        s->prewarm = NULL;
        drop_instance(prewarm);
        use_set_up(prewarm, NULL);
        sandbox_timer_close(prewarm->timer);
        free(prewarm);
}

void context_prewarm_tidy(struct sandbox *s, uint64_t now_ns)
{
        if (!s->prewarm || now_ns - s->prewarm->wanted_ns <= KEPT_NS)
                return;
        drop_instance(s->prewarm);
        use_set_up(s->prewarm, NULL);
}

static void on_instance(struct instance *instance, const struct cloche_err *e)
{
        struct prewarm *prewarm = instance->owner;

        if (e) /* the request for the next context gets the error */
                drop_instance(prewarm);
}

static int find_template(struct prewarm *prewarm, struct template **ret, struct cloche_err *e)
{
        struct sandbox *s = prewarm->sandbox;
        const struct runtime *runtime;

        *ret = prewarm->set_up;
        return *ret ? 0
                    : context_notebook_find(s->all, s->principal, &s->image, prewarm->runtime->name, &runtime, ret, e);
}

/* An interpreter has the mounts where they were when it was made. Programs of the sandbox can
 * rename a directory above one at any time, so a sandbox with mounts gets each interpreter when
 * it needs one. So does one with a writable root, whose programs can change files that the
 * interpreter has in memory. */
static int may_make(const struct prewarm *prewarm)
{
        const struct sandbox *s = prewarm->sandbox;

        return !prewarm->instance && !s->mount && !s->volumes && !s->has_writable_root && s->state == SANDBOX_RUNNING &&
               keeper_may_make(s->all->engine->keeper);
}

static void make(struct prewarm *prewarm)
{
        struct sandbox *s = prewarm->sandbox;
        struct keeper_box_limits limits = limits_of_box(&s->limits);
        struct template *template;
        struct cloche_err e;

        if (!may_make(prewarm) || find_template(prewarm, &template, &e) < 0 || template->state != TEMPLATE_READY ||
            instance_new(template, &limits, NULL, s->box, 0, &prewarm->instance, &e) < 0)
                return;
        prewarm->instance->on_ready = on_instance;
        prewarm->instance->owner = prewarm;
}

static void on_timer(uv_timer_t *timer)
{
        make(timer->data);
}

void context_prewarm_schedule(struct sandbox *s, const struct runtime *runtime, struct template *set_up)
{
        struct prewarm *prewarm = s->prewarm;

        if (!prewarm) {
                prewarm = calloc(1, sizeof(*prewarm));
                if (prewarm)
                        prewarm->timer = sandbox_timer_new(s, prewarm);
                if (!prewarm || !prewarm->timer) {
                        free(prewarm);
                        return;
                }
                prewarm->sandbox = s;
                s->prewarm = prewarm;
        }
        if (prewarm->runtime != runtime || prewarm->set_up != set_up)
                drop_instance(prewarm);
        prewarm->runtime = runtime;
        if (prewarm->set_up != set_up)
                use_set_up(prewarm, set_up);
        prewarm->wanted_ns = clock_now_ns();
        sandbox_timer_start(prewarm->timer, on_timer, AFTER_MS, 0);
}

/* True if no process of the instance was killed, and its limits are still the sandbox's. */
static int is_well(const struct instance *instance, const struct keeper_box_limits *limits)
{
        char byte;

        return instance->state == INSTANCE_READY && !instance->parent_box->is_dead &&
               memcmp(&instance->limits, limits, sizeof(*limits)) == 0 &&
               recv(instance->channel.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

struct instance *context_prewarm_take(struct sandbox *s, const struct runtime *runtime, const struct template *set_up)
{
        struct prewarm *prewarm = s->prewarm;
        struct keeper_box_limits limits = limits_of_box(&s->limits);
        struct instance *instance =
                prewarm && prewarm->runtime == runtime && prewarm->set_up == set_up ? prewarm->instance : NULL;

        if (!instance ||
            instance->state != INSTANCE_READY) /* an instance that is not ready is left for the next context */
                return NULL;
        prewarm->instance = NULL;
        if (is_well(instance, &limits))
                return instance;
        instance_free(instance);
        return NULL;
}
