/* Requests to contexts other than cells. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "context.h"
#include "sandbox/core/spawn.h"

#include "base/err.h"
#include "base/utf8.h"
#include "engine/warm/prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT_END INT32_MAX

/* -- requests that wait in the queue -------------------------------------------------------------------------- */

struct question_task {
        struct context_task task;
        struct sandbox_request *request;
        int is_new; /* of context.create */
};

static struct question_task *from(struct context_task *task)
{
        return (struct question_task *)task;
}

static void on_release(struct context_task *task)
{
        free(task);
}

static void on_failed(struct context_task *task, const struct cloche_err *e)
{
        sandbox_request_fail(from(task)->request, e, NULL);
        free(task);
}

static void on_cancel(struct sandbox_request *request)
{
        struct question_task *q = request->state;

        q->request = NULL;
        context_task_detach(&q->task);
}

static int request_in_turn(struct sandbox_request *request, struct context *c, const struct context_task_kind *kind,
                           int is_new, struct cloche_err *e)
{
        struct question_task *q = calloc(1, sizeof(*q));
        int r;

        if (!q)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a request to a context");
        q->request = request;
        q->is_new = is_new;
        request->state = q;
        request->cancel = on_cancel;
        r = context_request(c, &q->task, kind, e);
        if (r < 0) {
                request->cancel = NULL;
                free(q);
        }
        return r;
}

struct context *context_of(struct sandbox_request *request, struct cloche_err *e)
{
        const char *name = sandbox_request_text(request, "context");

        if (name)
                return context_find(request->sandbox, name, e);
        err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s needs the field \"context\": its name", request->method->name);
        return NULL;
}

/* -- create, restart ------------------------------------------------------------------------------------------ */

static void on_ready(struct context_task *task, const struct rpc_message *m, const struct frame *f)
{
        struct sandbox_request *request = from(task)->request;
        int is_new = from(task)->is_new;
        json_t *answer = context_json(task->context);

        (void)m;
        (void)f;
        free(task);
        if (answer && request->method->handle == handle_CONTEXT_CREATE)
                json_object_set_new(answer, "created", json_boolean(is_new));
        sandbox_request_result(request, answer, NULL);
}

static const struct context_task_kind ready_kind = {NULL, NULL, on_ready, on_failed, on_release};

/* A context that could not be made is removed. */
static void on_not_made(struct context_task *task, const struct cloche_err *e)
{
        struct context *c = task->context;

        on_failed(task, e);
        context_schedule_free(c);
}

static const struct context_task_kind making_kind = {NULL, NULL, on_ready, on_not_made, on_release};

static int check_cwd(const char *cwd, struct cloche_err *e)
{
        return cwd && (cwd[0] != '/' || strlen(cwd) >= SHELL_CWD_MAX)
                       ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "cwd must be an absolute path of at most %d bytes",
                                 SHELL_CWD_MAX - 1)
                       : 0;
}

static int refuse_other(const struct context *c, const char *prefix, struct cloche_err *e)
{
        return c->prefix[0]
                       ? err_set(e, CLOCHE_E_STATE,
                                 "the context \"%s\" exists already, of the prefix \"%s\" and not of \"%.64s\": use "
                                 "another name",
                                 c->name, c->prefix, prefix)
                       : err_set(e, CLOCHE_E_STATE,
                                 "the context \"%s\" exists already, without a prefix: use another name", c->name);
}

static int find_prefix(struct sandbox_request *request, const char *name, const cloche_prefix **ret,
                       const char **ret_title, struct cloche_err *e)
{
        return request->face->prefix ? request->face->prefix(request->data, name, ret, ret_title, e)
                                     : err_set(e, CLOCHE_E_NOT_FOUND, "this caller has no prefixes");
}

/* Refuse another prefix than that of the context. One with the same title is the same if its
 * set-up is: ids are new with each connection. */
static int check_same(struct sandbox_request *request, const struct context *c, const char *name, struct cloche_err *e)
{
        const cloche_prefix *prefix;
        const char *title = name;

        if (strcmp(c->prefix, name) == 0)
                return 0;
        if (!c->set_up || find_prefix(request, name, &prefix, &title, e) < 0 || strcmp(c->prefix, title) != 0)
                return refuse_other(c, title, e);
        if (strcmp(c->set_up->setup->key, prefix->template->setup->key) == 0)
                return 0;
        return err_set(e, CLOCHE_E_STATE,
                       "the context \"%s\" exists already, of an earlier set-up \"%s\": use another name", c->name,
                       title);
}

