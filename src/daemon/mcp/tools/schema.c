/* The tools as tools/list shows them, and the checks of arguments, both from tools.def. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "daemon/mcp/internal.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define SCHEMA "https://json-schema.org/draft/2020-12/schema"
#define SANDBOX_PATTERN "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"

enum { READ_ONLY = 1, DESTRUCTIVE = 2, IDEMPOTENT = 4, OPEN_WORLD = 8 };
enum { OPTIONAL, REQUIRED };

struct mcp_tool {
        const char *name, *title, *description;
        int hints;
};

static const struct argument {
        enum mcp_tool_symbol tool;
        const char *name;
        enum mcp_argument_type type;
        int is_required;
        json_int_t least, most;
        const char *doc;
} arguments[] = {
#define MCP_TOOL(symbol, name, title, hints, description)
#define MCP_ARGUMENT(symbol, name, type, need, least, most, doc) \
        {MCP_##symbol, name, ARGUMENT_##type, need, least, most, doc},
#define MCP_MEMBER(symbol, name, schema, need, doc)
#include "tools.def"
#undef MCP_ARGUMENT
#undef MCP_MEMBER
};

static const struct member {
        enum mcp_tool_symbol tool;
        const char *name, *schema;
        int is_required;
        const char *doc;
} members[] = {
#define MCP_ARGUMENT(symbol, name, type, need, least, most, doc)
#define MCP_MEMBER(symbol, name, schema, need, doc) {MCP_##symbol, name, schema, need, doc},
#include "tools.def"
#undef MCP_TOOL
#undef MCP_MEMBER
};

static const struct mcp_tool tools[] = {
#define MCP_TOOL(symbol, name, title, hints, description) [MCP_##symbol] = {name, title, description, hints},
#define MCP_MEMBER(symbol, name, schema, need, doc)
#include "tools.def"
#undef MCP_TOOL
#undef MCP_ARGUMENT
#undef MCP_MEMBER
};

static void (*const handlers[MCP_TOOL_COUNT])(struct mcp_exchange *x) = {
        [MCP_RUN_CODE] = mcp_run_code,
        [MCP_CALL_FUNCTION] = mcp_call_function,
        [MCP_RUN_COMMAND] = mcp_run_command,
        [MCP_READ_OUTPUT] = mcp_read_output,
        [MCP_SEND_INPUT] = mcp_send_input,
        [MCP_STOP_PROCESS] = mcp_stop_process,
        [MCP_LIST_PROCESSES] = mcp_list_processes,
        [MCP_READ_FILE] = mcp_read_file,
        [MCP_WRITE_FILE] = mcp_write_file,
        [MCP_EDIT_FILE] = mcp_edit_file,
        [MCP_LIST_DIRECTORY] = mcp_list_directory,
        [MCP_SEARCH_FILES] = mcp_search_files,
        [MCP_CREATE_SANDBOX] = mcp_create_sandbox,
        [MCP_LIST_SANDBOXES] = mcp_list_sandboxes,
        [MCP_DELETE_SANDBOX] = mcp_delete_sandbox,
        [MCP_FORK_SANDBOX] = mcp_fork_sandbox,
        [MCP_CHECKPOINT] = mcp_checkpoint,
        [MCP_ROLLBACK] = mcp_rollback,
        [MCP_EXPOSE_PORT] = mcp_expose_port,
        [MCP_SET_NETWORK] = mcp_set_network,
        [MCP_EXPLAIN_DENIAL] = mcp_explain_denial,
};

/* -- languages --------------------------------------------------------------------------------------------------- */

/* Languages whose interpreters can stay. */
static const char *const languages[] = {"python", "javascript", "typescript", "bash", "ruby", "php"};
#define LANGUAGE_COUNT (sizeof(languages) / sizeof(languages[0]))

static int has_language(const struct daemon *d, const char *name)
{
        int is_kept = 0;

        for (size_t i = 0; i < LANGUAGE_COUNT; i++)
                is_kept |= strcmp(languages[i], name) == 0;
        return is_kept && languages_find(&d->languages, name) != NULL;
}

json_t *mcp_languages(const struct daemon *d)
{
        json_t *names = json_array();

        for (size_t i = 0; i < LANGUAGE_COUNT; i++)
                if (has_language(d, languages[i]))
                        json_array_append_new(names, json_string(languages[i]));
        return names;
}

/* -- kinds of arguments ------------------------------------------------------------------------------------------ */

#define TEXTS "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":1},\"maxItems\":1000}"

