/* Interpreters of contexts that are started from the sandbox's own files, where the prepared one
 * does not fit: it has other files in memory, or other users. The box is one beside the
 * sandbox's (keeper/box-shared.c): it has the sandbox's mounts, users and rights, and no right
 * of a template. So it runs the set-ups of the notebook and of the caller's prefix itself. Runs
 * in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "context.h"

#include "base/err.h"
#include "base/utf8.h"
#include "engine/warm/template.h"

#include <stdlib.h>
#include <string.h>

#define SETUP_PATIENCE_MS 120000 /* as for the set-up of a notebook's template (notebook.c) */
#define LAST_WORDS_BYTES 4096    /* of the interpreter, which holds the reason of Python's */

const char *context_cold_reason(const struct sandbox *s)
{
        return s->has_root ? "the sandbox has root, whose users a forked interpreter does not have" : NULL;
}

/* -- the set-ups -------------------------------------------------------------------------------------------------- */

/* The next one that was not sent: first the notebook's, whose names the caller's uses. */
static int find_setup(struct context *c, const struct setup **ret, struct cloche_err *e)
{
        struct sandbox *s = c->sandbox;
        const struct runtime *runtime;
        struct template *template = c->set_up;
        int r = 0;

        if (c->setups_left > 1 || !template)
                r = context_notebook_find(s->all, s->principal, &s->image, c->runtime->name, &runtime, &template, e);
        if (r == 0)
                *ret = template->setup;
        return r;
}

static void on_slow_setup(uv_timer_t *timer)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_CONTEXT_ENDED, "the interpreter was not ready within %d s: its programs may be too slow",
                SETUP_PATIENCE_MS / 1000);
        context_end(timer->data, &e);
}

static int send_setup(struct context *c, struct cloche_err *e)
{
        const struct setup *setup;
        int r = find_setup(c, &setup, e);

        if (r == 0 && buf_append(channel_out(&c->channel), setup->prepare.data, setup->prepare.size) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "send the set-up");
        if (r < 0)
                return r;
        channel_flush(&c->channel);
        sandbox_timer_start(c->end_timer, on_slow_setup, SETUP_PATIENCE_MS, 0);
        return 0;
}

int context_begin_setups(struct context *c, struct cloche_err *e)
{
        c->setups_left = c->set_up ? 2 : 1;
        context_note_memory(c);
        c->channel.client.last_id = BUILD_ID; /* set-ups have ids up to this */
        return send_setup(c, e);
}

static int go_on(struct context *c, struct cloche_err *e)
{
        if (--c->setups_left > 0)
                return send_setup(c, e);
        context_streams_take(c); /* no cell printed this */
        for (int i = 0; i < STREAMS; i++)
                context_stream_renew(&c->streams[i]);
        return context_open(c, e);
}

void context_setup_answered(struct context *c, const struct rpc_message *m)
{
        struct cloche_err e;

        sandbox_timer_stop(c->end_timer);
        if (m->kind == RPC_ERROR) {
                context_read_error(m, &e);
                err_wrap(&e,
                         c->set_up && c->setups_left == 1 ? "the set-up of the prefix \"%s\", in a context"
                                                          : "the set-up of contexts of %s",
                         c->set_up && c->setups_left == 1 ? c->prefix : c->runtime->name);
        } else if (go_on(c, &e) == 0) {
                return;
        }
        context_end(c, &e);
}

/* -- the start ---------------------------------------------------------------------------------------------------- */

static void on_started(struct instance *instance, const struct cloche_err *e)
{
        struct context *c = instance->owner;
        struct cloche_err error;

        if (e)
                error = *e;
        if (e || context_adopt(c, instance, "open", &error) < 0)
                context_end(c, &error);
}

/* Its programs see the sandbox's files, and a prefix's only while its template is set up. */
int context_cold_check(const struct context *c, const char *why, struct cloche_err *e)
{
        if (c->is_forkable)
                return err_set(e, CLOCHE_E_STATE,
                               "a context that starts cold cannot be forked, and it has to: %.150s; create it without "
                               "forkable",
                               why);
        if (c->set_up && c->set_up->setup->files.count > 0)
                return err_set(e, CLOCHE_E_STATE,
                               "the prefix \"%s\" has files, which a context that starts cold has not, and it has to: "
                               "%.150s; use a prefix without files",
                               c->prefix, why);
        return 0;
}

void context_start_cold(struct context *c, const char *why)
{
        const struct instance_cold_order order = {.runtime = c->runtime,
                                                  .image = &c->sandbox->image,
                                                  .limits = limits_of_box(&c->sandbox->limits),
                                                  .shared_with = c->sandbox->box,
                                                  .on_ready = on_started,
                                                  .owner = c};
        struct cloche_err e;
        size_t n = utf8_cut(why, strlen(why), sizeof(c->cold_why) - 1);

        memcpy(c->cold_why, why, n);
        c->cold_why[n] = '\0';
        if (context_cold_check(c, c->cold_why, &e) < 0 ||
            instance_start_cold(c->sandbox->all->engine, &order, &c->instance, &e) < 0)
                context_end(c, &e);
}

void context_explain_cold_end(struct context *c, struct cloche_err *e)
{
        const struct spool *spool = &c->streams[STREAM_ERR].spool;
        uint64_t end, from;
        size_t n = 0;
        char *text;

        context_streams_take(c);
        end = spool_end(spool);
        from = spool_begin(spool);
        if (end - from > LAST_WORDS_BYTES)
                from = end - LAST_WORDS_BYTES;
        text = spool_copy(spool, from, (size_t)(end - from), &n);
        if (text && n > 0)
                runtime_explain_end(c->runtime, text, n, e);
        free(text);
}
