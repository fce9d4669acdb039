/* execute_request: a cell, its output, its questions. Runs in: cloche-kernel and
 * cloched-engine, with their rights. */
#include "internal.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define EXPRESSIONS_MAX 16
#define INPUTS_MAX 16 /* requests for input that are open */

struct cell {
        const char *code; /* borrowed from the request */
        size_t size, at;  /* at: of the code that is to run */
        int is_silent, keeps_history, takes_input, stops_on_error, has_begun;
        struct text_stream out, err;
        json_t *metadata;    /* of the reply */
        json_t *error;       /* {ename, evalue, traceback}; NULL: none */
        json_t *expressions; /* the results so far */
        void *expression;    /* iterator: the next one */
        json_t *value;       /* of the expression that runs */
        json_t *inputs;      /* events of requests for input that are open, the oldest first */
        int is_ended;        /* the interpreter ended with it */
};

void jupyter_cell_free(struct cell *cell)
{
        if (!cell)
                return;
        json_decref(cell->metadata);
        json_decref(cell->error);
        json_decref(cell->expressions);
        json_decref(cell->value);
        json_decref(cell->inputs);
        free(cell);
}

static int flag(const json_t *content, const char *name, int absent)
{
        const json_t *value = json_object_get(content, name);

        return json_is_boolean(value) ? json_is_true(value) : absent;
}

/* -- output -------------------------------------------------------------------------------------------------------- */

/* text: stolen; NULL: nothing. */
static void print(struct jupyter_request *request, const char *stream, json_t *text)
{
        if (text)
                jupyter_publish(request->kernel, request, "stream",
                                json_pack("{s:s, s:o}", "name", stream, "text", text));
}

static void end_streams(struct jupyter_request *request)
{
        print(request, "stdout", text_stream_end(&request->cell->out));
        print(request, "stderr", text_stream_end(&request->cell->err));
}

/* Text, or bytes among the attachments. */
static int bytes_of(const json_t *value, const char *attachments, size_t attachments_size, const char **ret,
                    size_t *ret_size)
{
        json_int_t at = json_integer_value(json_object_get(value, "at")),
                   size = json_integer_value(json_object_get(value, "n"));

        if (json_is_string(value)) {
                *ret = json_string_value(value);
                *ret_size = json_string_length(value);
                return 1;
        }
        if (!json_is_object(value) || at < 0 || size < 0 || (uint64_t)at + (uint64_t)size > attachments_size)
                return 0;
        *ret = attachments + at;
        *ret_size = (size_t)size;
        return 1;
}

static void on_output(struct jupyter_request *request, const json_t *about, const void *attachments,
                      size_t attachments_size)
{
        const char *stream = json_string_value(json_object_get(about, "stream")), *bytes;
        int is_error = stream && strcmp(stream, "stderr") == 0;
        size_t size;

        if (bytes_of(json_object_get(about, "data"), attachments, attachments_size, &bytes, &size))
                print(request, is_error ? "stderr" : "stdout",
                      text_stream_take(is_error ? &request->cell->err : &request->cell->out, bytes, size));
}

static void on_display(struct jupyter_request *request, const json_t *about, const void *attachments,
                       size_t attachments_size)
{
        struct jupyter_kernel *k = request->kernel;
        json_t *content = text_bundle(about, attachments, attachments_size), *id = json_object_get(about, "displayId");
        int is_result = json_is_true(json_object_get(about, "isResult")),
            is_update = json_is_true(json_object_get(about, "isUpdate"));

        if (!content)
                return;
        end_streams(request);
        if (is_result)
                json_object_set_new(content, "execution_count", json_integer(k->count));
        if (json_is_string(id))
                json_object_set_new(content, "transient", json_pack("{s:O}", "display_id", id));
        else
                json_object_set_new(content, "transient", json_object());
        jupyter_publish(k, request,
                        is_result   ? "execute_result"
                        : is_update ? "update_display_data"
                                    : "display_data",
                        content);
}