static json_t *all_languages(const struct daemon *d)
{
        json_t *names = json_array(), *language;
        size_t i;

        json_array_foreach (d->languages.list, i, language)
                json_array_append(names, json_object_get(language, "name"));
        return names;
}

static int is_text_by_name(const json_t *value)
{
        const char *key;
        json_t *member;

        json_object_foreach ((json_t *)value, key, member)
                if (!json_is_string(member) || strlen(json_string_value(member)) != json_string_length(member))
                        return 0;
        return json_is_object(value);
}

static int is_edit(const json_t *value)
{
        const json_t *old = json_object_get(value, "old"), *new = json_object_get(value, "new"),
                     *all = json_object_get(value, "all");

        return json_string_length(old) > 0 && json_is_string(new) && (!all || json_is_boolean(all)) &&
               json_object_size(value) == 2u + (all != NULL);
}

static int are_edits(const json_t *value)
{
        for (size_t i = 0; i < json_array_size(value); i++)
                if (!is_edit(json_array_get(value, i)))
                        return 0;
        return json_array_size(value) > 0 && json_array_size(value) <= 100;
}

static int are_texts(const json_t *value)
{
        for (size_t i = 0; i < json_array_size(value); i++) {
                const json_t *item = json_array_get(value, i);

                if (json_string_length(item) == 0 || strlen(json_string_value(item)) != json_string_length(item))
                        return 0;
        }
        return json_is_array(value) && json_array_size(value) <= 1000;
}

static int is_network(const json_t *value)
{
        const json_t *allow = json_object_get(value, "allow"), *deny = json_object_get(value, "deny");

        return are_texts(allow) && (!deny || are_texts(deny)) && json_object_size(value) == 1u + (deny != NULL);
}

static int is_stream(const char *name)
{
        return name && (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0);
}

static int is_between(json_int_t value, const struct argument *a)
{
        return value >= a->least && value <= a->most;
}

static int is_language(const struct daemon *d, const json_t *value)
{
        return json_is_string(value) && has_language(d, json_string_value(value));
}

static int is_any_language(const struct daemon *d, const json_t *value)
{
        return json_is_string(value) && languages_find(&d->languages, json_string_value(value));
}

static int is_stream_name(const json_t *value)
{
        return is_stream(json_string_value(value));
}

static int is_boolean(const json_t *value)
{
        return json_is_boolean(value);
}

static int is_array(const json_t *value)
{
        return json_is_array(value);
}

static int is_object(const json_t *value)
{
        return json_is_object(value);
}

/* A schema with the names of languages, or one that is the same everywhere; texts and counts have
 * bounds of their own. */
static const struct kind {
        const char *schema, *expected;
        int (*is)(const json_t *value);
        json_t *(*names)(const struct daemon *d);
        int (*is_name)(const struct daemon *d, const json_t *value);
} kinds[] = {
        [ARGUMENT_TEXT] = {"{\"type\":\"string\"}", NULL, NULL, NULL, NULL},
        [ARGUMENT_COUNT] = {"{\"type\":\"integer\"}", NULL, NULL, NULL, NULL},
        [ARGUMENT_BOOLEAN] = {"{\"type\":\"boolean\"}", "true or false", is_boolean, NULL, NULL},
        [ARGUMENT_TEXT_BY_NAME] = {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}",
                                   "an object of texts without NUL", is_text_by_name, NULL, NULL},
        [ARGUMENT_LANGUAGE] = {"{\"type\":\"string\"}", "one of the languages that tools/list names for it", NULL,
                               mcp_languages, is_language},
        [ARGUMENT_STREAM] = {"{\"type\":\"string\",\"enum\":[\"stdout\",\"stderr\"]}", "stdout or stderr",
                             is_stream_name, NULL, NULL},
        [ARGUMENT_EDITS] = {"{\"type\":\"array\",\"minItems\":1,\"maxItems\":100,\"items\":{\"type\":\"object\","
                            "\"properties\":{\"old\":{\"type\":\"string\",\"minLength\":1},\"new\":{\"type\":"
                            "\"string\"},\"all\":{\"type\":\"boolean\"}},\"required\":[\"old\",\"new\"],"
                            "\"additionalProperties\":false}}",
                            "1 to 100 objects of old, new and all: a text that is not empty, a text, true or false",
                            are_edits, NULL, NULL},
        [ARGUMENT_TEXTS] = {TEXTS, "an array of at most 1000 texts", are_texts, NULL, NULL},
        [ARGUMENT_NETWORK] = {"{\"type\":\"object\",\"properties\":{\"allow\":" TEXTS ",\"deny\":" TEXTS
                              "},\"required\":[\"allow\"],\"additionalProperties\":false}",
                              "an object of allow and deny, arrays of at most 1000 texts", is_network, NULL, NULL},
        [ARGUMENT_ARRAY] = {"{\"type\":\"array\"}", "an array", is_array, NULL, NULL},
        [ARGUMENT_OBJECT] = {"{\"type\":\"object\"}", "an object", is_object, NULL, NULL},
        [ARGUMENT_ANY_LANGUAGE] = {"{\"type\":\"string\"}", "one of the languages that tools/list names for it", NULL,
                                   all_languages, is_any_language},
};

