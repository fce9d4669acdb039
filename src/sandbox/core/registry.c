/* All sandboxes of an engine: created, listed, updated, stopped when idle. */
#include "internal.h"
#include "sandbox/context/notebook.h"
#include "sandbox/context/prewarm.h"
#include "update.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hex.h"
#include "engine/loop/handle.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define TIDY_EVERY_MS 1000

/* -- life ----------------------------------------------------------------------------------------------------- */

/* Copy a program for boxes into a sealed memory file: it cannot be changed, and all boxes share its
 * pages. mode: a program without read permission runs not dumpable from its first instruction
 * (would_dump, fs/exec.c). */
static int hold_program(const struct cloche_engine *engine, const char *name, mode_t mode, struct cloche_err *e)
{
        _cleanup_fd_ int from_fd = -EBADF, fd = -EBADF;
        struct stat st;

        from_fd = openat(engine->libexec_fd, name, O_RDONLY | O_CLOEXEC);
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (from_fd < 0 || fd < 0 || fstat(from_fd, &st) < 0)
                return err_os(e, CLOCHE_E_SPAWN, errno, "open %s/%s", engine->libexec_dir, name);
        for (off_t left = st.st_size; left > 0;) {
                ssize_t n = sendfile(fd, from_fd, NULL, (size_t)left);

                if (n <= 0)
                        return err_os(e, CLOCHE_E_SPAWN, n < 0 ? errno : EIO, "read %s/%s", engine->libexec_dir, name);
                left -= n;
        }
        if (fchmod(fd, mode) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return err_os(e, CLOCHE_E_SPAWN, errno, "hold %s/%s", engine->libexec_dir, name);
        return TAKE_FD(fd);
}

/* A save waits for a pause in the use, up to twice its interval. */
static int is_save_due(const struct sandbox *s, uint64_t now_ns)
{
        uint64_t every_ns = s->all->options.save_every_ms * 1000000, since_ns = now_ns - s->kept_ns;

        if (!every_ns || !s->is_dirty || s->store_job || since_ns < every_ns || now_ns < s->save_again_ns)
                return 0;
        return now_ns - s->used_ns > 1000000000u || since_ns > 2 * every_ns;
}

static void tidy(struct sandbox *s, uint64_t now_ns)
{
        if (s->state != SANDBOX_RUNNING)
                return;
        if (processes_running(s) > 0)
                s->is_dirty = 1;
        ahead_tidy(s, now_ns);
        if (s->network_is_over) /* its egress program was killed, perhaps for memory */
                connections_again(s);
        if (s->idle_ms && !sandbox_is_busy(s) && now_ns - s->used_ns > s->idle_ms * 1000000 &&
            now_ns >= s->save_again_ns)
                sandbox_stop(s, 1);
        else if (is_save_due(s, now_ns))
                store_save(s, NULL, NULL);
}

static void on_tidy(uv_timer_t *timer)
{
        struct sandboxes *all = timer->data;
        uint64_t now_ns = clock_now_ns();
        struct sandbox *s;

        TAILQ_FOREACH (s, &all->list, link)
                tidy(s, now_ns);
        spares_tidy(all, now_ns);
        spares_fill(all);
}

void registry_turn(struct sandboxes *all)
{
        struct sandbox *s, *next;

        if (!all->has_put_off) /* the usual case: each outcome causes a turn */
                return;
        all->has_put_off = 0;
        for (s = TAILQ_FIRST(&all->list); s; s = next) {
                next = TAILQ_NEXT(s, link);
                sandbox_turn(s);
        }
        for (s = TAILQ_FIRST(&all->spares); s; s = next) {
                next = TAILQ_NEXT(s, link);
                sandbox_turn(s);
        }
}

static int open_state(struct sandboxes *all, struct cloche_err *e)
{
        all->state_fd = -EBADF;
        if (!all->state_dir)
                return 0;
        if (mkdir(all->state_dir, 0700) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "make the state directory %s", all->state_dir);
        all->state_fd = open(all->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return all->state_fd < 0
                       ? err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the state directory %s", all->state_dir)
                       : store_load(all, e);
}

int sandboxes_new(const struct sandboxes_options *opt, struct sandboxes **ret, struct cloche_err *e)
{
        struct sandboxes *all = calloc(1, sizeof(*all));
        int r = 0;

        if (!all)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "begin with sandboxes");
        all->engine = opt->engine;
        all->options = *opt;
        TAILQ_INIT(&all->list);
        TAILQ_INIT(&all->spares);
        TAILQ_INIT(&all->asks);
        TAILQ_INIT(&all->ended);
        TAILQ_INIT(&all->released);
        all->state_fd = all->shell_fd = all->files_fd = -EBADF;
        all->state_dir = opt->state_dir ? strdup(opt->state_dir) : NULL;
        all->preview_host = opt->preview_host ? strdup(opt->preview_host) : NULL;
        all->network = opt->network ? json_deep_copy(opt->network) : json_object();
        all->turn_timer = handle_timer(&all->engine->loop, all);
        all->tidy_timer = handle_timer(&all->engine->loop, all);
        all->refill_timer = handle_timer(&all->engine->loop, all);
        if (!all->refill_timer || !all->turn_timer || !all->tidy_timer || (opt->state_dir && !all->state_dir) ||
            (opt->preview_host && !all->preview_host))
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "begin with sandboxes");
        if (r == 0 && (r = network_policy_check(all->network, e)) < 0)
                err_wrap(e, "--network");
        if (r == 0 && asks_watch(all) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "begin with sandboxes");
        if (r == 0 && (all->shell_fd = hold_program(all->engine, SANDBOX_SHELL, 0555, e)) < 0)
                r = all->shell_fd;
        if (r == 0 && (all->files_fd = hold_program(all->engine, SANDBOX_FILES, 0111, e)) < 0)
                r = all->files_fd;
        if (r == 0)
                r = open_state(all, e);
        if (r < 0) {
                sandboxes_free(all);
                return r;
        }
        uv_timer_start(all->tidy_timer, on_tidy, TIDY_EVERY_MS, TIDY_EVERY_MS);
        *ret = all;
        return 0;
}

