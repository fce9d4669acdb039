/* A sync: writes changes of a box to the host's directories, in one transaction of cloche-sync for
 * each directory (src/helpers/sync/README.md). The event handler decides about every change before
 * the first write. Runs in: the engine, on its loop; cloche-sync alone writes. */
#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "base/state.h"
#include "changeset.h"
#include "engine/loop/engine.h"
#include "engine/loop/handle.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 20000 /* changes in one message */

struct cloche_sync_question {
        struct cloche_sync *sync; /* NULL: the sync is over */
        size_t row, index;
};

enum sync_state {
        SYNC_DECIDING,
        SYNC_WRITING, /* directory by directory */
        SYNC_ENDED,
        SYNC_FREED, /* by its owner: the keeper's answer is awaited */
        SYNC_STATES
};

static const unsigned transitions[SYNC_STATES] = {
        [SYNC_DECIDING] = STATE_TO(SYNC_WRITING) | STATE_TO(SYNC_ENDED),
        [SYNC_WRITING] = STATE_TO(SYNC_ENDED),
        [SYNC_ENDED] = STATE_TO(SYNC_FREED),
};

struct cloche_sync {
        struct cloche_engine *engine;
        const struct cloche_changeset *set; /* owned by the caller */
        const char *on_error, *conflict, *links;
        int is_dry;
        int is_recovery; /* only finish or undo the work of a killed sync */
        cloche_file_handler on_event;
        void *event_data;
        unsigned events;
        cloche_run *run; /* the run that made the changes, or NULL */
        int caller_fd;   /* rights to use; owned, or -EBADF */
        void (*on_end)(void *data, cloche_sync *sync);
        void *data;

        /* Next change to decide; then, for each row, the changes not skipped. */
        size_t row, index;
        struct cloche_sync_question *question;
        json_t *chosen[KEEPER_MOUNTS_MAX];
        json_t *aborted; /* by the handler: {path, reason} */

        /* The current row. */
        struct channel channel;
        size_t sent; /* number of chosen[row] sent */
        uv_timer_t *step_timer;

        json_t *result;
        struct cloche_err error;
        enum sync_state state;
        int is_awaited; /* the keeper's answer to the request to start cloche-sync */
};

static void set_state(struct cloche_sync *sync, enum sync_state state)
{
        STATE_CHECK(transitions, sync->state, state);
        sync->state = state;
}

static void step(struct cloche_sync *sync);

/* The first step is not taken from within cloche_sync_start. */
static void on_step(uv_timer_t *timer)
{
        step(timer->data);
}

static void schedule_step(struct cloche_sync *sync)
{
        uv_timer_start(sync->step_timer, on_step, 0, 0);
}

static void free_now(struct cloche_sync *sync)
{
        for (size_t i = 0; i < KEEPER_MOUNTS_MAX; i++)
                json_decref(sync->chosen[i]);
        json_decref(sync->aborted);
        json_decref(sync->result);
        peer_close_copy(&sync->caller_fd);
        free(sync);
}

/* Keep the result of the directories written before the error. */
static void keep_error(struct cloche_sync *sync, const struct cloche_err *e)
{
        if (sync->state == SYNC_WRITING && sync->row > 0)
                json_object_set_new(sync->result, "error",
                                    json_pack("{s:s, s:s}", "name", cloche_code_name(e->code), "message", e->msg));
        else
                sync->error = *e;
}

static void finish(struct cloche_sync *sync, const struct cloche_err *e)
{
        if (sync->state >= SYNC_ENDED)
                return;
        if (e)
                keep_error(sync, e);
        set_state(sync, SYNC_ENDED);
        channel_close(&sync->channel);
        if (sync->question)
                sync->question->sync = NULL; /* its answer is then ignored */
        sync->question = NULL;
        uv_stop(&sync->engine->loop);
        if (sync->on_end)
                sync->on_end(sync->data, sync);
}

/* -- events ----------------------------------------------------------------------------------------------------- */