/* -- schemas of tools -------------------------------------------------------------------------------------------- */

static json_t *schema_of(const struct daemon *d, const struct argument *a)
{
        const struct kind *kind = &kinds[a->type];
        json_t *schema = json_loads(kind->schema, 0, NULL);

        if (kind->names)
                json_object_set_new(schema, "enum", kind->names(d));
        if (a->type == ARGUMENT_TEXT && a->least)
                json_object_set_new(schema, "minLength", json_integer(1));
        if (a->type == ARGUMENT_COUNT) {
                json_object_set_new(schema, "minimum", json_integer(a->least));
                json_object_set_new(schema, "maximum", json_integer(a->most));
        }
        return schema;
}

static json_t *sandbox_schema(void)
{
        return json_pack("{s:s, s:i, s:s, s:s, s:s}", "type", "string", "maxLength", 63, "pattern", SANDBOX_PATTERN,
                         "description",
                         "The sandbox: 1 to 63 of a-z 0-9 -, made on first use. Default: the one that all calls share.",
                         "x-mcp-header", "Sandbox");
}

static json_t *object_schema(json_t *properties, json_t *required)
{
        json_t *schema = json_pack("{s:s, s:s, s:o, s:b}", "$schema", SCHEMA, "type", "object", "properties",
                                   properties, "additionalProperties", 0);

        if (json_array_size(required) > 0)
                json_object_set(schema, "required", required);
        json_decref(required);
        return schema;
}

static json_t *input_schema(const struct daemon *d, enum mcp_tool_symbol tool)
{
        json_t *properties = json_object(), *required = json_array();

        for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
                const struct argument *a = &arguments[i];
                json_t *schema = a->tool == tool ? schema_of(d, a) : NULL;

                if (!schema)
                        continue;
                json_object_set_new(schema, "description", json_string(a->doc));
                json_object_set_new(properties, a->name, schema);
                if (a->is_required)
                        json_array_append_new(required, json_string(a->name));
        }
        json_object_set_new(properties, "sandbox", sandbox_schema());
        return object_schema(properties, required);
}

static json_t *output_schema(enum mcp_tool_symbol tool)
{
        json_t *properties = json_object(), *required = json_array();

        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
                json_t *schema = members[i].tool == tool ? json_loads(members[i].schema, 0, NULL) : NULL;

                if (!schema)
                        continue;
                json_object_set_new(schema, "description", json_string(members[i].doc));
                json_object_set_new(properties, members[i].name, schema);
                if (members[i].is_required)
                        json_array_append_new(required, json_string(members[i].name));
        }
        return object_schema(properties, required);
}

static json_t *tool_of(const struct daemon *d, enum mcp_tool_symbol symbol)
{
        const struct mcp_tool *tool = &tools[symbol];

        return json_pack("{s:s, s:s, s:s, s:o, s:o*, s:{s:b, s:b, s:b, s:b}}", "name", tool->name, "title", tool->title,
                         "description", tool->description, "inputSchema", input_schema(d, symbol), "outputSchema",
                         output_schema(symbol), "annotations", "readOnlyHint", (tool->hints & READ_ONLY) != 0,
                         "destructiveHint", (tool->hints & DESTRUCTIVE) != 0, "idempotentHint",
                         (tool->hints & IDEMPOTENT) != 0, "openWorldHint", (tool->hints & OPEN_WORLD) != 0);
}

json_t *mcp_tools_of(const struct daemon *d)
{
        json_t *list = json_array();

        for (int i = 0; i < MCP_TOOL_COUNT; i++)
                if (json_array_append_new(list, tool_of(d, (enum mcp_tool_symbol)i)) < 0) {
                        json_decref(list);
                        return NULL;
                }
        return list;
}

/* -- tools of a client ------------------------------------------------------------------------------------------- */

