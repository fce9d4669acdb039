/* Prompts, and the completion of arguments. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 100 /* of a completion */

/* -- prompts ----------------------------------------------------------------------------------------------------- */

static const struct prompt {
        const char *name, *title, *description;
        struct {
                const char *name, *description;
                int is_required;
        } arguments[2];
        /* The text before, between and after the arguments. */
        const char *text[3];
} prompts[] = {
        {"analyze-data",
         "Analyze data",
         "Answer a question about a file of data with code.",
         {{"path", "The file in the sandbox.", 1}, {"question", "The question.", 0}},
         {"Analyze the data in the file ",
          " of the sandbox. Look at its form first (read_file, run_code), then use run_code for the "
          "figures, and draw a chart where it helps. The question: ",
          "\nAnswer in a few sentences, with the figures that support it, and say which rows you left out and why."}},
        {"debug-program",
         "Debug a program",
         "Find out why a command fails, and repair it.",
         {{"command", "The command that fails.", 1}},
         {"Run this command in the sandbox with run_command and find the cause of its failure: ",
          "\nRead the files that it names before you change them. Make the smallest change that repairs it "
          "(edit_file), and run the command again. If a connection is refused, use explain_denial.",
          NULL}},
        {"review-changes",
         "Review changes",
         "Review the changes in the files of a sandbox.",
         {{"sandbox", "The sandbox; default: the one that tools use.", 0}},
         {"Review the changes in the working directory of the sandbox ",
          ": with git diff where there is a repository, else by the files that changed last (list_directory). "
          "Name each fault with its file and line, the worst first, and run the tests if there are any.",
          NULL}},
};
#define PROMPT_COUNT (sizeof(prompts) / sizeof(prompts[0]))

static json_t *arguments_of(const struct prompt *prompt)
{
        json_t *arguments = json_array();

        for (size_t i = 0; i < 2 && prompt->arguments[i].name; i++)
                json_array_append_new(arguments, json_pack("{s:s, s:s, s:b}", "name", prompt->arguments[i].name,
                                                           "description", prompt->arguments[i].description, "required",
                                                           prompt->arguments[i].is_required));
        return arguments;
}

void mcp_on_prompts_list(struct mcp_exchange *x)
{
        json_t *list = json_array();

        if (mcp_refuse_cursor(x)) {
                json_decref(list);
                return;
        }
        for (size_t i = 0; i < PROMPT_COUNT; i++)
                json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "name", prompts[i].name, "title",
                                                      prompts[i].title, "description", prompts[i].description,
                                                      "arguments", arguments_of(&prompts[i])));
        mcp_fixtures_list(x, "prompts", list);
        mcp_answer(x, mcp_cached(x, json_pack("{s:o}", "prompts", list), 1));
}

static const struct prompt *find_prompt(const char *name)
{
        for (size_t i = 0; name && i < PROMPT_COUNT; i++)
                if (strcmp(prompts[i].name, name) == 0)
                        return &prompts[i];
        return NULL;
}

static json_t *text_of(const struct mcp_exchange *x, const struct prompt *prompt, const json_t *arguments)
{
        const char *values[2] = {NULL, NULL};

        for (size_t i = 0; i < 2 && prompt->arguments[i].name; i++) {
                values[i] = mcp_text(arguments, prompt->arguments[i].name);
                if (!values[i])
                        values[i] =
                                strcmp(prompt->arguments[i].name, "sandbox") == 0 ? x->sandbox : "(none: describe it)";
        }
        return json_sprintf("%s%s%s%s%s", prompt->text[0], values[0], prompt->text[1], values[1] ? values[1] : "",
                            prompt->text[2] ? prompt->text[2] : "");
}

void mcp_on_prompts_get(struct mcp_exchange *x)
{
        const struct prompt *prompt = find_prompt(mcp_text(x->params, "name"));
        const json_t *arguments = json_object_get(x->params, "arguments");

        if (!mcp_inputs_take(x) || mcp_fixture_prompt(x))
                return;
        if (!prompt) {
                mcp_refuse(x, MCP_BAD_PARAMS, "there is no such prompt (prompts/list has them)");
                return;
        }
        for (size_t i = 0; i < 2 && prompt->arguments[i].name; i++)
                if (prompt->arguments[i].is_required && !mcp_text(arguments, prompt->arguments[i].name)) {
                        mcp_refuse(x, MCP_BAD_PARAMS, "%s: the argument '%s' is missing", prompt->name,
                                   prompt->arguments[i].name);
                        return;
                }
        mcp_answer(x, json_pack("{s:s, s:[{s:s, s:{s:s, s:o}}]}", "description", prompt->description, "messages",
                                "role", "user", "content", "type", "text", "text", text_of(x, prompt, arguments)));
}

