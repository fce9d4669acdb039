/* The servers of a run's mounts: configured, seeded, collected. Runs in: the engine, on its loop;
 * cloche-fs alone opens the directories. */
#include "mount.h"

#include "changeset.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "engine/loop/engine.h"
#include "engine/loop/handle.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHANGES_PAGE 20000 /* changes in one answer: a few MB */
/* All pages of a mount, some million changes: bounds the memory that a hijacked server can use. */
#define CHANGES_BYTES_MAX (512u << 20)
#define PLACE_PATIENCE_MS 20000
/* Timeout of one answer: a server hijacked by its guest must not hold the run for ever. */
#define COLLECT_PATIENCE_MS 10000
/* Timeout of the start of servers, if something waits for it: their user may stop them. */
#define SERVE_PATIENCE_MS 20000

static int on_changes(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);

/* -- life ------------------------------------------------------------------------------------------------------- */

int mounts_new(struct cloche_engine *engine, struct mount_options *options, int caller_fd, struct mounts **ret,
               struct cloche_err *e)
{
        struct mounts *mounts = calloc(1, sizeof(*mounts));
        int own_fd = -EBADF;

        if (mounts && caller_fd >= 0)
                own_fd = fcntl(caller_fd, F_DUPFD_CLOEXEC, 3);
        if (!mounts || (caller_fd >= 0 && own_fd < 0)) {
                mount_options_done(options);
                free(mounts);
                return err_os(e, CLOCHE_E_RESOURCE, mounts ? errno : ENOMEM, "prepare the mounts");
        }
        mounts->caller_fd = own_fd;
        mounts->refs = 1;
        mounts->engine = engine;
        mounts->options = *options;
        *options = (struct mount_options){0};
        for (size_t i = 0; i < mounts->options.count; i++)
                mounts->rows[i] = (struct mount){.all = mounts,
                                                 .option = &mounts->options.rows[i],
                                                 .channel.fd = -EBADF,
                                                 .contents_fd = -EBADF,
                                                 .seed_fd = -EBADF};
        *ret = mounts;
        return 0;
}

struct mounts *mounts_ref(struct mounts *mounts)
{
        mounts->refs++;
        return mounts;
}

static void stop_timer(struct mounts *mounts)
{
        handle_close(mounts->timer);
        mounts->timer = NULL;
}

void mounts_close(struct mounts *mounts)
{
        mounts->on_denied = NULL;
        mounts->on_failed = NULL;
        mounts->on_collected = NULL;
        mounts->on_ready = NULL;
        stop_timer(mounts);
        for (size_t i = 0; i < mounts->options.count; i++) {
                mounts->rows[i].on_seeded = NULL;
                cloche_sync_free(mounts->rows[i].recovery);
                mounts->rows[i].recovery = NULL;
                channel_close(&mounts->rows[i].channel);
        }
}

void mounts_unref(struct mounts *mounts)
{
        if (!mounts || --mounts->refs > 0)
                return;
        mounts_close(mounts);
        for (size_t i = 0; i < mounts->options.count; i++) {
                json_decref(mounts->rows[i].changes);
                json_decref(mounts->rows[i].values);
                json_decref(mounts->rows[i].denials);
                json_decref(mounts->rows[i].warnings);
                json_decref(mounts->rows[i].seed);
                fd_close(&mounts->rows[i].seed_fd);
                free(mounts->rows[i].notice);
                free(mounts->rows[i].recovered);
                fd_close(&mounts->rows[i].contents_fd);
        }
        peer_close_copy(&mounts->caller_fd);
        mount_options_done(&mounts->options);
        free(mounts);
}

void mounts_describe(const struct mounts *mounts, struct keeper_box_spec *spec)
{
        spec->mount_count = (uint32_t)mounts->options.count;
        spec->file_mounts = 0;
        for (size_t i = 0; i < mounts->options.count; i++)
                if (mounts->options.rows[i].file)
                        spec->file_mounts |= 1u << i;
        for (size_t i = 0; i < mounts->options.count; i++)
                memcpy(spec->mounts[i], mounts->options.rows[i].target, sizeof(spec->mounts[i]));
}

