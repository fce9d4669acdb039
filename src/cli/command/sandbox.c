/* cloche sandbox create, ls, get, metrics, logs, rename, set, stop, save, commit, pause,
 * resume, fork, snapshot, rm; cloche snapshot ls, get, rm; cloche packages ls, rm. Runs
 * in: the CLI, as its user. */
#include "cli/options/members.h"
#include "cli/options/options.h"
#include "cli/output/object.h"
#include "cli/output/print.h"
#include "cli/output/table.h"
#include "cli/run/image-store.h"

#include <stdio.h>
#include <string.h>

/* -- printing ------------------------------------------------------------------------------------------------- */

/* One that is paused with its memory has the plain word, for which scripts look. */
static void make_state(FILE *out, const json_t *of, int is_plain)
{
        const char *kind = sandbox_text(of, "pauseKind");

        (void)is_plain;
        fprintf(out, strcmp(kind, "files") == 0 ? "%s (files)" : "%s", sandbox_text(of, "state"));
}

static const struct table_column sandbox_columns[] = {
        {"SANDBOX", CELL_NAME, "sandbox", 24, NULL},   {"STATE", CELL_STATE, NULL, 0, make_state},
        {"SESSIONS", CELL_COUNT, "sessions", 0, NULL}, {"PROCESSES", CELL_COUNT, "processes", 0, NULL},
        {"USED", CELL_TIME, "lastUsedAt", 0, NULL},    {"CREATED", CELL_TIME, "createdAt", 0, NULL},
        {"IMAGE", CELL_NAME, "imageName", 12, NULL},
};

static const struct table_column sample_columns[] = {
        {"TIME", CELL_NAME, "time", 0, NULL},
        {"CPU MS", CELL_COUNT, "cpuMs", 0, NULL},
        {"MEMORY", CELL_BYTES, "memoryBytes", 0, NULL},
        {"PROCESSES", CELL_COUNT, "pids", 0, NULL},
        {"FILES", CELL_BYTES, "diskBytes", 0, NULL},
        {"SENT", CELL_BYTES, "networkSentBytes", 0, NULL},
        {"RECEIVED", CELL_BYTES, "networkReceivedBytes", 0, NULL},
};

static const struct table_column log_columns[] = {
        {"TIME", CELL_NAME, "time", 0, NULL},
        {"EVENT", CELL_STATE, "event", 0, NULL},
        {"MESSAGE", CELL_NAME, "message", 20, NULL},
};

static const struct table_column snapshot_columns[] = {
        {"SNAPSHOT", CELL_NAME, "snapshot", 16, NULL},
        {"SIZE", CELL_BYTES, "bytes", 0, NULL},
        {"CREATED", CELL_TIME, "createdAt", 0, NULL},
        {"SANDBOX", CELL_NAME, "sandbox", 16, NULL},
};

/* -- commands ------------------------------------------------------------------------------------------------- */

/* The parameters given by options. */
static json_t *given_params(const struct cli_request *request)
{
        const struct sandbox_options *words = &request->sandbox;
        json_t *params =
                json_pack("{s:s*, s:o*, s:o*, s:o*, s:O*, s:s*, s:s*}", "sandbox", request->positional[0], "limits",
                          sandbox_limits(request), "env", sandbox_env(request), "network", sandbox_network(request),
                          "labels", words->labels, "idleAction", words->idle_action, "endAction", words->end_action);

        if (params)
                sandbox_add_environment(words, params);
        if (params && words->snapshot)
                json_object_set_new(params, "snapshot", json_string(words->snapshot));
        if (params && request->mounts.object)
                json_object_set(params, "mount", request->mounts.object);
        if (params && words->volumes)
                json_object_set(params, "volumes", words->volumes);
        if (params && words->idle_ms != UINT64_MAX)
                json_object_set_new(params, "idleMs", json_integer((json_int_t)words->idle_ms));
        if (params && words->lifetime_ms != UINT64_MAX)
                json_object_set_new(params, "lifetimeMs", json_integer((json_int_t)words->lifetime_ms));
        return params;
}