void sandboxes_stop(struct sandboxes *all, void (*done)(void *data), void *data)
{
        struct sandbox *s;

        all->is_stopping = 1;
        all->on_stopped = done;
        all->stopped_data = data;
        TAILQ_FOREACH (s, &all->list, link)
                sandbox_stop(s, 1);
        TAILQ_FOREACH (s, &all->spares, link)
                sandbox_stop(s, 0);
        sandboxes_turn_soon(all);
}

void sandboxes_abandon(struct sandboxes *all, const struct cloche_err *e)
{
        struct sandbox *s;

        all->is_stopping = 1;
        TAILQ_FOREACH (s, &all->list, link)
                if (all->state_fd >= 0 && s->has_box && (s->is_dirty || s->store_job) && !s->is_deleted &&
                    s->state != SANDBOX_STARTING)
                        store_failed(s, e);
}

void sandboxes_free(struct sandboxes *all)
{
        struct sandbox *s;

        if (!all)
                return;
        while ((s = TAILQ_FIRST(&all->list)))
                sandbox_end(s);
        while ((s = TAILQ_FIRST(&all->spares)))
                sandbox_end(s);
        notebooks_free(all);
        handle_close(all->turn_check);
        handle_close(all->refill_timer);
        handle_close(all->turn_timer);
        handle_close(all->tidy_timer);
        fd_close(&all->state_fd);
        fd_close(&all->shell_fd);
        fd_close(&all->files_fd);
        free(all->state_dir);
        free(all->preview_host);
        json_decref(all->network);
        free(all);
}

struct sandboxes_count sandboxes_count(const struct sandboxes *all)
{
        struct sandboxes_count count = {.running = all->running - spares_running(all), .asks = all->ask_count};
        const struct sandbox *s;
        const struct session *session;

        TAILQ_FOREACH (s, &all->list, link) {
                count.sandboxes++;
                count.processes += processes_running(s);
                TAILQ_FOREACH (session, &s->sessions, link)
                        count.sessions++;
        }
        return count;
}

/* -- the methods ---------------------------------------------------------------------------------------------- */

/* True if a pooled sandbox fits: its variables and network are fixed, and so are most limits of its
 * box; the limits named here can be changed while it runs. */
static int is_usual(const struct sandboxes *all, const json_t *params)
{
        static const char *const changeable[] = {"memoryBytes", "pids", "cpuPercent"};
        const json_t *network = json_object_get(params, "network");
        json_t *limits = json_object_get(params, "limits");
        size_t count = 0;

        for (size_t i = 0; i < sizeof(changeable) / sizeof(changeable[0]); i++)
                count += json_object_get(limits, changeable[i]) != NULL;
        return count == json_object_size(limits) && json_object_size(json_object_get(params, "env")) == 0 &&
               (!network || json_equal(network, all->network));
}

static void make_up_name(char *ret)
{
        unsigned char chance[6];

        if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
                memset(chance, 0, sizeof(chance));
        memcpy(ret, "box-", 4);
        hex_write(ret + 4, chance, sizeof(chance));
}

/* create answers only when the sandbox runs, so that it returns the kernel's errors. */
static void create_runs(struct sandbox_ask *ask)
{
        json_t *object = sandbox_json(ask->sandbox);

        json_object_set_new(object, "created", json_boolean(ask->state != NULL));
        ask_result(ask, object, NULL);
}

static void created(struct sandbox_ask *ask, const struct cloche_err *e)
{
        struct sandbox *s = ask->sandbox;

        if (e) {
                ask_fail(ask, e, NULL);
                sandbox_delete(s);
        } else {
                create_runs(ask);
        }
}

