#include "operation.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

enum {
#define DAEMON_OPERATION(symbol, method, verb, path, success, doc) IN_##symbol = 1u << OPERATION_##symbol,
#define DAEMON_FIELD(name, type, required, optional, doc)
#include <cloche/daemon.def>
#undef DAEMON_OPERATION
#undef DAEMON_FIELD
        IN_RUN = IN_CALL | IN_SCRIPT | IN_EVALUATE,
};

static const struct operation operations[OPERATION_COUNT] = {
#define DAEMON_OPERATION(symbol, method, verb, path, success, doc) {OPERATION_##symbol, method, verb, path, success, doc},
#define DAEMON_FIELD(name, type, required, optional, doc)
#include <cloche/daemon.def>
#undef DAEMON_OPERATION
#undef DAEMON_FIELD
};

static const struct operation_field fields[] = {
#define DAEMON_OPERATION(symbol, method, verb, path, success, doc)
#define DAEMON_FIELD(name, type, required, optional, doc) {name, FIELD_##type, required, optional, doc},
#include <cloche/daemon.def>
#undef DAEMON_OPERATION
#undef DAEMON_FIELD
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

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

const struct operation_field *operation_fields(size_t *ret_count)
{
        *ret_count = FIELDS;
        return fields;
}

/* -- paths ---------------------------------------------------------------------------------------------------- */

/* A pattern's last part may be a name in braces, which takes one part of the path. */
static int matches(const char *pattern, const char *path, json_t **ret_params)
{
        const char *brace = strchr(pattern, '{');
        size_t fixed = brace ? (size_t)(brace - pattern) : strlen(pattern);
        char name[40];

        if (strncmp(pattern, path, fixed) != 0)
                return 0;
        if (!brace)
                return path[fixed] == '\0';
        if (!path[fixed] || strchr(path + fixed, '/'))
                return 0;
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(brace + 1, "}"), brace + 1);
        *ret_params = json_pack("{s:s}", name, path + fixed);
        return *ret_params != NULL; /* NULL: no UTF-8, so no such thing */
}

const struct operation *operation_by_path(const char *verb, const char *path, json_t **ret_params, char *ret_allowed, size_t size)
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
                        used += (size_t)snprintf(ret_allowed + used, size - used, "%s%s", used ? ", " : "", operations[i].verb);
        }
        return NULL;
}

/* -- parameters ----------------------------------------------------------------------------------------------- */

static const struct operation_field *find_field(const struct operation *operation, const char *name)
{
        for (size_t i = 0; i < FIELDS; i++)
                if (((fields[i].required | fields[i].optional) >> operation->symbol & 1) && strcmp(fields[i].name, name) == 0)
                        return &fields[i];
        return NULL;
}

static const char *name_of(const struct operation *operation)
{
        return *operation->method ? operation->method : operation->path;
}

int operation_check(const struct operation *operation, const json_t *params, struct cloche_err *e)
{
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)params, key, value) {
                const struct operation_field *field = find_field(operation, key);
                int r = field ? field_check(field->type, key, value, e)
                              : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s has no field \"%.60s\"", name_of(operation), key);

                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < FIELDS; i++)
                if ((fields[i].required >> operation->symbol & 1) && !json_object_get(params, fields[i].name))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s needs the field \"%s\"", name_of(operation), fields[i].name);
        return 0;
}
