/* Report changes, denials and conflicts of a run's mounts, and keep changes that were not written.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "outcome.h"

#include "engine/mounts/changeset.h"
#include "print.h"
#include "wire/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define UNASKED_MAX 10 /* denials that are told of without --denials */

/* -- printing a sync -------------------------------------------------------------------------------------------- */

void outcome_print_path(FILE *out, const struct outcome_mounts *mounts, const json_t *path)
{
        char *bytes = output_path_bytes(path);
        const char *below;
        int at = bytes ? changes_find_mount(mounts->targets, mounts->count, bytes, &below) : -1;

        if (at >= 0) {
                print_name(out, mounts->sources[at]);
                if (*below)
                        fputc('/', out);
                print_name(out, below);
        } else {
                print_name(out, bytes);
        }
        free(bytes);
}

static int mount_of(const struct outcome_mounts *mounts, const json_t *path)
{
        char *bytes = output_path_bytes(path);
        const char *below;
        int at = bytes ? changes_find_mount(mounts->targets, mounts->count, bytes, &below) : -1;

        free(bytes);
        return at;
}

static void print_count(FILE *out, size_t count, const char *what)
{
        fprintf(out, "%zu %s%s", count, what, count == 1 ? "" : "s");
}

void outcome_print_written(FILE *out, const char *before, const struct outcome_mounts *mounts, const json_t *sync)
{
        const json_t *synced = json_object_get(sync, "synced"), *path;
        size_t counts[CHANGES_MOUNTS_MAX] = {0}, k;

        json_array_foreach (synced, k, path) {
                int at = mount_of(mounts, path);

                if (at >= 0)
                        counts[at]++;
        }
        for (size_t i = 0; i < mounts->count; i++) {
                if (counts[i] == 0)
                        continue;
                fprintf(out, "%swrote ", before);
                print_count(out, counts[i], "change");
                fputs(" to ", out);
                print_name(out, mounts->sources[i]);
                fputc('\n', out);
        }
}

static void print_failed(FILE *out, const char *before, const struct outcome_mounts *mounts, const json_t *row)
{
        const json_t *error = json_object_get(row, "error");
        const char *message = json_string_value(json_object_get(error, "message"));

        fprintf(out, "%snot written: ", before);
        outcome_print_path(out, mounts, json_object_get(row, "path"));
        fputs(": ", out);
        print_name(out, message ? message : json_string_value(json_object_get(error, "code")));
        fputc('\n', out);
}

static void print_kept(FILE *out, const char *before, const struct outcome_mounts *mounts, const json_t *row)
{
        const json_t *as = json_object_get(row, "as");

        fputs(before, out);
        outcome_print_path(out, mounts, json_object_get(row, "path"));
        fputs(": the host changed it meanwhile; the box's lies beside it as ", out);
        print_path(out, as);
        fputc('\n', out);
}

static int is_conflict(const json_t *failed)
{
        const char *code = json_string_value(json_object_get(json_object_get(failed, "error"), "code"));

        return code && strcmp(code, "conflict") == 0;
}

void outcome_print_problems(FILE *out, const char *before, const struct outcome_mounts *mounts, const json_t *sync)
{
        const char *error = json_string_value(json_object_get(json_object_get(sync, "error"), "message"));
        const json_t *row;
        size_t k, conflicts = 0;

        if (error) {
                fprintf(out, "%sthe sync failed: ", before);
                print_name(out, error);
                fputc('\n', out);
        }
        json_array_foreach (json_object_get(sync, "failed"), k, row) {
                print_failed(out, before, mounts, row);
                conflicts += (size_t)is_conflict(row);
        }
        json_array_foreach (json_object_get(sync, "kept"), k, row)
                print_kept(out, before, mounts, row);
        if (conflicts > 0) {
                fputs(before, out);
                print_count(out, conflicts, "conflict");
                fputs(" with the host: --conflict keepBoth writes beside its files, --conflict overwrite replaces "
                      "them\n",
                      out);
        }
}

int outcome_sync_failed(const json_t *sync)
{
        return json_object_get(sync, "error") || json_object_get(sync, "aborted") ||
               json_array_size(json_object_get(sync, "failed")) > 0;
}

/* -- denials ---------------------------------------------------------------------------------------------------- */

/* The path is of the guest's choice, and the option goes to a shell. print_name() shows some
 * characters beyond ASCII in another form. */
static int is_quotable(const char *pattern)
{
        for (const char *c = pattern; *c; c++)
                if (*c == '\'' || *c < ' ' || *c > '~')
                        return 0;
        return 1;
}

static void print_permitting(FILE *out, const json_t *rule)
{
        const char *pattern = json_string_value(json_object_get(rule, "pattern"));

        if (pattern && is_quotable(pattern))
                fprintf(out, "; --rule '%s=%s' permits it", pattern,
                        json_string_value(json_array_get(json_object_get(rule, "allow"), 0)));
}

static void print_denial(FILE *out, const json_t *denial)
{
        const json_t *rule = json_object_get(denial, "rule");
        json_int_t count = json_integer_value(json_object_get(denial, "count"));

        fputs("cloche: denied ", out);
        print_name(out, json_string_value(json_object_get(denial, "operation")));
        fputc(' ', out);
        print_path(out, json_object_get(denial, "path"));
        if (rule) {
                fputs(" by the rule ", out);
                print_path(out, rule);
        }
        if (count > 1)
                fprintf(out, " (%lld times)", (long long)count);
        print_permitting(out, json_array_get(json_object_get(denial, "allow"), 0));
        fputc('\n', out);
}