static void adopt(struct sandbox_ask *ask, struct sandbox *s)
{
        TAILQ_REMOVE(&ask->all->asks, ask, link);
        TAILQ_INSERT_TAIL(&s->asks, ask, link);
        s->ask_count++;
        ask->sandbox = s;
        sandbox_touch(s);
}

int begin_CREATE(struct sandbox_ask *ask, struct cloche_err *e)
{
        const char *name = ask_text(ask, "sandbox");
        static char is_new;
        char made_up[20];
        struct sandbox *s;
        int r;

        if (ask->sandbox) { /* the sandbox it waited for runs */
                create_runs(ask);
                return 0;
        }
        if (!name)
                make_up_name(made_up);
        name = name ? name : made_up;
        r = sandbox_name_check(name, e);
        s = r < 0 ? NULL : sandbox_find(ask->all, ask->principal, name);
        if (r == 0 && !s)
                r = sandbox_check_count(ask->all, ask->principal, e);
        if (r == 0 && !s) {
                s = is_usual(ask->all, ask->params) ? spare_take(ask->all, ask->principal, name) : NULL;
                s = s ? s : sandbox_new(ask->all, ask->principal, name, e);
                r = s ? update_begin(s, ask, ask->params, created, e) : -(int)e->code;
                if (s && r < 0)
                        sandbox_delete(s);
                ask->state = &is_new;
        }
        if (r < 0)
                return r;
        adopt(ask, s);
        if (r > 0)
                return 0;
        if (s->state == SANDBOX_RUNNING) {
                create_runs(ask);
                return 0;
        }
        ask->is_waiting = 1;
        TAILQ_INSERT_TAIL(&s->waiting, ask, turn_link);
        sandbox_start(s);
        return 0;
}

int begin_LIST(struct sandbox_ask *ask, struct cloche_err *e)
{
        json_t *list = json_array();
        struct sandbox *s;

        (void)e;
        TAILQ_FOREACH (s, &ask->all->list, link)
                if (s->principal == ask->principal && !s->is_deleted)
                        json_array_append_new(list, sandbox_json(s));
        ask_result(ask, json_pack("{s:o}", "sandboxes", list), NULL);
        return 0;
}

int begin_GET(struct sandbox_ask *ask, struct cloche_err *e)
{
        (void)e;
        ask_result(ask, sandbox_json(ask->sandbox), NULL);
        return 0;
}

static void updated(struct sandbox_ask *ask, const struct cloche_err *e)
{
        if (e)
                ask_fail(ask, e, NULL);
        else
                ask_result(ask, sandbox_json(ask->sandbox), NULL);
}

int begin_UPDATE(struct sandbox_ask *ask, struct cloche_err *e)
{
        int r = update_begin(ask->sandbox, ask, ask->params, updated, e);

        if (r == 0)
                updated(ask, NULL);
        return r < 0 ? r : 0;
}

int begin_STOP(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct sandbox *s = ask->sandbox;

        (void)e;
        if (s->state == SANDBOX_STOPPED)
                ask_result(ask, sandbox_json(s), NULL);
        else
                sandbox_stop(s, 1); /* the outcome comes when it has stopped */
        return 0;
}

static void save_cancel(struct sandbox_ask *ask)
{
        store_forget(ask->sandbox, ask);
}

static void on_saved(void *data, const struct cloche_err *e)
{
        struct sandbox_ask *ask = data;

        ask->cancel = NULL;
        if (e)
                ask_fail(ask, e, NULL);
        else
                ask_result(ask, sandbox_json(ask->sandbox), NULL);
}

int begin_SAVE(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct sandbox *s = ask->sandbox;

        if (s->all->state_fd < 0)
                return err_set(e, CLOCHE_E_STATE,
                               "the daemon has no state directory (--state-dir): nothing can be saved");
        if (s->state == SANDBOX_STOPPING && s->wants_save)
                return 0; /* the outcome comes with the stop */
        if (s->state != SANDBOX_RUNNING) {
                ask_result(ask, sandbox_json(s), NULL); /* it is saved completely */
                return 0;
        }
        ask->cancel = save_cancel;
        store_save(s, on_saved, ask);
        return 0;
}

int begin_DELETE(struct sandbox_ask *ask, struct cloche_err *e)
{
        const char *name = ask_text(ask, "sandbox");
        struct sandbox *s = NULL;
        int r = name ? sandbox_name_check(name, e)
                     : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the field \"sandbox\" is missing: the name of a sandbox");

        if (r == 0)
                s = sandbox_find(ask->all, ask->principal, name);
        if (r < 0)
                return r;
        if (s)
                sandbox_delete(s);
        ask_result(ask, json_object(), NULL);
        return 0;
}

static void events_cancel(struct sandbox_ask *ask)
{
        ask->cancel = NULL;
        port_watch_need(ask->sandbox);
}

int begin_EVENTS(struct sandbox_ask *ask, struct cloche_err *e)
{
        (void)e;
        ask->cancel = events_cancel;
        port_watch_need(ask->sandbox);
        return 0;
}
