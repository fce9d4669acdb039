/* All sandboxes of an engine: created, listed, updated, stopped when idle. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "copy.h"
#include "sandbox/context/notebook.h"
#include "sandbox/context/prewarm.h"
#include "sandbox/environment/layer.h"
#include "sandbox/environment/mounts.h"
#include "sandbox/environment/packages.h"
#include "sandbox/environment/volumes.h"
#include "sandbox/life/deadline.h"
#include "sandbox/life/log.h"
#include "sandbox/life/metrics.h"
#include "sandbox/life/pause.h"
#include "sandbox/life/snapshot.h"
#include "sandbox/life/startup.h"
#include "sandbox/network/connections.h"
#include "sandbox/network/port.h"
#include "sandbox/process/process.h"
#include "store.h"
#include "update.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hex.h"
#include "engine/box/network.h"
#include "engine/loop/handle.h"
#include "wire/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define TIDY_EVERY_MS 1000
#define IMAGE_NAME_BYTES_MAX 300 /* NAME:TAG of the image store has less */

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

        if (!every_ns || !s->is_dirty || s->store_job || since_ns < every_ns || now_ns < s->save_retry_ns)
                return 0;
        return now_ns - s->used_ns > 1000000000u || since_ns > 2 * every_ns;
}

static void tidy(struct sandbox *s, uint64_t now_ns)
{
        sandbox_updates_settle(s);
        sandbox_store_tidy(s);
        sandbox_copies_tidy(s);
        sandbox_deadline_tidy(s, now_ns);
        sandbox_metrics_tidy(s, now_ns);
        if (s->state != SANDBOX_RUNNING)
                return;
        if (processes_running(s) > 0)
                s->is_dirty = 1;
        context_prewarm_tidy(s, now_ns);
        sandbox_connections_restart(s); /* their egress programs were killed, perhaps for memory */
        if (is_save_due(s, now_ns))
                sandbox_store_save(s, NULL, NULL);
}

static void on_tidy(uv_timer_t *timer)
{
        struct sandboxes *all = timer->data;
        uint64_t now_ns = clock_now_ns();
        struct sandbox *s;

        TAILQ_FOREACH (s, &all->list, link)
                tidy(s, now_ns);
        context_notebooks_tidy(all, now_ns);
        sandbox_layers_tidy(all, now_ns);
        sandbox_pool_tidy(all, now_ns);
        sandbox_pool_fill(all);
}

void sandbox_registry_turn(struct sandboxes *all)
{
        struct sandbox *s, *next;

        if (!all->has_put_off) /* the usual case: each outcome causes a turn */
                return;
        all->has_put_off = 0;
        for (s = TAILQ_FIRST(&all->list); s; s = next) {
                next = TAILQ_NEXT(s, link);
                sandbox_turn(s);
        }
        for (s = TAILQ_FIRST(&all->pool); s; s = next) {
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
                       : sandbox_store_load(all, e);
}

int sandboxes_new(const struct sandboxes_options *opt, struct sandboxes **ret, struct cloche_err *e)
{
        struct sandboxes *all = calloc(1, sizeof(*all));
        int r = 0;

        if (!all)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "set up the sandboxes");
        all->engine = opt->engine;
        all->boxes = opt->boxes ? opt->boxes : &sandbox_boxes_of_keeper;
        all->options = *opt;
        TAILQ_INIT(&all->list);
        TAILQ_INIT(&all->pool);
        sandbox_pool_init(all);
        TAILQ_INIT(&all->requests);
        TAILQ_INIT(&all->ended);
        TAILQ_INIT(&all->released);
        TAILQ_INIT(&all->package_jobs);
        TAILQ_INIT(&all->volumes);
        TAILQ_INIT(&all->snapshots);
        all->state_fd = all->shell_fd = all->files_fd = all->gemrc_fd = -EBADF;
        all->state_dir = opt->state_dir ? strdup(opt->state_dir) : NULL;
        all->preview_host = opt->preview_host ? strdup(opt->preview_host) : NULL;
        all->network = opt->network ? json_deep_copy(opt->network) : json_object();
        all->gemrc = opt->gemrc ? json_string(opt->gemrc) : NULL;
        all->env = opt->env ? json_deep_copy(opt->env) : json_object();
        all->turn_timer = handle_timer(&all->engine->loop, all);
        all->tidy_timer = handle_timer(&all->engine->loop, all);
        all->refill_timer = handle_timer(&all->engine->loop, all);
        if (!all->refill_timer || !all->turn_timer || !all->tidy_timer || (opt->state_dir && !all->state_dir) ||
            (opt->preview_host && !all->preview_host))
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "set up the sandboxes");
        if (r == 0 && (r = network_policy_check(all->engine->network_names, all->network, e)) < 0)
                err_wrap(e, "--network");
        if (r == 0 && sandbox_requests_watch(all) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "set up the sandboxes");
        if (r == 0 && (all->shell_fd = hold_program(all->engine, SANDBOX_SHELL, 0555, e)) < 0)
                r = all->shell_fd;
        if (r == 0 && (all->files_fd = hold_program(all->engine, SANDBOX_FILES, 0111, e)) < 0)
                r = all->files_fd;
        if (r == 0 && opt->gemrc)
                all->gemrc_fd = fd_from_bytes("gemrc", opt->gemrc, strlen(opt->gemrc));
        if (r == 0 && opt->gemrc && all->gemrc_fd < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, -all->gemrc_fd, "hold the configuration of gem");
        sandbox_deadline_open(all);
        if (r == 0)
                r = open_state(all, e);
        if (r < 0) {
                sandboxes_free(all);
                return r;
        }
        sandbox_packages_tidy(all); /* of a process that was killed meanwhile */
        uv_timer_start(all->tidy_timer, on_tidy, TIDY_EVERY_MS, TIDY_EVERY_MS);
        *ret = all;
        return 0;
}