static void send_event(struct cloche_sync *sync, enum cloche_file_event event, json_t *about)
{
        char *text = about ? json_dumps(about, JSON_COMPACT) : NULL;

        json_decref(about);
        if (text && sync->on_event && sync->events & 1u << event)
                sync->on_event(sync->event_data, sync->run, event, text, NULL);
        free(text);
}

static json_t *path_of(const struct cloche_sync *sync, const json_t *path)
{
        json_t *change = json_pack("{s:O}", "path", path),
               *described = changeset_describe_one(&sync->set->rows[sync->row], change);
        json_t *whole = json_incref(json_object_get(described, "path"));

        json_decref(change);
        json_decref(described);
        return whole;
}

static json_t *list_of(struct cloche_sync *sync, const char *name)
{
        json_t *list = json_object_get(sync->result, name);

        if (!list) {
                list = json_array();
                json_object_set_new(sync->result, name, list);
        }
        return list;
}

static void add_skipped(struct cloche_sync *sync, const json_t *path, const char *reason)
{
        json_array_append_new(list_of(sync, "skipped"),
                              json_pack("{s:o, s:s}", "path", path_of(sync, path), "reason", reason));
}

/* -- deciding before the first write ---------------------------------------------------------------------------- */

static int is_virtual(const json_t *change)
{
        return json_is_true(json_object_get(change, "virtual"));
}

/* True if path is in a skipped directory, where nothing can be made. */
static int is_in_skipped(const struct cloche_sync *sync, const json_t *path)
{
        const char *text = json_string_value(path);
        json_t *skipped = json_object_get(sync->result, "skippedDirectories");
        size_t i;
        json_t *row;

        json_array_foreach (skipped, i, row) {
                const char *directory = json_string_value(row);
                size_t size = strlen(directory);

                if (text && strncmp(text, directory, size) == 0 && text[size] == '/')
                        return 1;
        }
        return 0;
}

static const json_t *current(const struct cloche_sync *sync)
{
        return json_array_get(sync->set->rows[sync->row].changes, sync->index);
}

static void choose(struct cloche_sync *sync)
{
        json_array_append(sync->chosen[sync->row], json_array_get(sync->set->rows[sync->row].changes, sync->index++));
}

static void skip(struct cloche_sync *sync, const char *reason)
{
        const json_t *change = current(sync), *path = json_object_get(change, "path");
        const char *kind = json_string_value(json_object_get(change, "kind")),
                   *type = json_string_value(json_object_get(change, "type"));

        add_skipped(sync, path, reason);
        if (kind && type && strcmp(kind, "directory") == 0 && strcmp(type, "deleted") != 0 && json_is_string(path))
                json_array_append(list_of(sync, "skippedDirectories"), (json_t *)path);
        sync->index++;
}

static void request_decision(struct cloche_sync *sync)
{
        json_t *described = changeset_describe_one(&sync->set->rows[sync->row], current(sync));
        char *text = described ? json_dumps(described, JSON_COMPACT) : NULL;
        struct cloche_sync_question *question = calloc(1, sizeof(*question));

        json_decref(described);
        if (text && question) {
                *question = (struct cloche_sync_question){sync, sync->row, sync->index};
                sync->question = question;
                sync->on_event(sync->event_data, sync->run, CLOCHE_SYNC_BEFORE, text, question);
        } else {
                struct cloche_err e;

                free(question);
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "report a change to the caller");
                finish(sync, &e);
        }
        free(text);
}

/* An abort comes before the first write, so the changes chosen so far are skipped, too. */
static void skip_all(struct cloche_sync *sync)
{
        for (size_t row = 0; row < sync->set->count; row++) {
                json_t *changes = sync->set->rows[row].changes, *change;
                size_t i;

                json_array_foreach (sync->chosen[row], i, change)
                        add_skipped(sync, json_object_get(change, "path"), "aborted");
                for (i = row == sync->row ? sync->index : 0; row >= sync->row && i < json_array_size(changes); i++)
                        add_skipped(sync, json_object_get(json_array_get(changes, i), "path"), "aborted");
        }
}

/* Free the question. Returns NULL if the sync is over. */
static struct cloche_sync *take_question(cloche_sync_question *question, struct cloche_err *e)
{
        struct cloche_sync *sync = question->sync;