struct mount *mounts_find(struct mounts *mounts, const char *path, const char **ret_below)
{
        const struct mount_option *option = mounts ? mount_options_find(&mounts->options, path, ret_below) : NULL;

        return option ? &mounts->rows[option - mounts->options.rows] : NULL;
}

int mounts_are_awaited(const struct mounts *mounts)
{
        for (size_t i = 0; mounts && i < mounts->options.count; i++)
                if (mounts->options.rows[i].file || json_object_get(mounts->options.rows[i].configure, "points"))
                        return 1;
        return 0;
}

/* -- answers of a server ---------------------------------------------------------------------------------------- */

static int is_collecting(const struct mounts *mounts)
{
        for (size_t i = 0; i < mounts->options.count; i++)
                if (mounts->rows[i].waiting > 0)
                        return 1;
        return 0;
}

static void check_collected(struct mounts *mounts)
{
        if (is_collecting(mounts))
                return;
        stop_timer(mounts);
        if (mounts->on_collected)
                mounts->on_collected(mounts->data);
}

static void finish_seed(struct mount *mount, const struct cloche_err *e)
{
        void (*on_seeded)(void *data, const struct cloche_err *e) = mount->on_seeded;

        if (!on_seeded)
                return;
        mount->on_seeded = NULL;
        stop_timer(mount->all);
        on_seeded(mount->seed_data, e);
}

static void fail(struct mount *mount, const struct cloche_err *e)
{
        struct mounts *mounts = mount->all;
        int was_collecting = is_collecting(mounts);
        struct cloche_err first;

        if (!mounts->error.code)
                mounts->error = *e;
        first = mounts->error;
        mount->waiting = 0;
        mounts_ref(mounts); /* a callback may drop its reference */
        finish_seed(mount, &first);
        if (mounts->on_failed)
                mounts->on_failed(mounts->data, e);
        if (was_collecting)
                check_collected(mounts);
        mounts_unref(mounts);
}

static int check_answer(const struct mount *mount, const struct rpc_message *m, struct cloche_err *e)
{
        if (m->kind == RPC_ERROR)
                return err_set(e, CLOCHE_E_MOUNT, "mount %.60s of %.80s: %s", mount->option->target,
                               mount->option->source, m->error_message);
        return 0;
}

static int on_configured(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct mount *mount = data;
        struct mounts *mounts = mount->all;
        int r = check_answer(mount, m, e);

        (void)f;
        if (r < 0)
                return r;
        mount->is_served = 1;
        for (size_t i = 0; i < mounts->options.count; i++)
                if (!mounts->rows[i].is_served)
                        return 0;
        if (mounts->on_ready) {
                stop_timer(mounts);
                mounts->on_ready(mounts->data);
        }
        return 0;
}

static int on_seed_answer(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct mount *mount = data;
        int r = check_answer(mount, m, e);

        (void)f;
        if (r == 0)
                finish_seed(mount, NULL);
        return r;
}

static int keep_contents(struct mount *mount, struct cloche_err *e)
{
        struct stat st;

        fd_close(&mount->contents_fd);
        mount->contents_fd = TAKE_FD(mount->channel.received_fd);
        if (mount->contents_fd < 0 || fstat(mount->contents_fd, &st) < 0 || !S_ISDIR(st.st_mode))
                return err_set(e, CLOCHE_E_PROTOCOL, "cloche-fs of the mount %.80s sent no directory of contents",
                               mount->option->target);
        mount->waiting = 0;
        check_collected(mount->all);
        return 0;
}

/* Answers come in the order of the requests. A server that was stopped for a while answers those
 * of a collection that failed before. */
static int is_stale(struct mount *mount)
{
        mount->requested--;
        if (mount->stale == 0)
                return 0;
        mount->stale--;
        fd_close(&mount->channel.received_fd);
        return 1;
}

static int on_contents(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct mount *mount = data;
        int r;

        (void)f;
        if (is_stale(mount))
                return 0;
        r = check_answer(mount, m, e);
        return r < 0 || !mount->waiting ? r : keep_contents(mount, e);
}