int sandboxes_has(const struct sandboxes *all, int64_t principal, const char *name)
{
        return sandbox_find(all, principal, name) != NULL;
}

int sandboxes_state_fd(const struct sandboxes *all)
{
        return all->state_fd;
}

int sandboxes_state_read(const struct sandboxes *all, const char *name, size_t size_max, json_t **ret)
{
        _cleanup_fd_ int fd = openat(all->state_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        json_error_t why;

        if (fd < 0)
                return -errno;
        *ret = sandbox_store_read_json(fd, (off_t)size_max, &why);
        return *ret ? 0 : -EIO;
}

int sandboxes_state_write(const struct sandboxes *all, const char *name, const char *text)
{
        return sandbox_store_write_text(all->state_fd, name, text);
}

const json_t *sandboxes_labels(const struct sandboxes *all, int64_t principal, const char *name)
{
        const struct sandbox *s = sandbox_find(all, principal, name);

        return s ? s->labels : NULL;
}

void sandboxes_each_image(const struct sandboxes *all, void (*each)(void *data, const char *name, const char *image),
                          void *data)
{
        const struct sandbox *s;

        TAILQ_FOREACH (s, &all->list, link)
                if (!s->is_deleted && s->image.name[0])
                        each(data, s->name, s->image.name);
        TAILQ_FOREACH (s, &all->pool, link)
                if (!s->is_deleted && s->image.name[0])
                        each(data, "made ahead", s->image.name);
}

void sandboxes_stop(struct sandboxes *all, void (*done)(void *data), void *data)
{
        struct sandbox *s;

        all->is_stopping = 1;
        all->on_stopped = done;
        all->stopped_data = data;
        sandbox_packages_tidy(all);
        TAILQ_FOREACH (s, &all->list, link)
                if (!s->is_deleted) {
                        s->cause = "as the daemon ends";
                        if (s->state == SANDBOX_PAUSED && s->plan == SANDBOX_STAYS) /* the next daemon finds it so */
                                s->has_files_only = all->state_fd >= 0;
                        sandbox_stop(s, 1);
                }
        TAILQ_FOREACH (s, &all->pool, link)
                sandbox_stop(s, 0);
        sandboxes_schedule_turn(all);
}

void sandboxes_report_unsaved(struct sandboxes *all, const struct cloche_err *e)
{
        struct sandbox *s;

        all->is_stopping = 1;
        TAILQ_FOREACH (s, &all->list, link)
                if (all->state_fd >= 0 && s->has_box && (s->is_dirty || s->store_job) && !s->is_deleted &&
                    s->state != SANDBOX_STARTING)
                        sandbox_store_failed(s, e);
}

void sandboxes_free(struct sandboxes *all)
{
        struct sandbox *s;

        if (!all)
                return;
        sandbox_packages_free(all);
        while ((s = TAILQ_FIRST(&all->list)))
                sandbox_end(s);
        while ((s = TAILQ_FIRST(&all->pool)))
                sandbox_end(s);
        sandbox_volumes_free(all);
        snapshots_free(all);
        sandbox_pool_done(all);
        context_notebooks_free(all);
        handle_close(all->turn_check);
        handle_close(all->refill_timer);
        handle_close(all->turn_timer);
        handle_close(all->tidy_timer);
        fd_close(&all->state_fd);
        fd_close(&all->shell_fd);
        fd_close(&all->files_fd);
        fd_close(&all->gemrc_fd);
        free(all->state_dir);
        free(all->preview_host);
        json_decref(all->network);
        json_decref(all->env);
        json_decref(all->gemrc);
        free(all);
}

struct sandboxes_count sandboxes_count(const struct sandboxes *all)
{
        struct sandboxes_count count = {.running = all->running - sandbox_pool_running(all),
                                        .requests = all->request_count};
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

/* root implies it. */
static int wants_writable_root(const json_t *params)
{
        return json_is_true(json_object_get(params, "writableRoot")) || json_is_true(json_object_get(params, "root"));
}

/* True if a pooled sandbox may fit: most limits of its box are fixed; the limits named here can be
 * changed while it runs. */
static int is_usual(const struct sandboxes *all, const json_t *params)
{
        static const char *const changeable[] = {"memoryBytes", "pids", "cpuPercent"};
        json_t *limits = json_object_get(params, "limits");
        size_t count = 0;

        for (size_t i = 0; i < sizeof(changeable) / sizeof(changeable[0]); i++)
                count += json_object_get(limits, changeable[i]) != NULL;
        return count == json_object_size(limits) && !json_object_get(params, "mount") &&
               !json_object_get(params, "snapshot") &&
               !(wants_writable_root(params) && sandboxes_have_scratch(all)) && /* it reserves bytes of its caller */
               !json_object_get(params, "packages") && !json_object_get(params, "volumes");
}

void sandbox_make_up_name(const char *kind, char ret[SANDBOX_MADE_UP_SIZE])
{
        unsigned char chance[6];
        int n = snprintf(ret, SANDBOX_MADE_UP_SIZE, "%.10s-", kind);

        if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
                memset(chance, 0, sizeof(chance));
        hex_write(ret + n, chance, sizeof(chance));
}

/* create answers only when the sandbox runs, so that it returns the kernel's errors. */
static void create_runs(struct sandbox_request *request)
{
        json_t *object = sandbox_json(request->sandbox);

        json_object_set_new(object, "created", json_boolean(request->state != NULL));
        sandbox_request_result(request, object, NULL);
}

static void created(struct sandbox_request *request, const struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;

        if (e) {
                sandbox_request_fail(request, e, NULL);
                sandbox_delete(s);
        } else {
                create_runs(request);
        }
}

static void adopt(struct sandbox_request *request, struct sandbox *s)
{
        TAILQ_REMOVE(&request->all->requests, request, link);
        TAILQ_INSERT_TAIL(&s->requests, request, link);
        s->request_count++;
        request->sandbox = s;
        sandbox_touch(s);
}

static int check_image_name(const json_t *params, struct cloche_err *e)
{
        size_t size = json_string_length(json_object_get(params, "imageName"));

        return size <= IMAGE_NAME_BYTES_MAX
                       ? 0
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "imageName has %zu bytes, expected at most %d", size,
                                 IMAGE_NAME_BYTES_MAX);
}

static int check_writable_root(const json_t *params, const struct image *image, struct cloche_err *e)
{
        return json_is_true(json_object_get(params, "writableRoot")) && !image->name[0]
                       ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "writableRoot: name an image of the store (image)")
                       : 0;
}