        free(question);
        if (!sync)
                err_set(e, CLOCHE_E_STATE, "the sync has ended already");
        else
                sync->question = NULL;
        return sync;
}

static void abort_all(struct cloche_sync *sync, const char *reason)
{
        sync->aborted = json_pack("{s:o, s:s}", "path", path_of(sync, json_object_get(current(sync), "path")), "reason",
                                  reason);
        skip_all(sync);
}

int cloche_sync_answer(cloche_sync_question *question, enum cloche_sync_action action, const char *reason,
                       struct cloche_err *e)
{
        struct cloche_sync *sync = take_question(question, e);

        if (!sync)
                return -(int)CLOCHE_E_STATE;
        if (action == CLOCHE_SYNC_SKIP || (action == CLOCHE_SYNC_ABORT && sync->set->abort_skips))
                skip(sync, reason ? reason : "skipped by the caller");
        else if (action == CLOCHE_SYNC_ABORT)
                abort_all(sync, reason ? reason : "aborted by the caller");
        else
                choose(sync);
        schedule_step(sync);
        return 0;
}

void sync_unanswered(cloche_sync_question *question, const char *reason)
{
        struct cloche_sync *sync = take_question(question, NULL);

        if (!sync)
                return;
        abort_all(sync, reason);
        schedule_step(sync);
}

/* 1: all are decided. */
static int decide_next(struct cloche_sync *sync)
{
        int is_requested = sync->on_event && sync->events & 1u << CLOCHE_SYNC_BEFORE && !sync->is_dry;

        for (; sync->row < sync->set->count; sync->row++, sync->index = 0) {
                json_t *changes = sync->set->rows[sync->row].changes;

                if (!sync->chosen[sync->row])
                        sync->chosen[sync->row] = json_array();
                while (sync->index < json_array_size(changes)) {
                        if (sync->aborted)
                                return 1;
                        if (is_requested && !is_virtual(current(sync)) &&
                            is_in_skipped(sync, json_object_get(current(sync), "path")))
                                skip(sync, "its directory was skipped");
                        else if (!is_requested || is_virtual(current(sync)))
                                choose(sync);
                        else {
                                request_decision(sync);
                                return 0;
                        }
                }
        }
        return 1;
}

/* -- a transaction ---------------------------------------------------------------------------------------------- */

static int on_page(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);
static int on_done(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);

static int send_page(struct cloche_sync *sync, struct cloche_err *e)
{
        json_t *all = sync->chosen[sync->row], *page = json_array();
        size_t end = sync->sent + PAGE < json_array_size(all) ? sync->sent + PAGE : json_array_size(all);
        int is_last = end == json_array_size(all);

        while (sync->sent < end)
                json_array_append(page, json_array_get(all, sync->sent++));
        return channel_request(&sync->channel, sync->is_dry ? "plan" : "apply",
                               json_pack("{s:o, s:b}", "changes", page, "more", !is_last), -EBADF,
                               is_last ? on_done : on_page, e);
}

/* Describe the present and the earlier state of a file for people. Nanoseconds exceed the numbers
 * of some clients (spec/values.md). */
static json_t *describe_identity(const json_t *identity)
{
        json_t *described;

        if (!json_is_object(identity))
                return json_incref((json_t *)identity);
        described =
                json_pack("{s:I, s:I}", "mtimeMs", json_integer_value(json_object_get(identity, "mtimeNs")) / 1000000,
                          "size", json_integer_value(json_object_get(identity, "size")));
        json_object_set_new(described, "inode",
                            json_sprintf("%llu",
                                         (unsigned long long)json_integer_value(json_object_get(identity, "ino"))));
        if (json_object_get(identity, "kind"))
                json_object_set(described, "kind", json_object_get(identity, "kind"));
        return described;
}

static json_t *describe_entry(const struct cloche_sync *sync, const json_t *entry)
{
        static const char *const identities[] = {"expected", "found"};
        json_t *described = json_copy((json_t *)entry);

        json_object_set_new(described, "path", path_of(sync, json_object_get(entry, "path")));
        for (size_t i = 0; i < sizeof(identities) / sizeof(identities[0]); i++)
                if (json_object_get(described, identities[i]))
                        json_object_set_new(described, identities[i],
                                            describe_identity(json_object_get(entry, identities[i])));
        return described;
}