static int create(struct cli_request *request)
{
        json_t *params = given_params(request), *made = NULL;
        int has_options = json_object_size(params) > (request->positional[0] ? 1 : 0),
            code = sandbox_check_network(request);

        if (code == 0)
                code = sandbox_request_once(request, "sandbox.create", json_incref(params), &made);
        json_decref(params);
        if (code == 0 && has_options && !request->json && json_is_false(json_object_get(made, "created")))
                fprintf(stderr,
                        "cloche: the sandbox '%s' exists and keeps its options (cloche sandbox set changes limits, "
                        "network and variables; for others remove it first: cloche sandbox rm %s)\n",
                        request->positional[0], request->positional[0]);
        if (code == 0 && request->json)
                sandbox_print_json(made);
        else if (code == 0)
                printf("%s\n", sandbox_text(made, "sandbox"));
        json_decref(made);
        return code;
}

static int list(struct cli_request *request)
{
        const struct sandbox_options *words = &request->sandbox;
        json_t *answer = NULL, *params = json_pack("{s:s*, s:o*, s:o*, s:s*}", "order", words->order, "reverse",
                                                   words->is_reverse ? json_true() : NULL, "limit",
                                                   words->rows_max ? json_integer((json_int_t)words->rows_max) : NULL,
                                                   "after", words->after);
        int code;

        json_object_update(params, words->filters);
        code = sandbox_request_once(request, "sandbox.list", params, &answer);
        if (code == 0)
                TABLE_PRINT(sandbox_columns, json_object_get(answer, "sandboxes"), request->json);
        if (code == 0 && *sandbox_text(answer, "next"))
                fprintf(stderr, "cloche: there are more: --after %s\n", sandbox_text(answer, "next"));
        json_decref(answer);
        return code;
}

static int get(struct cli_request *request)
{
        json_t *sandbox = NULL;
        int code = sandbox_request_once(request, "sandbox.get", sandbox_params(request), &sandbox);

        if (code == 0)
                print_object(sandbox, request->json);
        json_decref(sandbox);
        return code;
}

static int metrics(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "sandbox.metrics", sandbox_params(request), &answer);

        if (code == 0)
                TABLE_PRINT(sample_columns, json_object_get(answer, "samples"), request->json);
        if (code == 0 && json_array_size(json_object_get(answer, "samples")) == 0)
                fprintf(stderr, "cloche: there are no samples: %s has not run since the daemon was started\n",
                        request->positional[0]);
        json_decref(answer);
        return code;
}

static int logs(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "sandbox.logs", sandbox_params(request), &answer);

        if (code == 0)
                TABLE_PRINT(log_columns, json_object_get(answer, "lines"), request->json);
        json_decref(answer);
        return code;
}

static int rename_it(struct cli_request *request)
{
        return sandbox_request_once(request, "sandbox.rename",
                                    json_pack("{s:s, s:s}", "sandbox", request->positional[0], "name",
                                              request->positional[1]),
                                    NULL);
}

static int set(struct cli_request *request)
{
        json_t *params = given_params(request), *sandbox = NULL;
        int code;

        if (json_object_size(params) == 1) {
                json_decref(params);
                return cli_bad("expected an option with a change (cloche help sandbox set lists them)");
        }
        code = sandbox_request_once(request, "sandbox.update", params, &sandbox);
        if (code == 0 && request->json)
                sandbox_print_json(sandbox);
        json_decref(sandbox);
        return code;
}

/* NULL: changes in mounts are dropped. */
static json_t *sync_of(const struct cli_request *request)
{
        return request->sandbox.is_sync ? json_pack("{s:s*, s:s*, s:s*}", "onError", request->on_error, "conflict",
                                                    request->conflict, "links", request->links)
                                        : NULL;
}

static void print_lost(const json_t *stopped)
{
        const json_t *lost;
        size_t i;

        json_array_foreach (json_object_get(json_object_get(stopped, "sync"), "lost"), i, lost)
                fprintf(stderr, "cloche: the server of the mount %s had ended: what was written there is lost\n",
                        json_string_value(lost));
}