/* Make a context of a prefix or, without one, of the language. NULL with e. */
static struct context *make_context(struct sandbox_request *request, const char *name, const char *language,
                                    struct cloche_err *e)
{
        const char *prefix_name = sandbox_request_text(request, "prefix");
        const cloche_prefix *prefix = NULL;
        const char *title = NULL;
        struct context *c;

        if (prefix_name && (find_prefix(request, prefix_name, &prefix, &title, e) < 0 ||
                            context_prefix_check(request->sandbox, title, prefix, language, e) < 0))
                return NULL;
        if (prefix)
                language = prefix->template->runtime->name;
        c = context_new(request->sandbox, name, language ? language : "python", sandbox_request_text(request, "cwd"),
                        json_object_get(request->params, "env"), e);
        if (!c || !prefix || context_use_prefix(c, title, prefix, e) == 0)
                return c;
        context_free(c);
        return NULL;
}

int handle_CONTEXT_CREATE(struct sandbox_request *request, struct cloche_err *e)
{
        const char *name = sandbox_request_text(request, "context"),
                   *language = sandbox_request_text(request, "language"), *cwd = sandbox_request_text(request, "cwd"),
                   *prefix = sandbox_request_text(request, "prefix");
        json_t *env = json_object_get(request->params, "env");
        struct sandbox *s = request->sandbox;
        char made_up[32] = "";
        struct context *c;

        if (check_cwd(cwd, e) < 0 || (env && sandbox_env_check(env, e) < 0))
                return -(int)e->code;
        while (!name && (!made_up[0] || context_look_up(s, made_up)))
                snprintf(made_up, sizeof(made_up), "context-%llu", (unsigned long long)++s->next_context);
        name = name ? name : made_up;
        c = context_look_up(s, name);
        if (c && language && runtime_is(c->runtime, language) == 0)
                return err_set(e, CLOCHE_E_STATE,
                               "the context \"%s\" exists already, with the language %s: use another name", name,
                               c->runtime->name);
        if (c && prefix && check_same(request, c, prefix, e) < 0)
                return -(int)e->code;
        if (c && c->state == CONTEXT_LIVE) {
                json_t *answer = context_json(c);

                json_object_set_new(answer, "created", json_false());
                sandbox_request_result(request, answer, NULL);
                return 0;
        }
        if (c) {
                context_start(c);
                return request_in_turn(request, c, &ready_kind, 0, e);
        }
        c = make_context(request, name, language, e);
        if (!c)
                return -(int)e->code;
        c->timeout_ms = sandbox_request_count(request, "timeoutMs", 0);
        c->is_forkable = sandbox_request_flag(request, "forkable", 0);
        if (context_cold_reason(s) && context_cold_check(c, context_cold_reason(s), e) < 0) {
                context_free(c);
                return -(int)e->code;
        }
        context_start(c);
        if (request_in_turn(request, c, &making_kind, 1, e) == 0)
                return 0;
        context_free(c);
        return -(int)e->code;
}

int handle_CONTEXT_RESTART(struct sandbox_request *request, struct cloche_err *e)
{
        struct context *c = context_of(request, e);
        struct cloche_err why;

        if (!c)
                return -(int)e->code;
        err_set(&why, CLOCHE_E_CONTEXT_ENDED, "the context was restarted");
        context_end(c, &why);
        context_start(c);
        return request_in_turn(request, c, &ready_kind, 0, e);
}

/* -- without the agent ---------------------------------------------------------------------------------------- */

int handle_CONTEXT_LIST(struct sandbox_request *request, struct cloche_err *e)
{
        json_t *list = json_array();
        const struct context *c;

        (void)e;
        TAILQ_FOREACH (c, &request->sandbox->contexts, link)
                if (!c->is_doomed && !c->of)
                        json_array_append_new(list, context_json(c));
        sandbox_request_result(request, json_pack("{s:o}", "contexts", list), NULL);
        return 0;
}

int handle_CONTEXT_GET(struct sandbox_request *request, struct cloche_err *e)
{
        const struct context *c = context_of(request, e);

        if (!c)
                return -(int)e->code;
        sandbox_request_result(request, context_json(c), NULL);
        return 0;
}