static int request_changes(struct mount *mount, struct cloche_err *e)
{
        mount->values_max = mount->all->contents_left;
        mount->requested++;
        return channel_request(&mount->channel, "changes",
                               json_pack("{s:I, s:i, s:i, s:I}", "after", (json_int_t)json_array_size(mount->changes),
                                         "limit", CHANGES_PAGE, "fileBytes", (int)FILES_CONTENT_MAX, "allBytes",
                                         (json_int_t)mount->values_max),
                               -EBADF, on_changes, e);
}

static void keep_list(json_t **place, const json_t *result, const char *name)
{
        json_t *list = json_object_get(result, name);

        if (json_array_size(list) > 0) {
                json_decref(*place);
                *place = json_incref(list);
        }
}

/* Keep a change's contents, if they came with it. -1: none were requested, or they are not where
 * the row says. */
static int keep_value(struct mount *mount, json_t *change, const struct frame *f)
{
        const json_t *place = json_object_get(change, "bytes"), *name = json_object_get(change, "contents");
        json_int_t at, n;
        int r;

        if (!place)
                return 0;
        if (!mount->values || !json_is_string(name) ||
            json_unpack((json_t *)place, "{s:I, s:I}", "at", &at, "n", &n) < 0 || at < 0 || n < 0 ||
            (uint64_t)at > f->attachments_size || (uint64_t)n > f->attachments_size - (uint64_t)at ||
            n > FILES_CONTENT_MAX)
                return -1;
        r = json_object_set_new(mount->values, json_string_value(name),
                                json_pack("[I, o]", n, files_bytes_to_value(f->attachments + at, (size_t)n)));
        mount->all->contents_left -= (uint64_t)n < mount->all->contents_left ? (uint64_t)n : mount->all->contents_left;
        json_object_del(change, "bytes");
        return r;
}

static int keep_page(struct mount *mount, json_t *page, const struct frame *f)
{
        json_t *change;
        size_t i;

        if (!json_is_array(page) || f->attachments_size > mount->values_max)
                return -1;
        json_array_foreach (page, i, change)
                if (keep_value(mount, change, f) < 0)
                        return -1;
        return json_array_extend(mount->changes, page);
}

/* After the last page, request the contents. */
static int keep_changes(struct mount *mount, const json_t *result, const struct frame *f, struct cloche_err *e)
{
        json_t *page = json_object_get(result, "changes");

        if (mount->all->timer)
                uv_timer_again(mount->all->timer);
        mount->changes_bytes += f->json_size;
        if (mount->changes_bytes > CHANGES_BYTES_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE,
                               "the list of changes of %.80s has more than %u MiB: exclude directories that need no "
                               "changes",
                               mount->option->target, CHANGES_BYTES_MAX >> 20);
        if (keep_page(mount, page, f) < 0)
                return err_set(e, CLOCHE_E_PROTOCOL, "cloche-fs of the mount %.80s sent no list of changes",
                               mount->option->target);
        keep_list(&mount->denials, result, "denials");
        keep_list(&mount->warnings, result, "warnings");
        if (json_is_true(json_object_get(result, "more")) && json_array_size(page) > 0)
                return request_changes(mount, e);
        mount->requested++;
        return channel_request(&mount->channel, "contents", json_object(), -EBADF, on_contents, e);
}

/* -- recovery of a killed sync ---------------------------------------------------------------------------------- */

/* Takes params and fd. */
static int send_seed(struct mount *mount, json_t *params, int fd, struct cloche_err *e)
{
        int r = channel_request(&mount->channel, "place", params, fd, on_seed_answer, e);

        return r < 0 ? err_wrap(e, "place a file in the mount %.60s", mount->option->target) : 0;
}

/* Send the configuration, then the requests that waited for it. */
static int configure(struct mount *mount, struct cloche_err *e)
{
        json_t *seed = mount->seed, *configuration = json_copy(mount->option->configure);
        int r;

        if (configuration) {
                json_object_set_new(configuration, "uid", json_integer(mount->all->user));
                json_object_set_new(configuration, "gid", json_integer(mount->all->group));
        }
        r = channel_request(&mount->channel, "configure", configuration, -EBADF, on_configured, e);

        mount->is_configuring = 1;
        mount->seed = NULL;
        if (r == 0 && seed)
                r = send_seed(mount, seed, TAKE_FD(mount->seed_fd), e);
        else
                json_decref(seed);
        if (r == 0 && mount->waiting)
                r = request_changes(mount, e);
        return r;
}