static void on_begin(struct jupyter_request *request, const json_t *about)
{
        struct cell *cell = request->cell;
        struct jupyter_kernel *k = request->kernel;

        if (cell->is_silent || cell->has_begun)
                return;
        cell->has_begun = 1;
        k->count = json_integer_value(json_object_get(about, "executionCount"));
        jupyter_publish(k, request, "execute_input",
                        json_pack("{s:s%, s:I}", "code", cell->code, cell->size, "execution_count", k->count));
}

/* The client is shown one at a time. */
static void show_input(struct jupyter_request *request)
{
        const json_t *about = json_array_get(request->cell->inputs, 0);

        if (about)
                jupyter_send(request, JUPYTER_STDIN, "input_request", NULL,
                             json_pack("{s:o, s:b}", "prompt", text_of_json(json_object_get(about, "prompt")),
                                       "password", json_is_true(json_object_get(about, "password"))));
}

static void on_input(struct jupyter_request *request, const json_t *about)
{
        struct cell *cell = request->cell;

        end_streams(request);
        if (!json_is_integer(json_object_get(about, "input")) || json_array_size(cell->inputs) == INPUTS_MAX)
                return;
        json_array_append_new(cell->inputs, json_deep_copy(about));
        if (json_array_size(cell->inputs) == 1)
                show_input(request);
}

static void on_event(struct jupyter_call *call, const char *event, const json_t *about, const void *attachments,
                     size_t attachments_size)
{
        struct jupyter_request *request = call->request;

        if (strcmp(event, "output") == 0) {
                on_output(request, about, attachments, attachments_size);
        } else if (strcmp(event, "begin") == 0) {
                on_begin(request, about);
        } else if (request->cell->is_silent) {
                return; /* displays and results are those of a cell with a number */
        } else if (strcmp(event, "display") == 0) {
                on_display(request, about, attachments, attachments_size);
        } else if (strcmp(event, "clear") == 0) {
                end_streams(request);
                jupyter_publish(request->kernel, request, "clear_output",
                                json_pack("{s:b}", "wait", json_is_true(json_object_get(about, "wait"))));
        } else if (strcmp(event, "input") == 0) {
                on_input(request, about);
        }
}

static void on_input_taken(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        (void)call;
        (void)reply; /* the cell may have ended meanwhile */
}

void jupyter_take_input(struct jupyter_kernel *k, const json_t *content)
{
        struct cell *cell = k->current ? k->current->cell : NULL;
        json_t *value = json_object_get(content, "value"), *params;

        if (!cell || json_array_size(cell->inputs) == 0 || !json_is_string(value))
                return;
        params = jupyter_params(k);
        json_object_set(params, "input", json_object_get(json_array_get(cell->inputs, 0), "input"));
        json_object_set(params, "value", value);
        json_array_remove(cell->inputs, 0);
        jupyter_call_core(k, NULL, "context.input", params, on_input_taken, NULL);
        if (k->current && k->current->cell == cell)
                show_input(k->current);
}

/* -- the end ------------------------------------------------------------------------------------------------------- */

/* IPython's words for it, by which alone a console leaves. In other languages they fail, or end
 * the interpreter. */
static json_t *payload_of(const struct cell *cell)
{
        static const char *const words[] = {"exit", "quit", "exit()", "quit()"};
        size_t size = cell->size;

        while (size > 0 && strchr(" \t\r\n", cell->code[size - 1]) && cell->code[size - 1])
                size--;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                if (strlen(words[i]) == size && memcmp(words[i], cell->code, size) == 0)
                        return json_pack("[{s:s, s:b}]", "source", "ask_exit", "keepkernel", 0);
        return json_array();
}

static void end_cell(struct jupyter_request *request)
{
        struct jupyter_kernel *k = request->kernel;
        struct cell *cell = request->cell;
        int stops = cell->error && cell->stops_on_error, is_ended = cell->is_ended;
        json_t *content = json_pack("{s:s, s:I}", "status", cell->error ? "error" : "ok", "execution_count", k->count);

        if (cell->error) {
                json_object_update(content, cell->error);
        } else {
                json_object_set_new(content, "payload", payload_of(cell));
                json_object_set_new(content, "user_expressions",
                                    cell->expressions ? json_incref(cell->expressions) : json_object());
        }
        jupyter_reply_with(request, json_incref(cell->metadata), content);
        if (stops || is_ended)
                jupyter_abort_waiting(k);
        if (is_ended)
                k->current = NULL; /* nothing begins after it */
        jupyter_finish(request);
        if (is_ended)
                jupyter_end(k, JUPYTER_DEAD);
}

