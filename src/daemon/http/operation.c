/* Runs in: cloched, on its loop. */
#include "operation.h"

#include "base/err.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operations of daemon.def, whose symbols come first: one bit each. */
enum {
#define DAEMON_OPERATION(symbol, method, verb, path, success, ...) IN_##symbol = UINT64_C(1) << OPERATION_##symbol,
#define DAEMON_FIELD(name, type, required, optional, doc)
#include <cloche/daemon.def>
#undef DAEMON_OPERATION
#undef DAEMON_FIELD
        IN_RUN = IN_CALL | IN_SCRIPT | IN_EVALUATE,
        IN_PIECES = IN_RAW_GET | IN_RAW_PUT | IN_TREE_GET | IN_TREE_PUT,
        IN_PATH_OF_SANDBOX = IN_PIECES | IN_TERMINAL | IN_EXEC_SOCKET | IN_FOLLOW_SOCKET,
        IN_IMAGE = IN_IMAGE_GET | IN_IMAGE_DELETE | IN_IMAGE_VERIFY | IN_IMAGE_WARM,
        IN_IMAGE_PIECE = IN_IMAGE_UPLOAD | IN_IMAGE_IMPORT,
};

static const struct operation operations[OPERATION_COUNT] = {
#define DAEMON_OPERATION(symbol, method, verb, path, success, ...) \
        {OPERATION_##symbol, method, verb, path, success, 0, 0, 0},
#define DAEMON_FIELD(name, type, required, optional, doc)
#include <cloche/daemon.def>
#undef DAEMON_OPERATION
#undef DAEMON_FIELD
#define PLAIN 0
#define STREAM 1
#define NO_SANDBOX 0
#define NOTHING 1
#define EXISTING 1
#define RUNNING 1
#define ANY_STATE 1
#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, needs, ...) \
        {OPERATION_SANDBOX_##symbol, method, verb, "/v1" path, success, 1, kind, needs},
#define SANDBOX_FIELD(symbol, name, type, need, doc)
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD
};

static const struct daemon_field {
        const char *name;
        enum field_type type;
        uint64_t required, optional;
} daemon_fields[] = {
#define DAEMON_OPERATION(symbol, method, verb, path, success, ...)
#define DAEMON_FIELD(name, type, required, optional, doc) {name, FIELD_##type, required, optional},
#include <cloche/daemon.def>
#undef DAEMON_OPERATION
#undef DAEMON_FIELD
};
#define DAEMON_FIELDS (sizeof(daemon_fields) / sizeof(daemon_fields[0]))

#define REQUIRED 1
#define OPTIONAL 0
static const struct sandbox_field {
        enum operation_symbol symbol;
        struct operation_field field;
} sandbox_fields[] = {
#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, ...)
#define SANDBOX_FIELD(symbol, name, type, need, doc) {OPERATION_SANDBOX_##symbol, {name, FIELD_##type, need}},
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD
};
#define SANDBOX_FIELDS (sizeof(sandbox_fields) / sizeof(sandbox_fields[0]))

const struct operation *operation_at(enum operation_symbol symbol)
{
        return &operations[symbol];
}

const struct operation *operation_by_method(const char *method)
{
        for (size_t i = 0; *method && i < OPERATION_COUNT; i++)
                if (strcmp(operations[i].method, method) == 0)
                        return &operations[i];
        return NULL;
}

int operation_has_json(const struct operation *operation)
{
        return strcmp(operation->verb, "POST") == 0 || strcmp(operation->verb, "PATCH") == 0;
}

/* -- fields --------------------------------------------------------------------------------------------------- */

static int next_of_daemon(const struct operation *operation, size_t *at, struct operation_field *ret)
{
        for (; *at < DAEMON_FIELDS; ++*at) {
                const struct daemon_field *f = &daemon_fields[*at];

                if (((f->required | f->optional) >> operation->symbol & 1) == 0)
                        continue;
                *ret = (struct operation_field){f->name, f->type, (int)(f->required >> operation->symbol & 1)};
                ++*at;
                return 1;
        }
        return 0;
}

/* Frames carry bytes beside the JSON. A count in milliseconds (its name ends in the unit) has a
 * smaller maximum than a file size; that of a lifetime is in sandbox/life/deadline.c. */
static enum field_type type_in_sandbox(const struct operation_field *field)
{
        size_t size = strlen(field->name);

        if (field->type == FIELD_TEXT_OR_BYTES)
                return FIELD_TEXT_OR_ATTACHED;
        return field->type == FIELD_COUNT && size > 2 && strcmp(field->name + size - 2, "Ms") == 0 &&
                               strcmp(field->name, "lifetimeMs") != 0
                       ? FIELD_DURATION
                       : field->type;
}

/* *at 0 is the name of the sandbox, for the operations that have one. */
static int next_of_sandbox(const struct operation *operation, size_t *at, struct operation_field *ret)
{
        if (*at == 0 && operation->names_sandbox) {
                *ret = (struct operation_field){"sandbox", FIELD_TEXT, operation->symbol != OPERATION_SANDBOX_CREATE};
                *at = 1;
                return 1;
        }
        for (*at += *at == 0; *at <= SANDBOX_FIELDS; ++*at)
                if (sandbox_fields[*at - 1].symbol == operation->symbol) {
                        *ret = sandbox_fields[*at - 1].field;
                        ret->type = type_in_sandbox(ret);
                        ++*at;
                        return 1;
                }
        return 0;
}

/* Iterate over the fields: *at begins as 0. 0: no more. */
static int next_field(const struct operation *operation, size_t *at, struct operation_field *ret)
{
        return operation->is_sandbox ? next_of_sandbox(operation, at, ret) : next_of_daemon(operation, at, ret);
}

/* -- paths ---------------------------------------------------------------------------------------------------- */

/* Each name in braces matches one part of the path. */
static int matches(const char *pattern, const char *path, json_t **ret_params)
{
        json_t *params = NULL;

        while (*pattern) {
                size_t fixed = strcspn(pattern, "{"), size;
                char name[40];

                if (strncmp(pattern, path, fixed) != 0)
                        break;
                pattern += fixed;
                path += fixed;
                if (!*pattern)
                        break;
                size = strcspn(path, "/");
                snprintf(name, sizeof(name), "%.*s", (int)strcspn(pattern + 1, "}"), pattern + 1);
                if (!params)
                        params = json_object();
                if (size == 0 || json_object_set_new(params, name, json_stringn(path, size)) < 0)
                        break; /* not UTF-8, so there is no match */
                pattern += strcspn(pattern, "}") + 1;
                path += size;
        }
        if (!*pattern && !*path) {
                *ret_params = params;
                return 1;
        }
        json_decref(params);
        return 0;
}

const struct operation *operation_by_path(const char *verb, const char *path, json_t **ret_params, char *ret_allowed,
                                          size_t size)
{
        size_t used = 0;

        ret_allowed[0] = '\0';
        *ret_params = NULL;
        for (size_t i = 0; i < OPERATION_COUNT; i++) {
                if (!*operations[i].path || !matches(operations[i].path, path, ret_params))
                        continue;
                if (strcmp(operations[i].verb, verb) == 0)
                        return &operations[i];
                json_decref(*ret_params);
                *ret_params = NULL;
                if (used < size)
                        used += (size_t)snprintf(ret_allowed + used, size - used, "%s%s", used ? ", " : "",
                                                 operations[i].verb);
        }
        return NULL;
}

/* -- parameters ----------------------------------------------------------------------------------------------- */

static int find_field(const struct operation *operation, const char *name, struct operation_field *ret)
{
        size_t at = 0;

        while (next_field(operation, &at, ret))
                if (strcmp(ret->name, name) == 0)
                        return 1;
        return 0;
}

static const char *name_of(const struct operation *operation)
{
        return *operation->method ? operation->method : operation->path;
}

static int no_such_field(const struct operation *operation, const char *name, struct cloche_err *e)
{
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s has no field \"%.60s\"", name_of(operation), name);
}

int operation_check(const struct operation *operation, const json_t *params, struct cloche_err *e)
{
        struct operation_field field;
        const char *key;
        json_t *value;

        json_object_foreach ((json_t *)params, key, value) {
                int r = find_field(operation, key, &field) ? field_check(field.type, key, value, e)
                                                           : no_such_field(operation, key, e);

                if (r < 0)
                        return r;
        }
        for (size_t at = 0; next_field(operation, &at, &field);)
                if (field.is_required && !json_object_get(params, field.name))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s needs the field \"%s\"", name_of(operation),
                                       field.name);
        return 0;
}

/* NULL: the value stays text, and the check reports it. */
static json_t *from_text(enum field_type type, const char *text)
{
        size_t size = strlen(text);

        if (type == FIELD_BOOLEAN && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
                return json_boolean(*text == 't');
        if ((type == FIELD_COUNT || type == FIELD_DURATION) && size > 0 && size < 17 &&
            strspn(text, "0123456789") == size)
                return json_integer(strtoll(text, NULL, 10));
        return NULL;
}

int operation_read_query(const struct operation *operation, json_t *params, struct cloche_err *e)
{
        struct operation_field field;
        const char *key;
        json_t *value, *made;
        void *next;

        json_object_foreach_safe (params, next, key, value) {
                if (!find_field(operation, key, &field))
                        return no_such_field(operation, key, e);
                if (field.type == FIELD_TEXTS && json_is_string(value))
                        json_object_set_new(params, key, json_pack("[O]", value));
                if (field.type == FIELD_TEXTS)
                        continue;
                if (json_is_array(value))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "query: the parameter %.60s is given twice", key);
                made = from_text(field.type, json_string_value(value));
                if (made)
                        json_object_set_new(params, key, made);
        }
        return 0;
}
