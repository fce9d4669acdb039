/* A run's side of its mounts: reports their events; at the end collects the changes and, if the run
 * succeeded and the caller does not decide, writes them to the host. Runs in: the engine, on its
 * loop. */
#include "base/err.h"
#include "engine/loop/engine.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

/* -- at the end ------------------------------------------------------------------------------------------------- */

static void close_books(struct cloche_run *run)
{
        run_set_state(run, RUN_READY);
        run_schedule_conclude(run);
}

static void warn_of_mount(struct cloche_run *run, const struct mount *mount)
{
        size_t i;
        json_t *warning;

        if (mount->notice)
                json_array_append_new(run->warnings, json_sprintf("%s: %s", mount->option->target, mount->notice));
        json_array_foreach (mount->warnings, i, warning) {
                const char *path = json_string_value(json_object_get(warning, "path")),
                           *message = json_string_value(json_object_get(warning, "message"));

                json_array_append_new(run->warnings,
                                      json_sprintf("%s%s%s: %s", mount->option->target, path && *path ? "/" : "",
                                                   path ? path : " (a name that is no text)", message ? message : "?"));
        }
}

static void on_synced(void *data, cloche_sync *sync)
{
        struct cloche_run *run = data;
        struct cloche_err e = {0};

        if (sync_result(sync, &run->synced, &e) < 0)
                run->synced = json_pack("{s:[], s:[], s:[], s:{s:s, s:s}}", "synced", "failed", "skipped", "error",
                                        "name", cloche_code_name(e.code), "message", e.msg);
        close_books(run);
}

static int has_changes(const struct cloche_changeset *set)
{
        for (size_t i = 0; i < set->count; i++)
                if (json_array_size(set->rows[i].changes) > 0)
                        return 1;
        return 0;
}

static int start_sync(struct cloche_run *run, struct cloche_err *e)
{
        struct cloche_sync_options opt = {
                .changes = run->changeset,
                .on_event = run->on_file_event,
                .event_data = run->file_event_data,
                .events = run->file_events,
                .run = run,
                .on_end = on_synced,
                .data = run,
                .has_caller = run->mounts->caller_fd >= 0,
                .caller_fd = run->mounts->caller_fd,
        };

        run_set_state(run, RUN_SYNCING);
        return cloche_sync_start(run->engine, &opt, &run->sync, e);
}

/* In batch mode, changes of a run that did not succeed are not written. */
int run_start_sync(struct cloche_run *run)
{
        struct cloche_err e = {0};
        int r;

        if (!run->may_sync || result_status(run, &run->usage) != CLOCHE_STATUS_SUCCESS)
                return 0;
        r = start_sync(run, &e);
        if (r < 0)
                run_warn(run, e.msg);
        return r == 0;
}

static void on_collected(void *data)
{
        struct cloche_run *run = data;
        struct cloche_err e = {0};

        for (size_t i = 0; i < run->mounts->options.count; i++)
                warn_of_mount(run, &run->mounts->rows[i]);
        if (run->mounts->error.code)
                run_warn(run, run->mounts->error.msg);
        if (changeset_take(run->mounts, &run->changeset, &e) < 0)
                run_warn(run, e.msg);
        else
                run->may_sync =
                        !run->mounts->error.code && !run->mounts->options.is_manual && has_changes(run->changeset);
        run_measure(run);
}

static void on_denied(void *data, const struct mount *mount, const json_t *denial)
{
        struct cloche_run *run = data;
        struct changeset_row row = {.target = (char *)mount->option->target,
                                    .source = mount->option->source,
                                    .file = mount->option->file};
        json_t *described;
        char *text;

        if (!(run->file_events & 1u << CLOCHE_FILE_DENIED))
                return;
        described = result_denial(&row, denial);
        text = json_dumps(described, JSON_COMPACT);
        json_decref(described);
        if (text)
                run->on_file_event(run->file_event_data, run, CLOCHE_FILE_DENIED, text, NULL);
        free(text);
}

/* A mount without its server fails with ENOTCONN, so the guest is not to blame for the failure. */
static void judge_failure(struct cloche_run *run, const struct keeper_usage *usage)
{
        if (usage->oom_kills > run->before.oom_kills)
                run_out_of_memory(run); /* the server shares the box's memory */
        else
                run_failed(run, &run->mounts->error);
}

static void on_failure_usage(void *data, struct keeper_reply *reply)
{
        static const struct keeper_usage unknown;

        judge_failure(data, reply->error ? &unknown : &reply->answer->usage);
}

static void on_mount_failed(void *data, const struct cloche_err *e)
{
        struct cloche_run *run = data;
        struct keeper_usage usage;

        if (run_has_ended(run))
                return;
        if (run->state == RUN_STARTING)
                run_failed(run, e);
        else if (engine_measure_box(run->engine, &run->box, &usage))
                judge_failure(run, &usage);
        else if (keeper_box_usage_async(run->engine->keeper, run->box.id, on_failure_usage, run, NULL) < 0)
                run_failed(run, e);
}

static void listen_to_mounts(struct cloche_run *run)
{
        run->mounts->data = run;
        run->mounts->on_denied = on_denied;
        run->mounts->on_failed = on_mount_failed;
        run->mounts->on_collected = on_collected;
}

void run_cancel_sync(struct cloche_run *run)
{
        if (run->state != RUN_SYNCING)
                return;
        cloche_sync_free(run->sync);
        run->sync = NULL;
        run->synced = json_pack("{s:[], s:[], s:[], s:{s:s}}", "synced", "failed", "skipped", "aborted", "reason",
                                "cancelled by the caller");
        close_books(run);
}

void run_collect_mounts(struct cloche_run *run)
{
        run_set_state(run, RUN_COLLECTING);
        if (run->quiet.op == INIT_QUIESCE && run->quiet.err.code == 0)
                mounts_collect(run->mounts, run->omit_changes || run->omit_contents ? 0 : FILES_CONTENTS_TOTAL_MAX);
        else
                run_measure(run); /* changes are kept only when nothing runs in the box */
}

/* -- at the start ----------------------------------------------------------------------------------------------- */

/* A box of a template can have new mount points only in its writable places; with others the run is
 * cold. */
static int choose_origin(struct cloche_run *run, const struct cloche_run_options *opt,
                         const struct mount_options *mounts, struct cloche_err *e)
{
        for (size_t i = 0; i < mounts->count; i++) {
                if (mount_is_below_writable(mounts->rows[i].target))
                        continue;
                if (opt->prefix || opt->kind == CLOCHE_EVALUATE)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "mount.dirs: '%.100s': of a prefix mounts stand at or below /workspace, /tmp "
                                       "and /home/cloche",
                                       mounts->rows[i].target);
                run->is_forked = 0;
        }
        return 0;
}

int run_take_mounts(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        struct mount_options mounts = {0};
        json_t *object = NULL;
        int r = json_load_human(opt->mount, strlen(opt->mount), &object, e);

        if (r < 0)
                err_wrap(e, "mount");
        if (r == 0)
                r = mount_options_load(&run->engine->mount_roots, object, &mounts, e);
        json_decref(object);
        if (r == 0)
                r = choose_origin(run, opt, &mounts, e);
        if (r == 0)
                r = mounts_new(run->engine, &mounts, opt->has_caller ? opt->caller_fd : -EBADF, &run->mounts, e);
        if (r == 0) {
                const struct jail_user user = image_runs_as(&run->image);

                run->mounts->user = user.uid;
                run->mounts->group = user.gid;
                listen_to_mounts(run);
        }
        mount_options_done(&mounts);
        return r;
}