static void fail(struct jupyter_request *request, json_t *error)
{
        struct cell *cell = request->cell;

        end_streams(request);
        cell->error = error;
        if (!cell->is_silent)
                jupyter_publish(request->kernel, request, "error", json_incref(error));
        end_cell(request);
}

void jupyter_cell_fail(struct jupyter_request *request, const char *name, const char *text)
{
        fail(request, jupyter_error(name, text));
}

void jupyter_cell_print(struct jupyter_request *request, json_t *text)
{
        print(request, "stdout", text);
}

static json_t *error_of(const json_t *error)
{
        const json_t *lines = json_object_get(error, "traceback"), *line;
        json_t *content = json_pack("{s:o, s:o, s:[]}", "ename", text_of_json(json_object_get(error, "name")), "evalue",
                                    text_of_json(json_object_get(error, "message")), "traceback"),
               *traceback = json_object_get(content, "traceback");
        size_t i;

        json_array_foreach (lines, i, line)
                json_array_append_new(traceback, text_of_json(line));
        if (json_array_size(traceback) == 0)
                json_array_append_new(traceback,
                                      json_sprintf("%s: %s", json_string_value(json_object_get(content, "ename")),
                                                   json_string_value(json_object_get(content, "evalue"))));
        return content;
}

/* -- user_expressions ---------------------------------------------------------------------------------------------- */

static void next_expression(struct jupyter_request *request);

static void on_value(struct jupyter_call *call, const char *event, const json_t *about, const void *attachments,
                     size_t attachments_size)
{
        struct cell *cell = call->request->cell;

        if (strcmp(event, "display") == 0 && json_is_true(json_object_get(about, "isResult"))) {
                json_decref(cell->value);
                cell->value = text_bundle(about, attachments, attachments_size);
        }
}

static void on_evaluated(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        struct cell *cell = call->request->cell;
        const json_t *error = json_object_get(reply->result, "error");
        json_t *result;

        if (reply->e || json_is_object(error)) {
                result = reply->e ? jupyter_error(cloche_code_name(reply->e->code), reply->e->msg) : error_of(error);
                json_object_set_new(result, "status", json_string("error"));
        } else {
                result = cell->value ? json_incref(cell->value)
                                     : json_pack("{s:{s:s}, s:{}}", "data", "text/plain", "", "metadata");
                json_object_set_new(result, "status", json_string("ok"));
        }
        json_object_set_new(cell->expressions, json_object_iter_key(cell->expression), result);
        cell->expression =
                json_object_iter_next(json_object_get(call->request->content, "user_expressions"), cell->expression);
        next_expression(call->request);
}

/* Expressions are evaluated as cells, for these have results; their numbers are not shown. */
static void next_expression(struct jupyter_request *request)
{
        struct cell *cell = request->cell;
        json_t *params, *code;

        json_decref(cell->value);
        cell->value = NULL;
        if (!cell->expression || json_object_size(cell->expressions) == EXPRESSIONS_MAX) {
                end_cell(request);
                return;
        }
        code = json_object_iter_value(cell->expression);
        params = jupyter_params(request->kernel);
        json_object_set(params, "code", json_is_string(code) ? code : NULL);
        json_object_set_new(params, "stream", json_true());
        json_object_set_new(params, "outputBytes", json_integer(0));
        json_object_set_new(params, "history", json_false());
        jupyter_call_core(request->kernel, request, "context.run", params, on_evaluated, on_value);
}

static void evaluate(struct jupyter_request *request)
{
        json_t *expressions = json_object_get(request->content, "user_expressions");

        request->cell->expressions = json_object();
        request->cell->expression = json_object_iter(expressions);
        next_expression(request);
}