__attribute__((format(printf, 2, 3))) static void note(struct mount *mount, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&mount->notice, format, ap) < 0)
                mount->notice = NULL;
        va_end(ap);
}

/* The directory is served in any case: a caller who may only read it could not recover it, and gets
 * its state as a warning. */
static void on_recovered(void *data, cloche_sync *sync)
{
        struct mount *mount = data;
        struct cloche_err e = {0};
        json_t *result = NULL;
        int r = sync_result(sync, &result, &e);
        const json_t *recovered = json_array_get(json_object_get(result, "recovered"), 0);
        const char *state = json_string_value(json_object_get(recovered, "state"));
        size_t count = json_array_size(json_object_get(recovered, "paths"));

        if (r < 0 || !state)
                note(mount, "a sync that was killed could not be finished or undone: %s", e.msg);
        else if (strcmp(state, "finished") == 0 || strcmp(state, "undone") == 0)
                note(mount, "a sync that was killed was %s first, of %zu path%s", state, count, count == 1 ? "" : "s");
        else if (strcmp(state, "busy") == 0)
                note(mount, "another sync is at work there: what it writes meanwhile may be seen in part");
        json_decref(result);
        e = (struct cloche_err){0};
        if (configure(mount, &e) < 0)
                fail(mount, &e);
}

static int recover(struct mount *mount, struct cloche_err *e)
{
        const struct mounts *mounts = mount->all;
        struct cloche_sync_options opt = {.on_end = on_recovered,
                                          .data = mount,
                                          .has_caller = mounts->caller_fd >= 0,
                                          .caller_fd = mounts->caller_fd};

        mount->recovered = calloc(1, sizeof(*mount->recovered));
        if (!mount->recovered)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "recover the directory of a mount");
        mount->recovered->rows[0] = (struct changeset_row){
                .target = (char *)mount->option->target,
                .source = mount->option->source,
                .root = mount->option->root,
                .path = (char *)mount->option->path,
                .contents_fd = -EBADF,
        };
        mount->recovered->count = 1;
        mount->recovered->on_error = mount_on_error(NULL);
        mount->recovered->conflict = mount_conflict(NULL);
        mount->recovered->links = mount_links(NULL);
        opt.changes = mount->recovered;
        return sync_recover(mounts->engine, &opt, &mount->recovery, e);
}

/* -- messages of a server --------------------------------------------------------------------------------------- */

static int on_changes(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct mount *mount = data;
        int r;

        if (is_stale(mount))
                return 0;
        r = check_answer(mount, m, e);
        return r < 0 || !mount->waiting ? r : keep_changes(mount, m->result, f, e);
}

static int on_journal(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct mount *mount = data;
        int r = check_answer(mount, m, e);

        (void)f;
        if (r < 0)
                return r;
        return json_is_true(json_object_get(m->result, "journal")) ? recover(mount, e) : configure(mount, e);
}

static int on_message(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct mount *mount = data;

        (void)f;
        if (m->kind == RPC_NOTIFICATION && strcmp(m->method, "permissionDenied") == 0) {
                if (mount->all->on_denied)
                        mount->all->on_denied(mount->all->data, mount, m->params);
                return 0;
        }
        if (m->method)
                return err_set(e, CLOCHE_E_PROTOCOL, "cloche-fs of the mount %.80s sent an invalid request: \"%.40s\"",
                               mount->option->target, m->method);
        return err_set(e, CLOCHE_E_PROTOCOL,
                       "cloche-fs of the mount %.80s sent an invalid message: an answer without a request",
                       mount->option->target);
}

static void on_end(void *data, const struct cloche_err *e)
{
        struct mount *mount = data;
        struct cloche_err lost = {0};

        if (!e) {
                err_set(&lost, CLOCHE_E_MOUNT, "cloche-fs of the mount %.80s ended", mount->option->target);
                e = &lost;
        }
        fail(mount, e);
}

/* -- starting --------------------------------------------------------------------------------------------------- */

