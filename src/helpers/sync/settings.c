/* Parse the configuration of a sync.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "settings.h"

#include "base/err.h"

#include <string.h>

int settings_check_members(const json_t *params, const char *const *names, struct cloche_err *e)
{
        const char *name;
        json_t *value;

        if (params && !json_is_object(params))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the settings of a sync must be an object");
        json_object_foreach ((json_t *)params, name, value) {
                size_t i = 0;

                while (names[i] && strcmp(names[i], name) != 0)
                        i++;
                if (!names[i])
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "unknown member '%.40s'", name);
        }
        return 0;
}

static int read_choice(const json_t *params, const char *key, const char *const names[3], int *ret,
                       struct cloche_err *e)
{
        const json_t *value = json_object_get(params, key);

        if (!value || json_is_null(value))
                return 0;
        for (int i = 0; json_is_string(value) && i < 3; i++)
                if (strcmp(names[i], json_string_value(value)) == 0) {
                        *ret = i;
                        return 0;
                }
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s: expected %s, %s or %s", key, names[0], names[1], names[2]);
}

static int read_optional(const json_t *optional, struct sync_settings *s, struct cloche_err *e)
{
        size_t i;
        json_t *name;

        if (optional && !json_is_array(optional))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "optional: expected an array");
        json_array_foreach ((json_t *)optional, i, name) {
                if (!json_is_string(name) || strcmp(json_string_value(name), "landlock") != 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "optional: the one guard here is landlock");
                s->landlock_optional = true;
        }
        return 0;
}

static int read_links(const json_t *links, struct sync_settings *s, struct cloche_err *e)
{
        const char *text = json_string_value(links);

        s->links_inside = text && strcmp(text, "inside") == 0;
        if (!links || json_is_null(links) || s->links_inside || (text && strcmp(text, "any") == 0))
                return 0;
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "links: expected inside or any");
}

int sync_settings_load(const json_t *params, struct sync_settings *ret, struct cloche_err *e)
{
        static const char *const members[] = {"permissions", "onError", "conflict", "links", "optional", NULL};
        static const char *const errors[] = {"rollback", "continue", "abort"}, *const conflicts[] = {"refuse",
                                                                                                     "keepBoth",
                                                                                                     "overwrite"};
        int on_error = ON_ERROR_ROLLBACK, policy = CONFLICT_REFUSE, r;

        *ret = (struct sync_settings){0};
        r = settings_check_members(params, members, e);
        if (r == 0)
                r = rules_load(json_object_get(params, "permissions"), &ret->rules, e);
        if (r == 0)
                r = read_choice(params, "onError", errors, &on_error, e);
        if (r == 0)
                r = read_choice(params, "conflict", conflicts, &policy, e);
        if (r == 0)
                r = read_links(json_object_get(params, "links"), ret, e);
        if (r == 0)
                r = read_optional(json_object_get(params, "optional"), ret, e);
        ret->on_error = (enum on_error)on_error;
        ret->policy = (enum on_conflict)policy;
        return r;
}

void sync_settings_done(struct sync_settings *settings)
{
        rules_free(settings->rules);
        *settings = (struct sync_settings){0};
}