int handle_CONTEXT_DELETE(struct sandbox_request *request, struct cloche_err *e)
{
        struct context *c = context_of(request, e);
        json_t *answer;

        if (!c)
                return -(int)e->code;
        answer = json_pack("{s:s}", "context", c->name);
        context_free(c);
        sandbox_request_result(request, answer, NULL);
        return 0;
}

/* The cell that runs, or a look that takes long. */
static int interrupt(struct context *c)
{
        struct cell *cell = context_cell_of(c);

        if (cell)
                return context_cell_interrupt(cell);
        if (!c->current || !c->current->kind->is_interruptible)
                return 0;
        context_signal(c);
        return 1;
}

int handle_CONTEXT_INTERRUPT(struct sandbox_request *request, struct cloche_err *e)
{
        struct context *c = context_of(request, e);

        if (!c)
                return -(int)e->code;
        sandbox_request_result(request, json_pack("{s:s, s:b}", "context", c->name, "interrupted", interrupt(c)), NULL);
        return 0;
}

int handle_CONTEXT_INPUT(struct sandbox_request *request, struct cloche_err *e)
{
        const struct context *c = context_of(request, e);
        struct cell *cell = c ? context_cell_of(c) : NULL;
        int r;

        if (!c)
                return -(int)e->code;
        r = cell ? context_cell_input(cell, sandbox_request_count(request, "input", 0),
                                      sandbox_request_text(request, "value"), e)
                 : err_set(e, CLOCHE_E_NOT_FOUND, "no cell runs in the context \"%s\"", c->name);
        if (r == 0)
                sandbox_request_result(request, json_object(), NULL);
        return r;
}

/* -- by the agent --------------------------------------------------------------------------------------------- */

static json_t *complete_params(struct context_task *task)
{
        const struct sandbox_request *request = from(task)->request;
        uint64_t at = sandbox_request_count(request, "at", AT_END);

        return json_pack("{s:s, s:I}", "code", sandbox_request_text(request, "code"), "at",
                         (json_int_t)(at < AT_END ? at : AT_END));
}

static json_t *no_params(struct context_task *task)
{
        (void)task;
        return json_object();
}

/* Pass on only text, under the expected names: the agent is not trusted. */
static json_t *texts(const json_t *list)
{
        json_t *clean = json_array(), *item;
        size_t i;

        json_array_foreach ((json_t *)list, i, item)
                if (json_is_string(item))
                        json_array_append(clean, item);
        return clean;
}

static json_t *variables(const json_t *list)
{
        json_t *clean = json_array(), *row;
        size_t i;

        json_array_foreach ((json_t *)list, i, row) {
                json_t *name = json_object_get(row, "name"), *type = json_object_get(row, "type"),
                       *summary = json_object_get(row, "summary");

                if (json_is_string(name) && json_is_string(type) && json_is_string(summary))
                        json_array_append_new(clean, json_pack("{s:O, s:O, s:O}", "name", name, "type", type, "summary",
                                                               summary));
        }
        return clean;
}

static void send_reply(struct context_task *task, const struct rpc_message *m, json_t *answer)
{
        struct sandbox_request *request = from(task)->request;
        struct cloche_err e;

        free(task);
        if (m->kind == RPC_RESULT) {
                sandbox_request_result(request, answer, NULL);
                return;
        }
        context_read_error(m, &e);
        sandbox_request_fail(request, &e, NULL);
}

static void on_completed(struct context_task *task, const struct rpc_message *m, const struct frame *f)
{
        json_t *answer = NULL;

        (void)f;
        if (m->kind == RPC_RESULT)
                answer = json_pack("{s:o, s:I, s:I}", "matches", texts(json_object_get(m->result, "matches")), "from",
                                   json_integer_value(json_object_get(m->result, "from")), "to",
                                   json_integer_value(json_object_get(m->result, "to")));
        send_reply(task, m, answer);
}

static void on_described(struct context_task *task, const struct rpc_message *m, const struct frame *f)
{
        (void)f;
        send_reply(task, m,
                   m->kind == RPC_RESULT
                           ? json_pack("{s:o}", "variables", variables(json_object_get(m->result, "variables")))
                           : NULL);
}

static json_t *inspect_params(struct context_task *task)
{
        json_t *params = complete_params(task);

        json_object_set_new(params, "detail",
                            json_integer(sandbox_request_count(from(task)->request, "detail", 0) != 0));
        return params;
}