/* Append the result's paths of a row as paths of the box. */
static void extend(struct cloche_sync *sync, const json_t *result, const char *name)
{
        json_t *from = json_object_get(result, name), *entry, *to = list_of(sync, name);
        size_t i;

        json_array_foreach (from, i, entry) {
                int is_row = json_is_object(entry) && json_object_get(entry, "path");

                json_array_append_new(to, is_row ? describe_entry(sync, entry) : path_of(sync, entry));
        }
}

static void keep_result(struct cloche_sync *sync, json_t *result)
{
        static const char *const applied[] = {"synced", "failed", "skipped", "conflicts", "kept"};
        static const char *const planned[] = {"steps", "denied", "skipped", "conflicts"};
        json_t *recovered = sync->is_recovery ? result : json_object_get(result, "recovered");

        for (size_t i = 0; !sync->is_dry && !sync->is_recovery && i < sizeof(applied) / sizeof(applied[0]); i++)
                extend(sync, result, applied[i]);
        for (size_t i = 0; sync->is_dry && i < sizeof(planned) / sizeof(planned[0]); i++)
                extend(sync, result, planned[i]);
        if (recovered)
                json_array_append(list_of(sync, "recovered"), recovered);
}

static const json_t *find_change(const struct cloche_sync *sync, const json_t *path)
{
        size_t i;
        json_t *change;

        json_array_foreach (sync->chosen[sync->row], i, change)
                if (json_equal(json_object_get(change, "path"), path))
                        return change;
        return NULL;
}

static void on_progress(struct cloche_sync *sync, const json_t *progress)
{
        json_t *path = json_object_get(progress, "path"), *error = json_object_get(progress, "error");
        int success = json_is_true(json_object_get(progress, "success"));
        const json_t *change;

        send_event(sync, CLOCHE_SYNC_AFTER,
                   json_pack("{s:o, s:b, s:O*}", "path", path_of(sync, path), "success", success, "error", error));
        if (success || !(sync->events & 1u << CLOCHE_SYNC_ERROR))
                return;
        change = find_change(sync, path);
        send_event(sync, CLOCHE_SYNC_ERROR,
                   json_pack("{s:o*, s:O*}", "change",
                             change ? changeset_describe_one(&sync->set->rows[sync->row], change) : NULL, "error",
                             error));
}

/* True if another sync is writing to the directory. */
static int is_busy(const json_t *error)
{
        const char *reason = json_string_value(json_object_get(json_object_get(error, "data"), "reason"));

        return reason && strcmp(reason, "busy") == 0;
}

static void end_row(struct cloche_sync *sync)
{
        channel_close(&sync->channel);
        sync->row++;
        schedule_step(sync);
}

static int check_answer(const struct cloche_sync *sync, const struct rpc_message *m, struct cloche_err *e)
{
        struct cloche_err theirs;

        if (m->kind != RPC_ERROR)
                return 0;
        rpc_read_failure(m, CLOCHE_E_STATE, &theirs);
        return err_set(e, theirs.code == CLOCHE_E_INVALID_ARGUMENT ? CLOCHE_E_INVALID_ARGUMENT : CLOCHE_E_STATE,
                       "sync %.80s: %s", sync->set->rows[sync->row].source, m->error_message);
}

static int on_configured(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        (void)f;
        return check_answer(data, m, e);
}

static int on_page(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        int r = check_answer(data, m, e);

        (void)f;
        return r < 0 ? r : send_page(data, e);
}

/* The answer about the whole row. */
static int on_done(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct cloche_sync *sync = data;
        int is_skipped = m->kind == RPC_ERROR && sync->is_recovery && is_busy(m->error),
            r = is_skipped ? 0 : check_answer(sync, m, e);

        (void)f;
        if (r < 0)
                return r;
        if (is_skipped)
                json_array_append_new(list_of(sync, "recovered"), json_pack("{s:s}", "state", "busy"));
        else
                keep_result(sync, m->result);
        end_row(sync);
        return 0;
}