static int check_root(const json_t *params, const struct image *image, struct cloche_err *e)
{
        if (!json_is_true(json_object_get(params, "root")))
                return 0;
        if (json_is_false(json_object_get(params, "writableRoot")))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "root has a writable root: leave writableRoot out, or set it to true");
        if (!image->name[0])
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "root: name an image of the store (image)");
        return 0;
}

/* The pool that may have such a sandbox, and the kind of the request; its objects are borrowed.
 * POOLS: none has. */
static unsigned pool_of(const struct sandboxes *all, int64_t principal, const json_t *params, const struct image *image,
                        struct sandbox_kind *ret)
{
        json_t *env = json_object_get(params, "env"), *network = json_object_get(params, "network");

        *ret = (struct sandbox_kind){.image = *image,
                                     .env = json_object_size(env) > 0 ? env : NULL,
                                     .network = network && !json_equal(network, all->network) ? network : NULL,
                                     .principal = image_has_commands(image) ? principal : 0,
                                     .has_root = json_is_true(json_object_get(params, "root")),
                                     .has_writable_root = wants_writable_root(params)};
        if (!is_usual(all, params))
                return POOLS;
        if (ret->env || ret->network)
                return POOL_OTHER;
        if (!image->name[0])
                return POOL_OWN;
        return ret->has_root ? POOL_ROOT : ret->has_writable_root ? POOL_WRITABLE : POOL_STORE;
}