static void on_served(void *data, struct keeper_reply *reply)
{
        struct mount *mount = data;
        struct mounts *mounts = mount->all;

        mount->is_asking = 0;
        if (reply->error) {
                struct cloche_err e = *reply->error;

                if (e.os_errno == ENOTDIR && !mount->option->file)
                        err_set(&e, (enum cloche_code)e.code,
                                "it is not a directory: mount one file with \"kind\": \"file\" beside its \"path\"");
                err_wrap(&e, "mount %.60s of %.80s", mount->option->target, mount->option->source);
                fail(mount, &e);
        }
        mounts_unref(mounts);
}

static int serve(struct mount *mount, uint32_t index, struct keeper *keeper, uint32_t box, struct cloche_err *e)
{
        struct keeper_service_spec *spec = calloc(1, sizeof(*spec));
        _cleanup_fd_ int server_fd = -EBADF;
        int r = spec ? channel_open(&mount->channel, FRAME_BYTES_MAX, &server_fd, e)
                     : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "serve a mount");

        if (r == 0) {
                mount->channel.takes = S_IFDIR;
                mount->channel.on_message = on_message;
                mount->channel.on_end = on_end;
                mount->channel.data = mount;
                r = channel_watch(&mount->channel, &mount->all->engine->loop, e);
        }
        if (r == 0) /* the request waits in the socket */
                r = channel_request(&mount->channel, "journal", json_object(), -EBADF, on_journal, e);
        if (r == 0) {
                spec->service = KEEPER_SERVICE_MOUNT;
                spec->mount = index;
                spec->root = mount->option->root;
                spec->is_written = (uint32_t)mount->option->is_written;
                strcpy(spec->path, mount->option->path);
                r = keeper_serve_async(keeper, box, spec, (int[]){server_fd, mount->all->caller_fd},
                                       mount->all->caller_fd < 0 ? 1 : 2, on_served, mount, e);
        }
        if (r == 0) {
                mount->is_asking = 1;
                mounts_ref(mount->all);
        }
        free(spec);
        return r;
}

/* -- timeouts --------------------------------------------------------------------------------------------------- */

static void on_impatient(uv_timer_t *timer)
{
        struct mounts *mounts = mounts_ref(timer->data);
        struct cloche_err e;

        for (size_t i = 0; i < mounts->options.count && mounts->timer; i++) {
                struct mount *mount = &mounts->rows[i];

                if (!mount->on_seeded && !mount->waiting && (mount->is_served || !mounts->on_ready))
                        continue;
                if (!mount->is_served && mounts->on_ready)
                        err_os(&e, CLOCHE_E_MOUNT, ETIMEDOUT, "serve the mount %.60s", mount->option->target);
                else if (mount->on_seeded)
                        err_os(&e, CLOCHE_E_MOUNT, ETIMEDOUT, "place a file in the mount %.60s", mount->option->target);
                else
                        err_os(&e, CLOCHE_E_MOUNT, ETIMEDOUT, "collect the changes in %.80s", mount->option->target);
                fail(mount, &e);
        }
        mounts_unref(mounts);
}

static int start_timer(struct mounts *mounts, uint64_t patience_ms)
{
        if (!mounts->timer)
                mounts->timer = handle_timer(&mounts->engine->loop, mounts);
        if (mounts->timer)
                uv_timer_start(mounts->timer, on_impatient, patience_ms, patience_ms);
        return mounts->timer ? 0 : -ENOMEM;
}

int mounts_serve(struct mounts *mounts, struct keeper *keeper, uint32_t box, struct cloche_err *e)
{
        int r = 0;

        if (mounts->on_ready && start_timer(mounts, SERVE_PATIENCE_MS) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "serve the mounts");
        for (size_t i = 0; r == 0 && i < mounts->options.count; i++)
                r = serve(&mounts->rows[i], (uint32_t)i, keeper, box, e);
        return r;
}

/* -- seeding files ---------------------------------------------------------------------------------------------- */

static const char *kind_of(uint32_t mode)
{
        return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : "symlink";
}