/* Try all names. print: of each answer; NULL: none. */
static int each(struct cli_request *request, const char *method, int must_exist,
                void (*print)(const char *name, const json_t *answer))
{
        struct daemon_client client;
        int code = sandbox_open(request, &client);

        if (code)
                return code;
        for (int i = 0; i < request->positional_count; i++) {
                const char *name = request->positional[i];
                json_t *answer = NULL;
                int bad = must_exist ? sandbox_require(&client, name) : 0;

                if (bad == 0)
                        bad = sandbox_request(&client, method,
                                              json_pack("{s:s, s:o*, s:o*, s:o*}", "sandbox", name, "sync",
                                                        sync_of(request), "save",
                                                        request->sandbox.is_unsaved ? json_false() : NULL, "memory",
                                                        request->sandbox.is_without_memory ? json_false() : NULL),
                                              &answer);
                if (bad == 0 && print)
                        print(name, answer);
                print_lost(answer);
                json_decref(answer);
                code = bad ? bad : code;
        }
        daemon_close(&client);
        return code;
}

static int stop(struct cli_request *request)
{
        if (!request->sandbox.is_sync && (request->on_error || request->conflict || request->links))
                return cli_bad("--on-error, --conflict and --links say how changes are written to the host, which "
                               "needs --sync");
        return each(request, "sandbox.stop", 0, NULL);
}

static int save(struct cli_request *request)
{
        return each(request, "sandbox.save", 0, NULL);
}

static int pause_each(struct cli_request *request)
{
        return each(request, "sandbox.pause", 0, NULL);
}

static void print_resumed(const char *name, const json_t *answer)
{
        printf("%s  %s\n", name, sandbox_text(answer, "resumed"));
}

static int resume(struct cli_request *request)
{
        return each(request, "sandbox.resume", 0, print_resumed);
}

static int commit(struct cli_request *request)
{
        json_t *config = json_pack("{s:o*, s:O*, s:s*, s:o*}", "env", sandbox_env(request), "labels",
                                   request->sandbox.labels, "workingDir", request->sandbox.cwd, "startup",
                                   sandbox_startup(&request->sandbox)),
               *answer = NULL;
        int code = sandbox_request_once(request, "sandbox.commit",
                                        json_pack("{s:s, s:s, s:o, s:s*}", "sandbox", request->positional[0], "image",
                                                  request->positional[1], "config", config, "comment",
                                                  request->sandbox.word),
                                        &answer);

        if (code == 0)
                image_print_import(request, answer);
        json_decref(answer);
        return code;
}

static int drop(struct cli_request *request)
{
        return each(request, "sandbox.delete", !request->force, NULL);
}

/* -- forks and snapshots ---------------------------------------------------------------------------------------- */

static json_t *fork_params(const struct cli_request *request)
{
        json_t *params = json_pack("{s:s, s:o*}", "sandbox", request->positional[0], "count",
                                   request->sandbox.count ? json_integer((json_int_t)request->sandbox.count) : NULL),
               *names = json_array();

        for (int i = 1; i < request->positional_count; i++)
                json_array_append_new(names, json_string(request->positional[i]));
        if (json_array_size(names) > 0)
                json_object_set(params, "names", names);
        json_decref(names);
        return params;
}

static int fork_it(struct cli_request *request)
{
        json_t *forks = NULL;
        char text[MEMBERS_TEXT_BYTES];
        const json_t *row;
        size_t i;
        int code = sandbox_request_once(request, "sandbox.fork", fork_params(request), &forks);

        if (code == 0 && request->json)
                sandbox_print_json(forks);
        json_array_foreach (json_object_get(forks, "sandboxes"), i, row)
                if (!request->json)
                        printf("%s\n", sandbox_text(row, "sandbox"));
        json_array_foreach (json_object_get(forks, "omitted"), i, row)
                if (!request->json) {
                        fprintf(stderr, "cloche: not copied: %s ", sandbox_text(row, "kind"));
                        print_name(stderr, sandbox_text(row, "name"));
                        fputs(": ", stderr);
                        print_name(stderr, members_of_sandbox(sandbox_text(row, "reason"), text));
                        fputc('\n', stderr);
                }
        json_decref(forks);
        return code;
}

static int snapshot(struct cli_request *request)
{
        json_t *taken = NULL, *params = sandbox_params(request);
        int code;

        if (request->positional_count > 1)
                json_object_set_new(params, "snapshot", json_string(request->positional[1]));
        if (request->sandbox.labels)
                json_object_set(params, "labels", request->sandbox.labels);
        if (request->sandbox.is_replacing)
                json_object_set_new(params, "replace", json_true());
        code = sandbox_request_once(request, "sandbox.snapshot", params, &taken);
        if (code == 0 && request->json)
                sandbox_print_json(taken);
        else if (code == 0)
                printf("%s\n", sandbox_text(taken, "snapshot"));
        json_decref(taken);
        return code;
}