/* NULL: none runs already. */
static struct sandbox *take_pooled(struct sandbox_request *request, const struct image *image, const char *name)
{
        struct sandbox_kind kind;
        const unsigned pool = pool_of(request->all, request->principal, request->params, image, &kind);

        return pool < POOLS ? sandbox_pool_take(request->all, &kind, pool, request->principal, name) : NULL;
}

static void use_image(struct sandbox *s, const struct image *image, const json_t *params)
{
        image_drop(&s->image);
        s->image = *image;
        image_hold(&s->image);
        s->image_name = json_incref(json_object_get(params, "imageName"));
        s->commands = json_incref(json_object_get(params, "startup"));
        s->packages = json_incref(json_object_get(params, "packages"));
        s->has_writable_root = wants_writable_root(params);
        s->has_root = json_is_true(json_object_get(params, "root"));
}

void sandbox_use_commands(struct sandbox *s, const struct image *image, json_t *startup)
{
        struct image earlier = s->image;

        s->image = *image;
        image_hold(&s->image);
        image_drop(&earlier);
        sandbox_replace(&s->commands, startup);
}

/* Commands of the request take the place of those of the snapshot. */
static int begin_with(const struct snapshot *snapshot, struct sandbox *s, json_t *startup, struct cloche_err *e)
{
        struct image image;
        int r = snapshot_begin(snapshot, s, e);

        image = s->image;
        if (r == 0)
                r = image_take_startup(s->all->engine, startup, &image, e);
        if (r == 0 && startup)
                sandbox_use_commands(s, &image, startup);
        return r;
}

int handle_CREATE(struct sandbox_request *request, struct cloche_err *e)
{
        const char *name = sandbox_request_text(request, "sandbox");
        static char is_new;
        char made_up[SANDBOX_MADE_UP_SIZE], packages[PACKAGES_KEY_SIZE] = "";
        const struct snapshot *snapshot = NULL;
        struct image image;
        struct sandbox *s;
        int r;

        if (request->sandbox) { /* the sandbox it waited for runs */
                create_runs(request);
                return 0;
        }
        if (!name)
                sandbox_make_up_name("box", made_up);
        name = name ? name : made_up;
        r = sandbox_name_check(name, e);
        s = r < 0 ? NULL : sandbox_find(request->all, request->principal, name);
        if (r == 0)
                r = check_image_name(request->params, e);
        if (r == 0)
                r = image_take_members(request->all->engine, request->params, &image, e);
        if (r == 0)
                r = image_take_startup(request->all->engine, json_object_get(request->params, "startup"), &image, e);
        if (r == 0 && !s)
                r = check_root(request->params, &image, e);
        if (r == 0 && !s)
                r = snapshot_find_for(request, &snapshot, e);
        if (r == 0 && !s && !snapshot)
                r = check_writable_root(request->params, &image, e);
        if (r == 0 && !s)
                r = sandbox_packages_check_name(request->all, request->principal, name, e);
        if (r == 0 && !s)
                r = sandbox_mounts_check(request, e);
        if (r == 0 && !s)
                r = sandbox_volumes_check(request, e);
        if (r == 0 && !s)
                r = sandbox_check_count(request->all, request->principal, 1, e);
        if (r == 0 && !s && json_object_get(request->params, "packages"))
                r = sandbox_packages_find(request, &image, handle_CREATE, packages, e);
        if (r > 0) /* it is called again */
                return 0;
        if (r == 0 && !s) {
                s = take_pooled(request, &image, name);
                s = s ? s : sandbox_new(request->all, request->principal, name, e);
                if (s) {
                        sandbox_mounts_define(s, request);
                        s->volumes = json_incref(json_object_get(request->params, "volumes"));
                        s->is_untried = s->state == SANDBOX_STOPPED;
                        if (!snapshot)
                                use_image(s, &image, request->params);
                        r = snapshot ? begin_with(snapshot, s, json_object_get(request->params, "startup"), e) : 0;
                }
                r = !s ? -(int)e->code : r < 0 ? r : sandbox_update_begin(s, request, request->params, created, e);
                if (r == 0 && packages[0])
                        r = sandbox_layer_give(s, packages, e);
                if (r == 0 && snapshot)
                        r = snapshot_give(snapshot, s, e);
                if (s && r >= 0)
                        sandbox_log(s, "created", snapshot ? "from a snapshot" : NULL);
                if (s && r < 0)
                        sandbox_delete(s);
                request->state = &is_new;
        }
        if (r < 0)
                return r;
        adopt(request, s);
        if (r > 0)
                return 0;
        if (s->state == SANDBOX_RUNNING && sandbox_startup_is_over(s)) {
                create_runs(request);
                return 0;
        }
        sandbox_request_set_phase(request, REQUEST_WAITING);
        TAILQ_INSERT_TAIL(&s->waiting, request, turn_link);
        sandbox_start(s);
        return 0;
}