static int describe_place(const char *below, int file_fd, uint32_t mode, json_t **ret, struct cloche_err *e)
{
        json_t *params = json_pack("{s:o, s:s, s:i}", "path", files_bytes_to_json(below, strlen(below)), "kind",
                                   kind_of(mode), "mode", S_ISLNK(mode) ? 0777 : (int)(mode & 07777));
        char target[INIT_PATH_MAX] = "";
        ssize_t size;

        if (!params)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "place a file in a mount");
        *ret = params;
        if (!S_ISLNK(mode))
                return 0;
        size = pread(file_fd, target, sizeof(target) - 1, 0);
        if (size > 0)
                json_object_set_new(params, "target", files_bytes_to_json(target, (size_t)size));
        else
                json_decref(params);
        return size > 0 ? 0 : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the symbolic link %.100s has no target", below);
}

int mount_seed(struct mount *mount, const char *below, int file_fd, uint32_t mode,
               void (*done)(void *data, const struct cloche_err *e), void *data, struct cloche_err *e)
{
        int own_fd = S_ISREG(mode) ? fcntl(file_fd, F_DUPFD_CLOEXEC, 3) : -EBADF, r = 0;
        json_t *params = NULL;

        if (mount->all->error.code || mount->channel.fd < 0)
                r = err_set(e, CLOCHE_E_MOUNT, "the mount %.60s: %.150s", mount->option->target, mount->all->error.msg);
        else if (mount->option->file)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                            "the file %.100s of the run cannot be written: a file of the host is mounted there",
                            mount->option->target);
        else if (S_ISREG(mode) && own_fd < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "place a file in the mount %.60s", mount->option->target);
        if (r == 0)
                r = describe_place(below, file_fd, mode, &params, e);
        if (r < 0) {
                fd_close(&own_fd);
                return r;
        }
        if (start_timer(mount->all, PLACE_PATIENCE_MS) < 0) {
                json_decref(params);
                fd_close(&own_fd);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "place a file in the mount %.60s", mount->option->target);
        }
        if (mount->is_configuring) {
                r = send_seed(mount, params, own_fd, e);
                if (r < 0)
                        return r;
        } else {
                mount->seed = params;
                mount->seed_fd = own_fd;
        }
        mount->on_seeded = done;
        mount->seed_data = data;
        return 0;
}

void mounts_detach_seed(struct mounts *mounts, const void *data)
{
        for (size_t i = 0; mounts && i < mounts->options.count; i++)
                if (mounts->rows[i].on_seeded && mounts->rows[i].seed_data == data) {
                        mounts->rows[i].on_seeded = NULL;
                        stop_timer(mounts);
                }
}

/* -- collecting ------------------------------------------------------------------------------------------------- */

void mounts_collect(struct mounts *mounts, uint64_t contents_max)
{
        (void)start_timer(mounts, COLLECT_PATIENCE_MS); /* without memory there is no timeout but the box's life */
        mounts->contents_left = contents_max;
        for (size_t i = 0; i < mounts->options.count; i++) {
                struct mount *mount = &mounts->rows[i];

                if (mount->is_lost)
                        continue;
                json_decref(mount->changes); /* of a sync of a sandbox that failed */
                json_decref(mount->values);
                mount->changes = json_array();
                mount->values = contents_max > 0 ? json_object() : NULL;
                mount->changes_bytes = 0;
                mount->waiting = 1;
        }
        for (size_t i = 0; i < mounts->options.count; i++) {
                struct mount *mount = &mounts->rows[i];
                struct cloche_err e = {0};

                if (mount->is_lost)
                        continue;
                if (mount->channel.fd < 0 || mount->channel.is_ended)
                        err_set(&e, CLOCHE_E_MOUNT, "cloche-fs of the mount %.80s ended: its changes are lost",
                                mount->option->target);
                else if (mount->changes && mount->is_configuring)
                        (void)request_changes(mount, &e);
                if (e.code)
                        fail(mount, &e);
        }
}

size_t mounts_collect_again(struct mounts *mounts)
{
        size_t count = 0;

        mounts->error = (struct cloche_err){0};
        for (size_t i = 0; i < mounts->options.count; i++) {
                struct mount *mount = &mounts->rows[i];

                mount->stale = mount->requested;
                mount->is_lost = mount->channel.fd < 0 || mount->channel.is_ended;
                count += !mount->is_lost;
                if (!mount->is_lost)
                        continue;
                json_decref(mount->changes);
                mount->changes = NULL;
                fd_close(&mount->contents_fd);
        }
        if (count > 0)
                mounts_collect(mounts, 0);
        return count;
}