static int list_snapshots(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "snapshot.list", json_object(), &answer);

        if (code == 0)
                TABLE_PRINT(snapshot_columns, json_object_get(answer, "snapshots"), request->json);
        json_decref(answer);
        return code;
}

static int get_snapshot(struct cli_request *request)
{
        json_t *found = NULL;
        int code = sandbox_request_once(request, "snapshot.get", json_pack("{s:s}", "snapshot", request->positional[0]),
                                        &found);

        if (code == 0)
                print_object(found, request->json);
        json_decref(found);
        return code;
}

static int drop_snapshots(struct cli_request *request)
{
        return sandbox_request_each(request, "snapshot.delete", "snapshot");
}

/* -- kept packages --------------------------------------------------------------------------------------------- */

static void make_packages(FILE *out, const json_t *of, int is_plain)
{
        const char *kind, *before = "";
        json_t *list;
        const json_t *package;
        size_t i;

        (void)is_plain;
        json_object_foreach (json_object_get(of, "packages"), kind, list)
                json_array_foreach (list, i, package) {
                        fprintf(out, "%s%s:", before, kind);
                        print_name(out, json_string_value(package));
                        before = " ";
                }
}

static const struct table_column layer_columns[] = {
        {"LAYER", CELL_NAME, "layer", 0, NULL},     {"SIZE", CELL_BYTES, "bytes", 0, NULL},
        {"UNTIL", CELL_NAME, "expiresAt", 0, NULL}, {"PACKAGES", CELL_NAME, NULL, 20, make_packages},
        {"IMAGE", CELL_NAME, "image", 12, NULL},
};

static int list_packages(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "packages.list", json_object(), &answer);

        if (code == 0)
                TABLE_PRINT(layer_columns, json_object_get(answer, "layers"), request->json);
        json_decref(answer);
        return code;
}

static int drop_packages(struct cli_request *request)
{
        return sandbox_request_each(request, "packages.delete", "layer");
}

const struct cli_handler command_sandbox_create = {.run = create, .positional_max = 1};
const struct cli_handler command_sandbox_ls = {.run = list};
const struct cli_handler command_sandbox_get = {
        .run = get,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};
const struct cli_handler command_sandbox_metrics = {
        .run = metrics,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};
const struct cli_handler command_sandbox_logs = {
        .run = logs,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};
const struct cli_handler command_sandbox_rename = {
        .run = rename_it,
        .expected = "a sandbox and its new name",
        .positional_min = 2,
        .positional_max = 2,
};
const struct cli_handler command_sandbox_set = {
        .changes = 1,
        .run = set,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};
const struct cli_handler command_sandbox_stop = {
        .run = stop,
        .expected = "sandboxes",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
const struct cli_handler command_sandbox_save = {
        .run = save,
        .expected = "sandboxes",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
const struct cli_handler command_sandbox_pause = {
        .run = pause_each,
        .expected = "sandboxes",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
const struct cli_handler command_sandbox_resume = {
        .run = resume,
        .expected = "sandboxes",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
const struct cli_handler command_sandbox_fork = {
        .run = fork_it,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
const struct cli_handler command_sandbox_snapshot = {
        .run = snapshot,
        .expected = "a sandbox and a name",
        .positional_min = 1,
        .positional_max = 2,
};
const struct cli_handler command_snapshot_ls = {.run = list_snapshots};
const struct cli_handler command_snapshot_get = {
        .run = get_snapshot,
        .expected = "a snapshot",
        .positional_min = 1,
        .positional_max = 1,
};
const struct cli_handler command_snapshot_rm = {
        .run = drop_snapshots,
        .expected = "snapshots",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
const struct cli_handler command_sandbox_commit = {
        .run = commit,
        .expected = "a sandbox and a name for the image",
        .positional_min = 2,
        .positional_max = 2,
};
const struct cli_handler command_packages_ls = {.run = list_packages};
const struct cli_handler command_packages_rm = {
        .run = drop_packages,
        .expected = "ids of packages",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
const struct cli_handler command_sandbox_rm = {
        .run = drop,
        .expected = "sandboxes",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