static json_t *code_params(struct context_task *task)
{
        return json_pack("{s:s}", "code", sandbox_request_text(from(task)->request, "code"));
}

static json_t *forms(const json_t *data)
{
        static const char *const mimes[] = {"text/plain", "text/html"};
        json_t *clean = json_object();

        for (size_t i = 0; i < sizeof(mimes) / sizeof(mimes[0]); i++) {
                const json_t *form = json_object_get(data, mimes[i]);
                size_t size = json_string_length(form);

                if (json_is_string(form))
                        json_object_set_new(clean, mimes[i],
                                            json_stringn(json_string_value(form),
                                                         utf8_cut(json_string_value(form), size,
                                                                  CONTEXT_INSPECTION_BYTES)));
        }
        return clean;
}

static void on_inspected(struct context_task *task, const struct rpc_message *m, const struct frame *f)
{
        json_t *answer = NULL;

        (void)f;
        if (m->kind == RPC_RESULT) {
                json_t *data = forms(json_object_get(m->result, "data"));

                answer = json_pack("{s:b, s:o}", "found", json_object_size(data) > 0, "data", data);
        }
        send_reply(task, m, answer);
}

static const char *one_of(const char *text, const char *const *words, size_t count, const char *otherwise)
{
        for (size_t i = 0; text && i < count; i++)
                if (strcmp(text, words[i]) == 0)
                        return words[i];
        return otherwise;
}

static void on_judged(struct context_task *task, const struct rpc_message *m, const struct frame *f)
{
        static const char *const statuses[] = {"complete", "incomplete", "invalid"};
        const char *status, *indent;
        json_t *answer = NULL;
        size_t blanks;

        (void)f;
        if (m->kind == RPC_RESULT) {
                status = one_of(json_string_value(json_object_get(m->result, "status")), statuses,
                                sizeof(statuses) / sizeof(statuses[0]), "unknown");
                indent = json_string_value(json_object_get(m->result, "indent"));
                blanks = indent ? strspn(indent, " \t") : 0;
                answer = json_pack("{s:s, s:s%}", "status", status, "indent", indent ? indent : "",
                                   blanks < CONTEXT_INDENT_BYTES ? blanks : (size_t)CONTEXT_INDENT_BYTES);
        }
        send_reply(task, m, answer);
}

static const struct context_task_kind complete_kind = {"complete", complete_params, on_completed,
                                                       on_failed,  on_release,      1,
                                                       0};
static const struct context_task_kind describe_kind = {"describe", no_params, on_described, on_failed, on_release,
                                                       1,          0};
static const struct context_task_kind inspect_kind = {"inspect", inspect_params, on_inspected, on_failed, on_release, 1,
                                                      1};
static const struct context_task_kind judge_kind = {"isComplete", code_params, on_judged, on_failed, on_release, 1, 1};

int handle_CONTEXT_COMPLETE(struct sandbox_request *request, struct cloche_err *e)
{
        struct context *c = context_of(request, e);

        return c ? request_in_turn(request, c, &complete_kind, 0, e) : -(int)e->code;
}

int handle_CONTEXT_DESCRIBE(struct sandbox_request *request, struct cloche_err *e)
{
        struct context *c = context_of(request, e);

        return c ? request_in_turn(request, c, &describe_kind, 0, e) : -(int)e->code;
}

/* Look at code or at a name. The caller wants to know at once: it does not wait for cells. */
static int look(struct sandbox_request *request, const struct context_task_kind *kind, struct cloche_err *e)
{
        struct context *c = context_of(request, e);

        if (!c)
                return -(int)e->code;
        if (strlen(sandbox_request_text(request, "code")) > CONTEXT_QUESTION_BYTES)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the code of %s has at most %u bytes",
                               request->method->name, CONTEXT_QUESTION_BYTES);
        if (context_has_cells(c))
                return err_set(e, CLOCHE_E_STATE,
                               "a cell runs in the context \"%s\": try again when it has ended, or end it "
                               "(context.interrupt)",
                               c->name);
        return request_in_turn(request, c, kind, 0, e);
}

int handle_CONTEXT_INSPECT(struct sandbox_request *request, struct cloche_err *e)
{
        return look(request, &inspect_kind, e);
}

int handle_CONTEXT_IS_COMPLETE(struct sandbox_request *request, struct cloche_err *e)
{
        return look(request, &judge_kind, e);
}