/* Runs inside the engine's loop: a slow reader must not delay the checks of limits. */
static void on_denied(void *data, cloche_run *run, enum cloche_file_event event, const char *about,
                      cloche_sync_question *question)
{
        json_t *denial = json_loads(about, 0, NULL);
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        (void)data, (void)run, (void)event, (void)question;
        if (out) {
                print_denial(out, denial);
                if (fclose(out) == 0)
                        (void)print_at_once(text, size, 0);
        }
        free(text);
        json_decref(denial);
}

int outcome_prepare(struct cli_request *request)
{
        if (!request->run.mount)
                return 0;
        if (request->denials) {
                request->run.on_file_event = on_denied;
                request->run.file_events = 1u << CLOCHE_FILE_DENIED;
        }
        return changes_prepare(&request->keeping, request->mounts.object);
}

/* -- after the run ---------------------------------------------------------------------------------------------- */

struct named_mounts {
        const char *targets[CHANGES_MOUNTS_MAX], *sources[CHANGES_MOUNTS_MAX];
        struct outcome_mounts list;
};

static void name_mounts(const json_t *mount, struct named_mounts *ret)
{
        const char *target;
        json_t *dir;

        *ret = (struct named_mounts){.list = {ret->targets, ret->sources, 0}};
        json_object_foreach (json_object_get(mount, "dirs"), target, dir) {
                ret->targets[ret->list.count] = target;
                ret->sources[ret->list.count++] = json_string_value(json_object_get(dir, "path"));
        }
}

static json_t *sync_of(const cloche_result *result)
{
        const char *text = cloche_result_json(result);
        json_t *whole = NULL, *sync;

        if (json_load_text(text, strlen(text), &whole, NULL) < 0)
                return NULL;
        sync = json_incref(json_object_get(whole, "sync"));
        json_decref(whole);
        return sync;
}

static void print_how_to_go_on(FILE *out, size_t count, const char *name)
{
        fputs("cloche: ", out);
        print_count(out, count, "change");
        fprintf(out, " kept: cloche diff %s, cloche sync %s\n", name, name);
}

/* Changes written by a failed sync are not kept. */
static int settle(struct cli_request *request, cloche_changeset *set, const json_t *sync, struct outcome *ret,
                  FILE *out)
{
        struct named_mounts mounts;
        size_t left;
        int code = 0;

        ret->has_failed = outcome_sync_failed(sync);
        if (ret->has_failed)
                changeset_drop(set, json_object_get(sync, "synced"));
        left = sync && !ret->has_failed ? 0 : changeset_count(set);
        if (left > 0)
                code = cli_changes_keep(&request->keeping, set, (uint32_t)left, ret->name);
        else
                privileged_helper_cancel(&request->keeping);
        name_mounts(request->mounts.object, &mounts);
        outcome_print_written(out, "cloche: ", &mounts.list, sync);
        outcome_print_problems(out, "cloche: ", &mounts.list, sync);
        if (ret->name[0])
                print_how_to_go_on(out, left, ret->name);
        return code;
}

int outcome_settle(struct cli_request *request, cloche_result *result, struct outcome *ret)
{
        cloche_changeset *set = request->run.mount ? cloche_result_take_changeset(result) : NULL;
        json_t *sync = set ? sync_of(result) : NULL;
        FILE *out;
        int code = 0;

        *ret = (struct outcome){0};
        if (!set)
                return 0;
        out = open_memstream(&ret->text, &ret->size);
        if (out) {
                code = settle(request, set, sync, ret, out);
                fclose(out);
        } else {
                code = cli_bad("out of memory");
        }
        json_decref(sync);
        cloche_changeset_free(set);
        return code;
}

/* A run that failed may have failed for the network, so its first denials are told unasked. */
static void print_network(FILE *out, const json_t *network, size_t most)
{
        const json_t *rows = json_object_get(network, "denied");
        size_t left = json_array_size(rows) > most ? json_array_size(rows) - most : 0;
        json_int_t lost = json_integer_value(json_object_get(network, "lost"));
        const json_t *denied;
        size_t i;

        json_array_foreach (rows, i, denied) {
                if (i == most)
                        break;
                print_refused(out, denied);
        }
        if (left > 0 || lost > 0)
                fprintf(out, "cloche: and %lld more were denied%s\n", (long long)lost + (long long)left,
                        left > 0 ? " (--denials prints them)" : "");
}

int outcome_print_notes_of(FILE *out, const json_t *whole, int has_denials)
{
        const json_t *meta = json_object_get(whole, "meta"), *warning;
        size_t i;

        json_array_foreach (json_object_get(meta, "warnings"), i, warning) {
                fputs("cloche: ", out);
                print_name(out, json_string_value(warning));
                fputc('\n', out);
        }
        if (has_denials || json_integer_value(json_object_get(whole, "exitCode")) != 0)
                print_network(out, json_object_get(meta, "network"), has_denials ? SIZE_MAX : UNASKED_MAX);
        return json_is_true(json_object_get(meta, "outputLost"));
}

int outcome_print_notes(FILE *out, const cloche_result *result, int has_denials)
{
        const char *text = cloche_result_json(result);
        json_t *whole = NULL;
        struct cloche_err e;
        int is_lost;

        if (json_load_text(text, strlen(text), &whole, &e) < 0) {
                fprintf(out, "cloche: the run's warnings cannot be read: %s\n", e.msg);
                return 1;
        }
        is_lost = outcome_print_notes_of(out, whole, has_denials);
        json_decref(whole);
        return is_lost;
}

void outcome_done(struct outcome *outcome)
{
        free(outcome->text);
        *outcome = (struct outcome){0};
}