int handle_GET(struct sandbox_request *request, struct cloche_err *e)
{
        (void)e;
        sandbox_request_result(request, sandbox_json(request->sandbox), NULL);
        return 0;
}

static void log_change(const struct sandbox_request *request)
{
        char names[200] = "";
        const char *name;
        json_t *value;
        size_t size = 0;

        json_object_foreach (request->params, name, value)
                if (strcmp(name, "sandbox") != 0 && size < sizeof(names))
                        size += (size_t)snprintf(names + size, sizeof(names) - size, "%s%s", size ? ", " : "", name);
        if (*names) /* a save changes none */
                sandbox_log(request->sandbox, "changed", names);
}

/* Answer with the sandbox, or with the error if there is one. */
static void report(struct sandbox_request *request, const struct cloche_err *e)
{
        if (e) {
                sandbox_request_fail(request, e, NULL);
                return;
        }
        log_change(request);
        sandbox_request_result(request, sandbox_json(request->sandbox), NULL);
}

int handle_UPDATE(struct sandbox_request *request, struct cloche_err *e)
{
        int r = sandbox_update_begin(request->sandbox, request, request->params, report, e);

        if (r == 0)
                report(request, NULL);
        return r < 0 ? r : 0;
}

int handle_STOP(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        int r = sandbox_mounts_want_sync(s, request, e);

        if (r < 0)
                return r;
        sandbox_pause_forget(s);
        if (s->state == SANDBOX_STOPPED)
                sandbox_request_result(request, sandbox_json(s), NULL);
        else
                sandbox_stop(s, 1); /* the outcome comes when it has stopped */
        return 0;
}

static void save_cancel(struct sandbox_request *request)
{
        sandbox_store_detach(request->sandbox, request);
}

static void on_saved(void *data, const struct cloche_err *e)
{
        struct sandbox_request *request = data;

        request->cancel = NULL;
        report(request, e);
}

int handle_SAVE(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;

        if (s->all->state_fd < 0)
                return err_set(e, CLOCHE_E_STATE,
                               "the daemon has no state directory (--state-dir): nothing can be saved");
        if ((s->state == SANDBOX_STOPPING || s->state == SANDBOX_DROPPING) && s->plan == SANDBOX_SAVES)
                return 0; /* the outcome comes with the stop */
        if (s->state != SANDBOX_RUNNING && sandbox_is_live(s) && s->is_dirty)
                return err_set(e, CLOCHE_E_STATE,
                               "the sandbox \"%s\" is paused, and changed since it was saved: resume it first",
                               s->name);
        if (s->state != SANDBOX_RUNNING) {
                sandbox_request_result(request, sandbox_json(s), NULL); /* it is saved completely */
                return 0;
        }
        request->cancel = save_cancel;
        sandbox_store_save(s, on_saved, request);
        return 0;
}

int handle_DELETE(struct sandbox_request *request, struct cloche_err *e)
{
        const char *name = sandbox_request_text(request, "sandbox");
        struct sandbox *s = NULL;
        int r = name ? sandbox_name_check(name, e)
                     : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the field \"sandbox\" is missing: the name of a sandbox");

        if (r == 0)
                s = sandbox_find(request->all, request->principal, name);
        if (r < 0)
                return r;
        if (s)
                sandbox_delete(s);
        sandbox_request_result(request, json_object(), NULL);
        return 0;
}

static void events_cancel(struct sandbox_request *request)
{
        request->cancel = NULL;
        sandbox_port_watch_need(request->sandbox);
}

int handle_EVENTS(struct sandbox_request *request, struct cloche_err *e)
{
        (void)e;
        request->cancel = events_cancel;
        sandbox_port_watch_need(request->sandbox);
        return 0;
}