static int on_message(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        (void)f;
        if (m->kind == RPC_NOTIFICATION && strcmp(m->method, "progress") == 0) {
                on_progress(data, m->params);
                return 0;
        }
        return err_set(e, CLOCHE_E_PROTOCOL, "cloche-sync sent \"%.40s\", which is not expected",
                       m->method ? m->method : "an answer to no request");
}

static void on_end(void *data, const struct cloche_err *e)
{
        struct cloche_sync *sync = data;
        struct cloche_err lost = {0};

        if (!e) {
                err_set(&lost, CLOCHE_E_STATE,
                        "the sync of %.80s ended before it was complete: the next one finishes or undoes it",
                        sync->set->rows[sync->row].source);
                e = &lost;
        }
        finish(sync, e);
}

static void on_served(void *data, struct keeper_reply *reply)
{
        struct cloche_sync *sync = data;

        sync->is_awaited = 0;
        if (sync->state == SYNC_FREED)
                free_now(sync);
        else if (reply->error)
                finish(sync, reply->error);
}

static int serve(struct cloche_sync *sync, int server_fd, struct cloche_err *e)
{
        const struct changeset_row *row = &sync->set->rows[sync->row];
        struct keeper_service_spec *spec = calloc(1, sizeof(*spec));
        /* Without contents any directory does: none of its files will be opened. */
        _cleanup_fd_ int no_fd =
                row->contents_fd < 0 ? open("/proc/self/fdinfo", O_PATH | O_DIRECTORY | O_CLOEXEC) : -EBADF;
        int fds[] = {row->contents_fd < 0 ? no_fd : row->contents_fd, server_fd, sync->caller_fd}, r;

        if (!spec)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a sync");
        spec->service = KEEPER_SERVICE_SYNC;
        spec->root = row->root;
        spec->is_written = !sync->is_dry;
        strcpy(spec->path, row->path);
        r = keeper_serve_async(sync->engine->keeper, KEEPER_NO_BOX, spec, fds, sync->caller_fd < 0 ? 2 : 3, on_served,
                               sync, e);
        sync->is_awaited = r == 0;
        free(spec);
        return r;
}

static int start_row(struct cloche_sync *sync, struct cloche_err *e)
{
        _cleanup_fd_ int server_fd = -EBADF;
        int r = channel_open(&sync->channel, FRAME_BYTES_MAX, &server_fd, e);

        sync->channel.on_message = on_message;
        sync->channel.on_end = on_end;
        sync->channel.data = sync;
        sync->sent = 0;
        if (r == 0)
                r = channel_watch(&sync->channel, &sync->engine->loop, e);
        if (r == 0)
                r = channel_request(&sync->channel, "configure",
                                    json_pack("{s:O*, s:s, s:s, s:s}", "permissions",
                                              sync->set->rows[sync->row].permissions, "onError", sync->on_error,
                                              "conflict", sync->conflict, "links", sync->links),
                                    -EBADF, on_configured, e);
        if (r == 0)
                r = sync->is_recovery ? channel_request(&sync->channel, "recover", json_object(), -EBADF, on_done, e)
                                      : send_page(sync, e);
        return r < 0 ? r : serve(sync, server_fd, e);
}

static int nothing_to_do(const struct cloche_sync *sync)
{
        return !sync->is_recovery && json_array_size(sync->chosen[sync->row]) == 0;
}

static void end_well(struct cloche_sync *sync)
{
        json_object_del(sync->result, "skippedDirectories");
        if (sync->aborted)
                json_object_set(sync->result, "aborted", sync->aborted);
        finish(sync, NULL);
}

static void step(struct cloche_sync *sync)
{
        struct cloche_err e = {0};

        if (sync->state >= SYNC_ENDED || sync->question)
                return;
        if (sync->state == SYNC_DECIDING) {
                if (!decide_next(sync))
                        return;
                set_state(sync, SYNC_WRITING);
                sync->row = 0;
        }
        while (sync->row < sync->set->count && nothing_to_do(sync))
                sync->row++;
        if (sync->aborted || sync->row == sync->set->count)
                end_well(sync);
        else if (start_row(sync, &e) < 0)
                finish(sync, &e);
}

