/* cloche sync: write kept changes to the host.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "cli/output/outcome.h"
#include "cli/output/print.h"
#include "cli/run/session.h"

#include "base/fd.h"
#include "engine/mounts/changeset.h"
#include "wire/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the remaining changes -------------------------------------------------------------------------------------- */

/* The privileged helper: update the number of remaining changes; at zero remove the set. */
static int settle(void *data, int fd)
{
        const struct changes_kept *kept = data;
        uint32_t left;

        if (fd_read_full(fd, &left, sizeof(left)) < 0)
                return 1;
        return left == 0 ? cli_changes_drop(kept->name) : changes_recount(kept, left);
}

/* Remove the written changes from the set, even if others failed. */
static int keep_rest(struct changes_kept *kept, cloche_changeset *set, const json_t *result,
                     struct privileged_helper *helper)
{
        uint32_t left = 0;
        struct cloche_err e = {0};

        if (outcome_sync_failed(result)) {
                if (json_array_size(json_object_get(result, "synced")) == 0)
                        return 0;
                changeset_drop(set, json_object_get(result, "synced"));
                left = (uint32_t)changeset_count(set);
                if (changeset_resave(set, kept->set_fd, &e) < 0)
                        return cli_fail(&e);
        }
        if (privileged_helper_start(helper) < 0 || fd_write_full(helper->fd, &left, sizeof(left)) < 0)
                return cli_bad("cannot save the remaining changes '%s'", kept->name);
        return privileged_helper_wait(helper);
}

/* -- printing --------------------------------------------------------------------------------------------------- */

static void print_plan_rows(const struct outcome_mounts *mounts, const json_t *rows, const char *before,
                            const char *member)
{
        const json_t *row;
        size_t i;

        json_array_foreach (rows, i, row) {
                const json_t *word = member ? json_object_get(row, member) : NULL, *path = json_object_get(row, "path");

                fputs(before, stdout);
                if (word) {
                        print_path(stdout, word);
                        fputc(' ', stdout);
                }
                outcome_print_path(stdout, mounts, path ? path : row);
                fputc('\n', stdout);
        }
}

static void print_plan(const struct outcome_mounts *mounts, const json_t *plan)
{
        print_plan_rows(mounts, json_object_get(plan, "steps"), "would ", "action");
        print_plan_rows(mounts, json_object_get(plan, "denied"), "denied ", "operation");
        print_plan_rows(mounts, json_object_get(plan, "conflicts"), "conflict ", NULL);
}

static void print_result(const struct changes_kept *kept, const struct outcome_mounts *mounts, const json_t *result)
{
        outcome_print_written(stdout, "", mounts, result);
        fflush(stdout);
        outcome_print_problems(stderr, "cloche: ", mounts, result);
        if (outcome_sync_failed(result))
                fprintf(stderr, "cloche: unwritten changes are kept: cloche diff %s\n", kept->name);
}

/* changeset: its name while changes remain. */
static void print_json(const struct changes_kept *kept, json_t *result, int is_left)
{
        char *text;

        json_object_set_new(result, "changeset", is_left ? json_string(kept->name) : json_null());
        text = json_dumps(result, JSON_COMPACT | JSON_ENSURE_ASCII);
        printf("%s\n", text ? text : "{}");
        free(text);
}

/* -- syncing ---------------------------------------------------------------------------------------------------- */

static int would_fail(const json_t *plan)
{
        return json_array_size(json_object_get(plan, "denied")) > 0 ||
               json_array_size(json_object_get(plan, "conflicts")) > 0;
}

static int sync_set(cloche_engine *engine, const struct cli_request *request, const cloche_changeset *set, json_t **ret,
                    struct cloche_err *e)
{
        struct cloche_sync_options opt = {
                .changes = set,
                .on_error = request->on_error,
                .conflict = request->conflict,
                .links = request->links,
                .dry_run = request->dry_run,
        };
        cloche_sync *sync = NULL;
        char *text = NULL;
        int r = cloche_sync_start(engine, &opt, &sync, e);

        session_end_by_signal(1);
        if (r == 0)
                r = cloche_sync_wait(sync, &text, e);
        session_end_by_signal(0);
        if (r == 0)
                r = json_load_text(text, strlen(text), ret, e);
        free(text);
        cloche_sync_free(sync);
        return r;
}

static int finish(struct cli_request *request, struct changes_kept *kept, cloche_changeset *set, json_t *result)
{
        const struct outcome_mounts mounts = {kept->targets, kept->sources, kept->mount_count};
        int bad = request->dry_run ? 0 : keep_rest(kept, set, result, &request->keeping);

        if (request->json)
                print_json(kept, result, request->dry_run || outcome_sync_failed(result));
        else if (request->dry_run)
                print_plan(&mounts, result);
        else
                print_result(kept, &mounts, result);
        return bad || (request->dry_run ? would_fail(result) : outcome_sync_failed(result)) ? 1 : 0;
}

static int sync_kept(struct cli_request *request, struct changes_kept *kept)
{
        cloche_engine *engine = NULL;
        cloche_changeset *set = NULL;
        json_t *result = NULL;
        struct cloche_err e = {0};
        int r = session_open(request, &engine, &e), code;

        if (r == 0)
                r = cloche_changeset_load(engine, kept->set_fd, &set, &e);
        if (r == 0)
                r = sync_set(engine, request, set, &result, &e);
        code = r < 0 ? cli_fail(&e) : finish(request, kept, set, result);
        json_decref(result);
        cloche_changeset_free(set);
        cloche_engine_free(engine);
        return code;
}

static int run(struct cli_request *request)
{
        struct changes_kept kept;
        int code = changes_open(request->positional[0], &kept);

        request->engine.mount_roots = (const char *const *)kept.roots;
        request->engine.mount_root_count = kept.mount_count;
        if (code == 0)
                code = changes_lock(&kept);
        if (code == 0)
                code = privileged_helper_prepare(&request->keeping, settle, &kept);
        if (code == 0)
                code = sync_kept(request, &kept);
        privileged_helper_cancel(&request->keeping);
        changes_close(&kept);
        return code;
}

const struct cli_handler command_sync = {
        .run = run,
        .positional_max = 1,
};
