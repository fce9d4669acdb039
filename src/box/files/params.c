/* Runs in: cloche-files, within a box, with its user's rights. */
#include "params.h"

#include "base/err.h"
#include "wire/value.h"

#include <string.h>

#define COUNT_MAX INT64_C(9007199254740991)

enum operation {
#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, ...) OPERATION_##symbol,
#define SANDBOX_FIELD(symbol, name, type, need, doc)
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD
        OPERATION_COUNT
};

static const char *const methods[OPERATION_COUNT] = {
#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, ...) [OPERATION_##symbol] = method,
#define SANDBOX_FIELD(symbol, name, type, need, doc)
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD
};

/* These are the types of file.* and archive.*; other operations' rows do not apply here. */
static int is_text(const json_t *value)
{
        return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

static int is_texts(const json_t *value)
{
        const json_t *item;
        size_t i;

        if (!json_is_array(value))
                return 0;
        json_array_foreach ((json_t *)value, i, item)
                if (!is_text(item))
                        return 0;
        return 1;
}

/* value_check() has checked "at" and "n". */
static int is_text_or_bytes(const json_t *value)
{
        const json_t *tag = json_object_get(value, "$");

        return json_is_string(value) || (json_is_string(tag) && strcmp(json_string_value(tag), "bytes") == 0);
}

static int is_boolean(const json_t *value)
{
        return json_is_boolean(value);
}

static int is_count(const json_t *value)
{
        return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= COUNT_MAX;
}

static const struct {
        const char *name, *expected;
        int (*holds)(const json_t *value);
} types[] = {
        {"TEXT", "a string without NUL", is_text},
        {"TEXT_OR_BYTES", "a string or bytes", is_text_or_bytes},
        {"TEXTS", "an array of strings without NUL", is_texts},
        {"BOOLEAN", "true or false", is_boolean},
        {"COUNT", "an integer from 0 to 2^53-1", is_count},
};

static const struct {
        enum operation operation;
        const char *name, *type;
        int is_required;
} fields[] = {
#define REQUIRED 1
#define OPTIONAL 0
#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, ...)
#define SANDBOX_FIELD(symbol, name, type, need, doc) {OPERATION_##symbol, name, #type, need},
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD
};

#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

static int check_field(size_t field, const char *method, const json_t *value, struct cloche_err *e)
{
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
                if (strcmp(types[i].name, fields[field].type) != 0)
                        continue;
                if (types[i].holds(value))
                        return 0;
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"%s\" of %s must be %s", fields[field].name, method,
                               types[i].expected);
        }
        return err_set(e, CLOCHE_E_INTERNAL, "\"%s\" of %s has a type that files do not know", fields[field].name,
                       method);
}

static int is_field(enum operation operation, const char *name)
{
        for (size_t i = 0; i < FIELD_COUNT; i++)
                if (fields[i].operation == operation && strcmp(fields[i].name, name) == 0)
                        return 1;
        return 0;
}

static int check_names(enum operation operation, const json_t *params, struct cloche_err *e)
{
        const json_t *value;
        const char *name;

        json_object_foreach ((json_t *)params, name, value)
                if (!is_field(operation, name))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s has no \"%.60s\"", methods[operation], name);
        return 0;
}

int params_check(const char *method, const json_t *params, size_t attachments_size, struct cloche_err *e)
{
        enum operation operation = 0;
        int r;

        while (operation < OPERATION_COUNT && strcmp(methods[operation], method) != 0)
                operation++;
        if (operation == OPERATION_COUNT)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no method %.60s", method);
        if (!json_is_object(params))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the parameters of %s must be an object", method);
        r = value_check(params, attachments_size, e);
        if (r == 0)
                r = check_names(operation, params, e);
        for (size_t i = 0; r == 0 && i < FIELD_COUNT; i++) {
                const json_t *value = fields[i].operation == operation ? json_object_get(params, fields[i].name) : NULL;

                if (value)
                        r = check_field(i, method, value, e);
                else if (fields[i].operation == operation && fields[i].is_required)
                        r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s needs \"%s\"", method, fields[i].name);
        }
        return r;
}