/* -- completion -------------------------------------------------------------------------------------------------- */

/* Arguments by name: the operation that has their values, and the members of its answer. */
static const struct completion {
        const char *argument, *method, *list, *member;
} completions[] = {
        {"sandbox", "sandbox.list", "sandboxes", "sandbox"},
        {"process", "process.list", "processes", "process"},
        {"context", "context.list", "contexts", "context"},
        {"path", "file.list", "entries", "path"},
};

static const struct completion *find_completion(const char *argument)
{
        for (size_t i = 0; argument && i < sizeof(completions) / sizeof(completions[0]); i++)
                if (strcmp(completions[i].argument, argument) == 0)
                        return &completions[i];
        return NULL;
}

/* values: stolen. */
static void answer_values(struct mcp_exchange *x, json_t *values, size_t total)
{
        mcp_answer(x, json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", values, "total", (json_int_t)total,
                                "hasMore", total > VALUES_MAX));
}

/* Paths of resource templates have no slash at their beginning. */
static const char *value_of(const json_t *row, const struct completion *c, const char *typed)
{
        const char *value = mcp_text(row, c->member);

        return value && *value == '/' && *typed != '/' ? value + 1 : value;
}

static void on_values(struct mcp_exchange *x, const struct door_reply *reply)
{
        const json_t *argument = json_object_get(x->params, "argument");
        const struct completion *c = find_completion(mcp_text(argument, "name"));
        const char *typed = mcp_text(argument, "value");
        json_t *values = json_array(), *row;
        size_t i, total = 0;

        json_array_foreach (json_object_get(reply->result, c->list), i, row) {
                const char *value = value_of(row, c, typed);

                if (value && strncmp(value, typed, strlen(typed)) == 0 && ++total <= VALUES_MAX)
                        json_array_append_new(values, json_string(value));
        }
        answer_values(x, values, total);
}

/* A directory that does not exist has no names. */
static void on_no_values(struct mcp_exchange *x, const struct door_reply *reply)
{
        (void)reply;
        answer_values(x, json_array(), 0);
}

/* The directory of a path that is being typed. */
static json_t *directory_of(const char *typed)
{
        const char *slash = strrchr(typed, '/');

        if (!slash)
                return json_string("/");
        return json_sprintf("%s%.*s/", *typed == '/' ? "" : "/", (int)(slash - typed), typed);
}

static void complete_language(struct mcp_exchange *x, const char *typed)
{
        json_t *all = mcp_languages(x->door.daemon), *values = json_array(), *name;
        size_t i;

        json_array_foreach (all, i, name)
                if (strncmp(json_string_value(name), typed, strlen(typed)) == 0)
                        json_array_append(values, name);
        json_decref(all);
        answer_values(x, values, json_array_size(values));
}

static void complete(struct mcp_exchange *x, const struct completion *c, const char *typed)
{
        const char *given = mcp_text(json_object_get(json_object_get(x->params, "context"), "arguments"), "sandbox");
        json_t *params = json_object();

        if (strcmp(c->argument, "sandbox") != 0) {
                x->door.sandbox = strdup(given ? given : x->sandbox);
                if (!x->door.sandbox || !sandboxes_has(x->door.daemon->sandboxes, x->door.principal, x->door.sandbox)) {
                        json_decref(params);
                        answer_values(x, json_array(), 0);
                        return;
                }
        }
        if (strcmp(c->argument, "path") == 0)
                json_object_set_new(params, "path", directory_of(typed));
        x->fail = on_no_values;
        mcp_call(x, c->method, params, NULL, on_values);
}

void mcp_on_complete(struct mcp_exchange *x)
{
        const json_t *argument = json_object_get(x->params, "argument");
        const char *name = mcp_text(argument, "name"), *typed = mcp_text(argument, "value"),
                   *kind = mcp_text(json_object_get(x->params, "ref"), "type");
        const struct completion *c = find_completion(name);

        if (!kind || (strcmp(kind, "ref/prompt") != 0 && strcmp(kind, "ref/resource") != 0))
                mcp_refuse(x, MCP_BAD_PARAMS, "params.ref.type must be ref/prompt or ref/resource");
        else if (!name || !typed)
                mcp_refuse(x, MCP_BAD_PARAMS, "params.argument must have a name and a value, texts");
        else if (c)
                complete(x, c, typed);
        else if (strcmp(name, "language") == 0)
                complete_language(x, typed);
        else
                answer_values(x, json_array(), 0);
}