int mcp_tool_is_served(const struct mcp_exchange *x, size_t index)
{
        if (x->is_read_only && !(tools[index].hints & READ_ONLY))
                return 0;
        for (size_t i = 0; i < json_array_size(x->tools); i++)
                if (strcmp(json_string_value(json_array_get(x->tools, i)), tools[index].name) == 0)
                        return 1;
        return x->tools == NULL;
}

const struct mcp_tool *mcp_tool_find(const struct mcp_exchange *x, const char *name)
{
        for (size_t i = 0; i < MCP_TOOL_COUNT; i++)
                if (strcmp(tools[i].name, name) == 0)
                        return mcp_tool_is_served(x, i) ? &tools[i] : NULL;
        return NULL;
}

int mcp_tools_check(const json_t *names, struct cloche_err *e)
{
        static const struct mcp_exchange all;

        for (size_t i = 0; i < json_array_size(names); i++)
                if (!mcp_tool_find(&all, json_string_value(json_array_get(names, i))))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "--tools: there is no tool '%.60s' (docs/mcp.md has the names)",
                                       json_string_value(json_array_get(names, i)));
        return names && json_array_size(names) == 0
                       ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "--tools: expected at least one tool")
                       : 0;
}

/* -- arguments --------------------------------------------------------------------------------------------------- */

static int is_name(const char *name, size_t size)
{
        return size > 0 && size <= 63 && name[0] != '-' && name[size - 1] != '-' &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == size;
}

static int check_text(const struct argument *a, const json_t *value, struct cloche_err *e)
{
        if (!json_is_string(value))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%s' must be a text", a->name);
        if (!is_between((json_int_t)json_string_length(value), a))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%s' must have %lld to %lld bytes, it has %zu", a->name,
                               a->least, a->most, json_string_length(value));
        if (strlen(json_string_value(value)) != json_string_length(value))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%s' must have no NUL character", a->name);
        return 0;
}

static int check_count(const struct argument *a, const json_t *value, struct cloche_err *e)
{
        return json_is_integer(value) && is_between(json_integer_value(value), a)
                       ? 0
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%s' must be an integer from %lld to %lld", a->name,
                                 a->least, a->most);
}

static int check_value(const struct daemon *d, const struct argument *a, const json_t *value, struct cloche_err *e)
{
        const struct kind *kind = &kinds[a->type];

        if (a->type == ARGUMENT_TEXT)
                return check_text(a, value, e);
        if (a->type == ARGUMENT_COUNT)
                return check_count(a, value, e);
        return (kind->is ? kind->is(value) : kind->is_name(d, value))
                       ? 0
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%s' must be %s", a->name, kind->expected);
}

static const struct argument *find_argument(const struct mcp_exchange *x, const char *name)
{
        for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
                if (x->tool == &tools[arguments[i].tool] && strcmp(arguments[i].name, name) == 0)
                        return &arguments[i];
        return NULL;
}

static int check_given(const struct mcp_exchange *x, const char *key, const json_t *value, struct cloche_err *e)
{
        const struct argument *a = find_argument(x, key);

        if (strcmp(key, "sandbox") == 0)
                return json_is_string(value) && is_name(json_string_value(value), json_string_length(value))
                               ? 0
                               : err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                         "'sandbox' must be 1 to 63 of a-z 0-9 -, without a hyphen at either end");
        if (!a)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no argument '%.60s'", key);
        return check_value(x->door.daemon, a, value, e);
}

int mcp_arguments_check(const struct mcp_exchange *x, struct cloche_err *e)
{
        const char *key;
        json_t *value;
        int r = 0;

        if (x->arguments && !json_is_object(x->arguments))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "arguments must be an object");
        json_object_foreach (x->arguments, key, value) {
                r = check_given(x, key, value, e);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
                if (x->tool == &tools[arguments[i].tool] && arguments[i].is_required &&
                    !json_object_get(x->arguments, arguments[i].name))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%s' is missing", arguments[i].name);
        return 0;
}

void mcp_tool_run(struct mcp_exchange *x)
{
        const char *sandbox = mcp_text(x->arguments, "sandbox");

        x->door.sandbox = strdup(sandbox ? sandbox : x->sandbox);
        if (!x->door.sandbox)
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
        else
                handlers[x->tool - tools](x);
}

const char *mcp_text(const json_t *object, const char *name)
{
        const json_t *value = json_object_get(object, name);
        const char *text = json_string_value(value);

        return text && strlen(text) == json_string_length(value) ? text : NULL;
}

json_int_t mcp_count(const struct mcp_exchange *x, const char *name, json_int_t absent)
{
        const json_t *value = json_object_get(x->arguments, name);

        return value ? json_integer_value(value) : absent;
}