/* -- the cell ------------------------------------------------------------------------------------------------------ */

/* Extensions of ours in the reply. */
static void keep_facts(struct jupyter_request *request, const json_t *ended)
{
        const struct jupyter_kernel *k = request->kernel;
        json_t *denials = json_object_get(ended, "denials");
        json_t *facts = json_pack("{s:s, s:s, s:O*, s:o}", "context", k->context, "sandbox", k->sandbox, "duration_ms",
                                  json_object_get(ended, "durationMs"), "denials",
                                  denials ? text_plain_value(denials) : json_array());

        json_object_set_new(request->cell->metadata, "cloche", facts);
}

static void on_ended(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        struct jupyter_request *request = call->request;
        struct cell *cell = request->cell;
        const json_t *error = json_object_get(reply->result, "error");

        end_streams(request);
        if (reply->e) {
                cell->is_ended = reply->e->code == CLOCHE_E_CONTEXT_ENDED || reply->e->code == CLOCHE_E_NOT_FOUND;
                jupyter_cell_fail(request, cell->is_ended ? "ContextEnded" : cloche_code_name(reply->e->code),
                                  reply->e->msg);
                return;
        }
        keep_facts(request, reply->result);
        cell->is_ended = json_is_true(json_object_get(reply->result, "ended"));
        if (json_is_object(error))
                fail(request, error_of(error));
        else
                evaluate(request);
}

static int is_blank(const char *code, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (!strchr(" \t\r\n", code[i]) || !code[i])
                        return 0;
        return 1;
}

/* Nothing runs, so the number stays. */
static void end_blank(struct jupyter_request *request)
{
        struct jupyter_kernel *k = request->kernel;
        struct cell *cell = request->cell;

        if (!cell->is_silent)
                jupyter_publish(k, request, "execute_input",
                                json_pack("{s:s%, s:I}", "code", cell->code, cell->size, "execution_count", k->count));
        evaluate(request);
}

void jupyter_cell_go_on(struct jupyter_request *request)
{
        struct jupyter_kernel *k = request->kernel;
        struct cell *cell = request->cell;
        json_t *params;

        if (is_blank(cell->code + cell->at, cell->size - cell->at)) {
                end_blank(request);
                return;
        }
        params = jupyter_params(k);
        json_object_set_new(params, "code", json_stringn(cell->code + cell->at, cell->size - cell->at));
        json_object_set_new(params, "stream", json_true());
        json_object_set_new(params, "outputBytes", json_integer(0));
        json_object_set_new(params, "silent", json_boolean(cell->is_silent));
        json_object_set_new(params, "history", json_boolean(cell->keeps_history));
        json_object_set_new(params, "input", json_boolean(cell->takes_input && !cell->is_silent));
        jupyter_call_core(k, request, "context.run", params, on_ended, on_event);
}

/* Ours is only the first line. */
static int take_magic(struct jupyter_request *request)
{
        struct cell *cell = request->cell;
        char *line;

        cell->at = jupyter_magic_size(cell->code, cell->size);
        if (cell->at == 0)
                return 0;
        line = strndup(cell->code, cell->at);
        if (!line)
                abort(); /* out of memory */
        jupyter_run_magic(request, line);
        free(line);
        return 1;
}

void jupyter_execute(struct jupyter_request *request)
{
        const json_t *content = request->content, *code = json_object_get(content, "code");
        struct cell *cell = calloc(1, sizeof(*cell));
        struct cloche_err e = {0};

        if (!cell || !json_is_string(code)) {
                free(cell);
                err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "execute_request has no code");
                jupyter_fail(request, &e);
                return;
        }
        request->cell = cell;
        cell->code = json_string_value(code);
        cell->size = json_string_length(code);
        cell->metadata = json_object();
        cell->inputs = json_array();
        cell->is_silent = flag(content, "silent", 0);
        cell->keeps_history = flag(content, "store_history", 1);
        cell->takes_input = flag(content, "allow_stdin", 1);
        cell->stops_on_error = flag(content, "stop_on_error", 1);
        if (!take_magic(request))
                jupyter_cell_go_on(request);
}
