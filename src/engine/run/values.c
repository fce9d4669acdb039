/* The values of a run's options, read once. Runs in: the engine; pure. */
#include "values.h"

#include "base/err.h"
#include "wire/json.h"
#include "wire/value.h"

#include <cloche/cloche.h>
#include <stddef.h>
#include <string.h>

static const struct {
        const char *name;
        size_t text, value; /* offsets in the options and in struct values */
        int is_list_too;
} rows[] = {
#define ROW(name, is_list_too)                                                                               \
        {                                                                                                    \
#name, offsetof(struct cloche_run_options, name), offsetof(struct values, name), is_list_too \
        }
        ROW(args, 1), ROW(kwargs, 0), ROW(schema, 0), ROW(build, 0), ROW(globals, 0), ROW(imports, 0),
#undef ROW
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static json_t **value_of(const struct values *values, size_t i)
{
        return (json_t **)((char *)values + rows[i].value);
}

static int read_text(const char *text, json_t **ret, struct cloche_err *e)
{
        json_t *value = NULL;
        int r = json_load_human(text, strlen(text), &value, e) < 0 ? err_wrap(e, "invalid JSON") : 0;

        if (r == 0)
                r = value_read(value, VALUE_TEXT, NULL, 0, ret, e);
        json_decref(value);
        return r;
}

int values_read(const struct cloche_run_options *opt, struct values *ret, struct cloche_err *e)
{
        *ret = (struct values){0};
        for (size_t i = 0; i < ROWS; i++) {
                const char *text = *(const char *const *)((const char *)opt + rows[i].text);

                if (text && read_text(text, value_of(ret, i), e) < 0)
                        return err_wrap(e, "%s", rows[i].name);
        }
        return 0;
}

int values_check(const struct values *values, struct cloche_err *e)
{
        for (size_t i = 0; i < ROWS; i++) {
                const json_t *value = *value_of(values, i);

                if (value && !json_is_object(value) && !(rows[i].is_list_too && json_is_array(value)))
                        return err_set(e, CLOCHE_E_INVALID_JSON, "%s: expected a JSON %s", rows[i].name,
                                       rows[i].is_list_too ? "array or object" : "object");
        }
        return 0;
}

void values_done(struct values *values)
{
        for (size_t i = 0; i < ROWS; i++) {
                json_decref(*value_of(values, i));
                *value_of(values, i) = NULL;
        }
}
