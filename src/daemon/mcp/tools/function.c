/* The tool call_function: a call of the engine, in a box of its own. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "daemon/mcp/internal.h"

#include "base/err.h"
#include "daemon/core/client.h"
#include "wire/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_S 60
#define CHANGES_MAX 1000
#define RUNS_MAX 64 /* of a caller, whose differences are kept */

/* The daemon answers a client; this one is the message's. */
struct call {
        struct client client;
        struct mcp_exchange *x;
        int is_answered;
};

/* A run that has answered must not be cancelled. */
static void call_done(void *state)
{
        struct call *call = state;

        while (call->is_answered && !TAILQ_EMPTY(&call->client.pending))
                client_pending_remove(TAILQ_FIRST(&call->client.pending));
        client_done(&call->client);
        free(call);
}

/* -- differences ------------------------------------------------------------------------------------------------- */

struct mcp_run {
        TAILQ_ENTRY(mcp_run) link;
        int64_t principal;
        char id[MCP_SESSION_SIZE];
        json_t *diff;
};

static void run_free(struct mcp *mcp, struct mcp_run *run)
{
        TAILQ_REMOVE(&mcp->runs, run, link);
        json_decref(run->diff);
        free(run);
}

void mcp_runs_free(struct mcp *mcp)
{
        while (!TAILQ_EMPTY(&mcp->runs))
                run_free(mcp, TAILQ_FIRST(&mcp->runs));
}

const json_t *mcp_run_diff(const struct mcp_exchange *x, const char *id)
{
        const struct mcp_run *run;

        TAILQ_FOREACH (run, &x->door.daemon->mcp->runs, link)
                if (run->principal == x->door.principal && strcmp(run->id, id) == 0)
                        return run->diff;
        return NULL;
}

static void add(struct mcp_cut *diff, const char *text)
{
        mcp_cut_add(diff, text, strlen(text));
}

static size_t count_lines(const char *text)
{
        size_t count = 0;

        for (; *text; text += strcspn(text, "\n") + (text[strcspn(text, "\n")] == '\n'))
                count++;
        return count;
}

static void add_lines(struct mcp_cut *diff, char sign, const char *text)
{
        while (*text) {
                size_t size = strcspn(text, "\n");

                mcp_cut_add(diff, &sign, 1);
                mcp_cut_add(diff, text, size);
                add(diff, text[size] ? "\n" : "\n\\ No newline at end of file\n");
                text += size + (text[size] == '\n');
        }
}

/* The whole file before and after: right for patch(1), if not the shortest. */
static void add_change(struct mcp_cut *diff, const json_t *change, const char *path)
{
        const json_t *before = json_object_get(change, "oldContent"), *after = json_object_get(change, "content");
        const char *old = before ? mcp_text(change, "oldContent") : "", *new = after ? mcp_text(change, "content") : "";
        char head[80];

        add(diff, "--- a");
        add(diff, path);
        add(diff, "\n+++ b");
        add(diff, path);
        if (!old || !new || (!before && !after)) {
                add(diff, "\nThe contents are no texts, or are too large.\n");
                return;
        }
        snprintf(head, sizeof(head), "\n@@ -%d,%zu +%d,%zu @@\n", *old != '\0', count_lines(old), *new != '\0',
                 count_lines(new));
        add(diff, head);
        add_lines(diff, '-', old);
        add_lines(diff, '+', new);
}

static void add_files(struct mcp_cut *diff, const json_t *list)
{
        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *change = json_array_get(list, i);
                const char *path = mcp_text(change, "path"), *kind = mcp_text(change, "kind");

                if (path && (!kind || strcmp(kind, "file") == 0))
                        add_change(diff, change, path);
        }
}

static void forget_runs(struct mcp *mcp, int64_t principal)
{
        struct mcp_run *run, *next;
        size_t count = 0;

        for (run = TAILQ_FIRST(&mcp->runs); run; run = next) {
                next = TAILQ_NEXT(run, link);
                if (run->principal == principal && ++count > RUNS_MAX)
                        run_free(mcp, run);
        }
}

/* The id of the run, under which its differences are kept; NULL: it changed nothing. */
static const char *keep_diff(struct mcp_exchange *x, const json_t *files)
{
        struct mcp *mcp = x->door.daemon->mcp;
        struct mcp_run *run = calloc(1, sizeof(*run));
        struct mcp_cut diff;

        if (!run)
                return NULL;
        mcp_cut_init(&diff);
        add_files(&diff, json_object_get(files, "created"));
        add_files(&diff, json_object_get(files, "modified"));
        add_files(&diff, json_object_get(files, "deleted"));
        run->principal = x->door.principal;
        run->diff = diff.total > 0 ? mcp_cut_text(&diff) : NULL;
        mcp_cut_done(&diff);
        if (!run->diff) {
                free(run);
                return NULL;
        }
        mcp_random_id(run->id);
        TAILQ_INSERT_HEAD(&mcp->runs, run, link);
        forget_runs(mcp, run->principal);
        return run->id;
}

/* -- results ----------------------------------------------------------------------------------------------------- */