/* -- the caller's side ------------------------------------------------------------------------------------------ */

int cloche_sync_start(cloche_engine *engine, const struct cloche_sync_options *opt, cloche_sync **ret,
                      struct cloche_err *e)
{
        const char *on_error = opt->on_error ? mount_on_error(opt->on_error) : opt->changes->on_error;
        const char *conflict = opt->conflict ? mount_conflict(opt->conflict) : opt->changes->conflict;
        const char *links = opt->links ? mount_links(opt->links) : opt->changes->links;
        struct cloche_sync *sync;

        if (!on_error)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "onError must be rollback, continue or abort, not '%.40s'",
                               opt->on_error);
        if (!conflict)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "conflict must be refuse, keepBoth or overwrite, not '%.40s'", opt->conflict);
        if (!links)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "links must be inside or any, not '%.40s'", opt->links);
        sync = calloc(1, sizeof(*sync));
        if (!sync)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a sync");
        *sync = (struct cloche_sync){
                .engine = engine,
                .set = opt->changes,
                .on_error = on_error,
                .conflict = conflict,
                .links = links,
                .is_dry = opt->dry_run,
                .on_event = opt->on_event,
                .event_data = opt->event_data,
                .events = opt->events,
                .run = opt->run,
                .on_end = opt->on_end,
                .data = opt->data,
                .channel.fd = -EBADF,
                .channel.received_fd = -EBADF,
                .caller_fd = opt->has_caller ? fcntl(opt->caller_fd, F_DUPFD_CLOEXEC, 3) : -EBADF,
        };
        sync->step_timer = malloc(sizeof(*sync->step_timer));
        sync->result = opt->dry_run ? json_pack("{s:[], s:[], s:[], s:[]}", "steps", "denied", "conflicts", "skipped")
                                    : json_pack("{s:[], s:[], s:[], s:[], s:[]}", "synced", "failed", "skipped",
                                                "conflicts", "kept");
        if (!sync->step_timer || !sync->result || (opt->has_caller && sync->caller_fd < 0)) {
                free(sync->step_timer);
                free_now(sync);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a sync");
        }
        uv_timer_init(&engine->loop, sync->step_timer);
        sync->step_timer->data = sync;
        schedule_step(sync);
        *ret = sync;
        return 0;
}

int sync_recover(cloche_engine *engine, const struct cloche_sync_options *opt, cloche_sync **ret, struct cloche_err *e)
{
        int r = cloche_sync_start(engine, opt, ret, e);

        if (r == 0)
                (*ret)->is_recovery = 1; /* the loop starts it */
        return r;
}

int sync_result(const cloche_sync *sync, json_t **ret, struct cloche_err *e)
{
        if (sync->state < SYNC_ENDED)
                return err_set(e, CLOCHE_E_STATE, "the sync has not ended yet: wait for it first");
        if (sync->error.code) {
                if (e)
                        *e = sync->error;
                return -(int)sync->error.code;
        }
        *ret = json_incref(sync->result);
        return 0;
}

int cloche_sync_result(cloche_sync *sync, char **ret, struct cloche_err *e)
{
        json_t *result = NULL;
        int r = sync_result(sync, &result, e);

        if (r < 0)
                return r;
        *ret = json_dumps(result, JSON_COMPACT);
        json_decref(result);
        return *ret ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write the result of a sync");
}

int cloche_sync_wait(cloche_sync *sync, char **ret, struct cloche_err *e)
{
        while (sync->state < SYNC_ENDED)
                uv_run(&sync->engine->loop, UV_RUN_ONCE);
        return cloche_sync_result(sync, ret, e);
}

void cloche_sync_free(cloche_sync *sync)
{
        if (!sync)
                return;
        sync->on_end = NULL;
        finish(sync, NULL);
        handle_close(sync->step_timer);
        set_state(sync, SYNC_FREED);
        if (!sync->is_awaited)
                free_now(sync);
}
