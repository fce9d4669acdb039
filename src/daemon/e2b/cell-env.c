/* Variables of one cell: silent cells around it set them in the interpreter and put the earlier
 * ones back. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "cell-env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* In before, %s stands for the variables: an object in JSON, which Python and JavaScript read
 * too. */
static const struct {
        const char *language, *before, *after;
} of_objects[] = {
        {"python",
         "import os as _e2b_os\n_e2b_env = {k: _e2b_os.environ.get(k) for k in %s}\n_e2b_os.environ.update(%s)",
         "(lambda o, s: [o.environ.pop(k, None) if v is None else o.environ.__setitem__(k, v) for k, v in s.items()])"
         "(_e2b_os, _e2b_env)\ndel _e2b_env, _e2b_os"},
        {"javascript",
         "globalThis._e2b_env = Object.fromEntries(Object.keys(%s).map((k) => [k, process.env[k]])); "
         "Object.assign(process.env, %s); undefined",
         "for (const [k, v] of Object.entries(globalThis._e2b_env)) if (v === undefined) delete process.env[k]; else "
         "process.env[k] = v; delete globalThis._e2b_env; undefined"},
        {"typescript",
         "(globalThis as any)._e2b_env = Object.fromEntries(Object.keys(%s).map((k) => [k, process.env[k]])); "
         "Object.assign(process.env, %s); undefined",
         "for (const [k, v] of Object.entries((globalThis as any)._e2b_env as any)) if (v === undefined) delete "
         "process.env[k]; else process.env[k] = v as string; delete (globalThis as any)._e2b_env; undefined"},
};

static int is_identifier(const char *name)
{
        return *name && !strchr("0123456789", *name) &&
               name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static int are_variables(const json_t *env)
{
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)env, name, value)
                if (!is_identifier(name) || !json_is_string(value) ||
                    strlen(json_string_value(value)) != json_string_length(value))
                        return 0;
        return 1;
}

/* -- bash -------------------------------------------------------------------------------------------------------- */

static int add(struct buf *out, const char *text)
{
        return buf_append(out, text, strlen(text));
}

/* declare -p prints a command that gives a variable its value, attributes included. */
static int write_bash(const json_t *env, struct buf *before, struct buf *after)
{
        const char *name;
        json_t *value;
        int r = 0;

        json_object_foreach ((json_t *)env, name, value) {
                json_t *save = json_sprintf("_e2b_%s=$(declare -p %s 2>/dev/null || echo unset %s)\nexport %s=", name,
                                            name, name, name),
                       *restore = json_sprintf("unset %s\neval \"$_e2b_%s\"\nunset _e2b_%s\n", name, name, name);

                if (r == 0)
                        r = save && restore ? add(before, json_string_value(save)) : -ENOMEM;
                if (r == 0)
                        r = buf_quote(before, json_string_value(value));
                if (r == 0)
                        r = add(before, "\n");
                if (r == 0)
                        r = add(after, json_string_value(restore));
                json_decref(save);
                json_decref(restore);
        }
        return r;
}

/* -- languages with objects -------------------------------------------------------------------------------------- */

static int write_before(const char *pattern, const char *object, struct buf *out)
{
        int r = 0;

        for (const char *at = pattern; r == 0 && *at;) {
                const char *place = strstr(at, "%s");

                r = buf_append(out, at, place ? (size_t)(place - at) : strlen(at));
                if (r == 0 && place)
                        r = add(out, object);
                at = place ? place + 2 : at + strlen(at);
        }
        return r;
}

static int write_object(size_t row, const json_t *env, struct buf *before, struct buf *after)
{
        /* Not in ASCII: Python has no pairs of surrogates. */
        char *object = json_dumps(env, JSON_COMPACT);
        int r = object ? write_before(of_objects[row].before, object, before) : -ENOMEM;

        free(object);
        return r == 0 ? add(after, of_objects[row].after) : r;
}

/* -- both -------------------------------------------------------------------------------------------------------- */

int e2b_cell_env_write(const char *language, const json_t *env, struct buf *before, struct buf *after)
{
        int r = are_variables(env) ? -EOPNOTSUPP : -EINVAL;

        if (r == -EOPNOTSUPP && strcmp(language, "bash") == 0)
                r = write_bash(env, before, after);
        for (size_t i = 0; r == -EOPNOTSUPP && i < sizeof(of_objects) / sizeof(of_objects[0]); i++)
                if (strcmp(of_objects[i].language, language) == 0)
                        r = write_object(i, env, before, after);
        if (r == 0)
                r = buf_append(before, "", 1);
        return r == 0 ? buf_append(after, "", 1) : r;
}
