/* Requests that run no code of the client's: facts, completion, inspection, history, comms. Runs
 * in: cloche-kernel and cloched-engine, with their rights. */
#include "internal.h"

#include "base/err.h"

#include <fnmatch.h>
#include <string.h>

/* Bytes of patterns times those of texts. fnmatch(3) needs up to 25 ns for each, on a loop that
 * serves others too. */
#define SEARCH_STEPS_MAX ((size_t)4 << 20)

static json_t *ok(void)
{
        return json_pack("{s:s}", "status", "ok");
}

static const char *text_in(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text ? text : "";
}

/* -- facts --------------------------------------------------------------------------------------------------------- */

static json_t *language_info(const struct jupyter_kernel *k)
{
        const struct jupyter_language *l = k->language;

        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "name", l->jupyter, "version", k->version, "mimetype",
                         l->mimetype, "file_extension", l->extension, "pygments_lexer", l->pygments, "codemirror_mode",
                         l->codemirror);
}

void jupyter_kernel_info(struct jupyter_request *request)
{
        const struct jupyter_kernel *k = request->kernel;

        jupyter_reply(request,
                      json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:[], s:b}", "status", "ok", "protocol_version",
                                JUPYTER_PROTOCOL, "implementation", "cloche", "implementation_version", CLOCHE_VERSION,
                                "language_info", language_info(k), "banner",
                                json_sprintf("%s%s%s in sandbox %s (Cloche " CLOCHE_VERSION ")", k->language->display,
                                             k->version[0] ? " " : "", k->version, k->sandbox),
                                "help_links", "debugger", 0));
}

void jupyter_comm_info(struct jupyter_request *request)
{
        jupyter_reply(request, json_pack("{s:s, s:{}}", "status", "ok", "comms"));
}

void jupyter_comm_refuse(struct jupyter_request *request)
{
        jupyter_publish(request->kernel, request, "comm_close",
                        json_pack("{s:s, s:{}}", "comm_id", text_in(request->content, "comm_id"), "data"));
        jupyter_finish(request);
}

/* -- questions to the interpreter ---------------------------------------------------------------------------------- */

static json_t *code_params(struct jupyter_request *request, const char *position)
{
        json_t *params = jupyter_params(request->kernel), *at = json_object_get(request->content, "cursor_pos");

        json_object_set_new(params, "code", json_string(text_in(request->content, "code")));
        if (position && json_is_integer(at) && json_integer_value(at) >= 0)
                json_object_set(params, position, at);
        return params;
}

static void on_completed(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        json_t *content = ok(), *matches, *match;
        size_t i;

        if (reply->e) {
                json_decref(content);
                jupyter_fail(call->request, reply->e);
                return;
        }
        matches = json_array();
        json_array_foreach (json_object_get(reply->result, "matches"), i, match)
                json_array_append_new(matches, text_of_json(match));
        json_object_set_new(content, "matches", matches);
        json_object_set(content, "cursor_start", json_object_get(reply->result, "from"));
        json_object_set(content, "cursor_end", json_object_get(reply->result, "to"));
        json_object_set_new(content, "metadata", json_object());
        jupyter_reply(call->request, content);
}

void jupyter_complete(struct jupyter_request *request)
{
        jupyter_call_core(request->kernel, request, "context.complete", code_params(request, "at"), on_completed, NULL);
}

static void on_inspected(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        json_t *bundle, *content;

        if (reply->e) {
                jupyter_fail(call->request, reply->e);
                return;
        }
        bundle = text_bundle(reply->result, reply->attachments, reply->attachments_size);
        content = ok();
        if (bundle && json_is_true(json_object_get(reply->result, "found"))) {
                json_object_update(content, bundle);
                json_object_set_new(content, "found", json_true());
        } else {
                json_object_set_new(content, "found", json_false());
                json_object_set_new(content, "data", json_object());
                json_object_set_new(content, "metadata", json_object());
        }
        json_decref(bundle);
        jupyter_reply(call->request, content);
}

void jupyter_inspect(struct jupyter_request *request)
{
        json_t *params = code_params(request, "at"), *detail = json_object_get(request->content, "detail_level");

        json_object_set_new(params, "detail", json_integer(json_integer_value(detail) == 1));
        jupyter_call_core(request->kernel, request, "context.inspect", params, on_inspected, NULL);
}