static void add_changes(json_t *changes, const json_t *files)
{
        static const char *const kinds[] = {"created", "modified", "deleted"};

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                const json_t *list = json_object_get(files, kinds[i]);

                for (size_t n = 0; n < json_array_size(list) && json_array_size(changes) < CHANGES_MAX; n++) {
                        const char *path = mcp_text(json_array_get(list, n), "path");

                        if (path)
                                json_array_append_new(changes, json_pack("{s:s, s:o}", "type", kinds[i], "path",
                                                                         json_valid_text(path, strlen(path))));
                }
        }
}

static json_t *cut_member(const json_t *result, const char *name)
{
        const json_t *text = json_object_get(result, name);

        return mcp_cut_of(json_string_value(text), json_string_length(text));
}

/* The value as JSON text; one that is too large for a model is cut. */
static json_t *text_of(const json_t *value)
{
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        json_t *ret = text ? mcp_cut_of(text, strlen(text)) : NULL;

        free(text);
        return ret;
}

static json_t *error_text(const json_t *error)
{
        const char *stack = mcp_text(error, "stack"), *message = mcp_text(error, "message"),
                   *text = stack && *stack ? stack
                           : message       ? message
                                           : "the function failed";

        return mcp_cut_of(text, strlen(text));
}

/* result: in text form. */
static void answer(struct mcp_exchange *x, const json_t *result)
{
        json_t *error = json_object_get(result, "error"), *value = json_object_get(result, "result"),
               *content = json_array(), *changes = json_array(), *structured, *text;
        int is_success = json_is_true(json_object_get(result, "success"));
        const char *run = keep_diff(x, json_object_get(result, "files"));

        add_changes(changes, json_object_get(result, "files"));
        text = is_success ? text_of(value) : error_text(error);
        structured = json_pack("{s:o, s:o, s:o, s:s*, s:O*}", "stdout", cut_member(result, "stdout"), "stderr",
                               cut_member(result, "stderr"), "changes", changes, "run", run, "value",
                               is_success && json_string_length(text) <= MCP_TEXT_BYTES ? value : NULL);
        mcp_add_text(content, json_object_get(structured, "stdout"));
        mcp_add_text(content, json_object_get(structured, "stderr"));
        mcp_add_text(content, text);
        json_decref(text);
        if (run)
                json_array_append_new(content, json_pack("{s:s, s:o, s:s, s:s}", "type", "resource_link", "uri",
                                                         json_sprintf("cloche://runs/%s/changes.diff", run), "name",
                                                         "changes.diff", "mimeType", "text/x-diff"));
        mcp_tool_answer(x, content, structured, !is_success);
}

static void on_result(struct client *client, const struct operation *operation, const json_t *id, const json_t *result)
{
        struct call *call = client->data;
        json_t *plain = NULL;
        struct cloche_err e = {0};

        (void)operation;
        (void)id;
        call->is_answered = 1;
        if (value_write(result, VALUE_TEXT, NULL, &plain, &e) < 0)
                mcp_tool_fail(call->x, &e);
        else
                answer(call->x, plain);
        json_decref(plain);
}

static void on_fail(struct client *client, const json_t *id, const struct cloche_err *e, json_t *data)
{
        struct call *call = client->data;

        (void)id;
        json_decref(data);
        call->is_answered = 1;
        mcp_tool_fail(call->x, e);
}

static void on_notice(struct client *client, const json_t *id, const char *event, const char *about)
{
        (void)client;
        (void)id;
        (void)event;
        (void)about;
}

static json_t *params_of(const struct mcp_exchange *x)
{
        json_t *params =
                json_pack("{s:O, s:O, s:O*, s:O*, s:O*, s:O*, s:{s:I}}", "language",
                          json_object_get(x->arguments, "language"), "code", json_object_get(x->arguments, "code"),
                          "args", json_object_get(x->arguments, "args"), "kwargs",
                          json_object_get(x->arguments, "kwargs"), "function",
                          json_object_get(x->arguments, "function"), "files", json_object_get(x->arguments, "files"),
                          "limits", "wallMs", mcp_count(x, "timeout_s", TIMEOUT_S) * 1000);
        json_int_t memory_mb = mcp_count(x, "memory_mb", 0);

        if (memory_mb)
                json_object_set_new(json_object_get(params, "limits"), "memoryBytes", json_integer(memory_mb << 20));
        return params;
}

void mcp_call_function(struct mcp_exchange *x)
{
        static const struct face face = {.name = "mcp", .result = on_result, .fail = on_fail, .notify = on_notice};
        struct call *call = calloc(1, sizeof(*call));
        json_t *params = params_of(x), *unused = NULL;
        struct client_request request = {.operation = operation_at(OPERATION_CALL), .params = params};
        struct cloche_err e = {0};

        if (!call || !params) {
                free(call);
                json_decref(params);
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
                return;
        }
        call->x = x;
        client_init(&call->client, x->door.daemon, &face, x->door.principal, -1);
        call->client.data = call;
        call->client.is_greeted = 1;
        request.client = &call->client;
        x->state = call;
        x->state_done = call_done;
        if (operation_run(&request, &unused, &e) < 0) /* else x may be freed */
                mcp_tool_fail(x, &e);
        json_decref(params);
}