static void on_judged(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        const char *status = text_in(reply->result, "status");
        json_t *content;

        if (reply->e) {
                content = json_pack("{s:s}", "status", "unknown");
        } else {
                content = json_pack("{s:s}", "status", *status ? status : "unknown");
                if (strcmp(status, "incomplete") == 0)
                        json_object_set_new(content, "indent", text_of_json(json_object_get(reply->result, "indent")));
        }
        jupyter_reply(call->request, content);
}

/* A magic's line is complete by itself, and the language's parser gets the lines after it. */
void jupyter_is_complete(struct jupyter_request *request)
{
        const char *code = text_in(request->content, "code");
        size_t size = strlen(code), at = jupyter_magic_size(code, size);
        json_t *params;

        if (at > 0 && at == size) {
                jupyter_reply(request, json_pack("{s:s}", "status", "complete"));
                return;
        }
        params = code_params(request, NULL);
        json_object_set_new(params, "code", json_stringn(code + at, size - at));
        jupyter_call_core(request->kernel, request, "context.isComplete", params, on_judged, NULL);
}

/* -- history ------------------------------------------------------------------------------------------------------- */

/* The session is 0, the present one: there are no others. */
static json_t *entry_of(const json_t *kept, int has_output)
{
        json_t *input = json_incref(json_object_get(kept, "code"));

        return json_pack("[i, O, o]", 0, json_object_get(kept, "count"),
                         has_output ? json_pack("[o, n]", input) : input);
}

static int is_repeated(const json_t *entries, const json_t *code)
{
        const json_t *entry;
        size_t i;

        json_array_foreach (entries, i, entry)
                if (json_equal(json_object_get(entry, "code"), code))
                        return 1;
        return 0;
}

static int is_in_range(const json_t *content, json_int_t line)
{
        json_int_t session = json_integer_value(json_object_get(content, "session")),
                   start = json_integer_value(json_object_get(content, "start"));
        const json_t *stop = json_object_get(content, "stop");

        return session == 0 && line >= start && (!json_is_integer(stop) || line < json_integer_value(stop));
}

/* steps: of the search so far. */
static int is_match(const char *pattern, const char *code, size_t *steps)
{
        *steps += strlen(pattern) * strlen(code);
        return *steps <= SEARCH_STEPS_MAX && fnmatch(*pattern ? pattern : "*", code, 0) == 0;
}

/* The entries that the request wants, the oldest first. */
static json_t *find(const json_t *entries, const json_t *content)
{
        const char *kind = text_in(content, "hist_access_type"), *pattern = text_in(content, "pattern");
        int is_range = strcmp(kind, "range") == 0, is_search = strcmp(kind, "search") == 0,
            is_unique = json_is_true(json_object_get(content, "unique"));
        json_t *found = json_array();
        size_t steps = 0;

        for (size_t i = json_array_size(entries); i > 0; i--) {
                json_t *kept = json_array_get(entries, i - 1), *code = json_object_get(kept, "code");

                if ((is_range && !is_in_range(content, json_integer_value(json_object_get(kept, "count")))) ||
                    (is_search && !is_match(pattern, json_string_value(code), &steps)) ||
                    (is_search && is_unique && is_repeated(found, code)))
                        continue;
                json_array_insert(found, 0, kept);
        }
        return found;
}

static void on_history(struct jupyter_call *call, const struct jupyter_reply *reply)
{
        const json_t *content = call->request->content, *n = json_object_get(content, "n");
        int has_output = json_is_true(json_object_get(content, "output")),
            is_range = strcmp(text_in(content, "hist_access_type"), "range") == 0;
        json_t *found, *history;
        size_t size, first = 0;

        if (reply->e) {
                jupyter_fail(call->request, reply->e);
                return;
        }
        found = find(json_object_get(reply->result, "entries"), content);
        history = json_array();
        size = json_array_size(found);
        if (!is_range && json_is_integer(n) && json_integer_value(n) >= 0 && (size_t)json_integer_value(n) < size)
                first = size - (size_t)json_integer_value(n);
        for (size_t i = first; i < size; i++)
                json_array_append_new(history, entry_of(json_array_get(found, i), has_output));
        json_decref(found);
        jupyter_reply(call->request, json_pack("{s:s, s:o}", "status", "ok", "history", history));
}

void jupyter_history(struct jupyter_request *request)
{
        jupyter_call_core(request->kernel, request, "context.history", jupyter_params(request->kernel), on_history,
                          NULL);
}
