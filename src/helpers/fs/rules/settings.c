/* Parse the configuration of a mount.
 * Runs in: cloche-fs, cloche-sync, cloche-files and the engine; pure. */
#include "settings.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct choice {
        const char *name;
        int value;
};

static const struct choice denied_choices[] = {{"throw", DENIED_THROW},
                                               {"ignore", DENIED_IGNORE},
                                               {"virtual", DENIED_VIRTUAL},
                                               {NULL, 0}};
static const struct choice loading_choices[] = {{"lazy", LOADING_LAZY},
                                                {"eager", LOADING_EAGER},
                                                {"explicit", LOADING_EXPLICIT},
                                                {NULL, 0}};

static int read_choice(const json_t *params, const char *key, const struct choice *choices, int *ret,
                       struct cloche_err *e)
{
        const json_t *value = json_object_get(params, key);
        const char *text = json_string_value(value);

        if (!value || json_is_null(value))
                return 0;
        for (const struct choice *c = choices; text && c->name; c++)
                if (strcmp(c->name, text) == 0) {
                        *ret = c->value;
                        return 0;
                }
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s: expected %s, %s or %s", key, choices[0].name, choices[1].name,
                       choices[2].name);
}

static int read_links(const json_t *value, enum links_policy *ret, struct cloche_err *e)
{
        if (!value || json_is_null(value) || json_is_true(value))
                *ret = LINKS_SHOWN;
        else if (json_is_false(value))
                *ret = LINKS_NONE;
        else if (json_is_string(value) && strcmp(json_string_value(value), "restricted") == 0)
                *ret = LINKS_RESTRICTED;
        else
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "followSymlinks: expected true, false or \"restricted\"");
        return 0;
}

int fs_settings_number(const json_t *object, const char *key, uint64_t *ret, struct cloche_err *e)
{
        const json_t *value = json_object_get(object, key);

        if (!value || json_is_null(value))
                return 0;
        if (!json_is_integer(value) || json_integer_value(value) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s: expected a whole number, not negative", key);
        *ret = (uint64_t)json_integer_value(value);
        return 0;
}

static int read_path(const json_t *params, const char *key, char **ret, struct cloche_err *e)
{
        const json_t *value = json_object_get(params, key);
        const char *text = json_string_value(value);
        size_t size;

        if (!value || json_is_null(value))
                return 0;
        if (!text || text[0] != '/')
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s: expected an absolute path", key);
        *ret = strdup(text);
        if (!*ret)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the settings");
        for (size = strlen(*ret); size > 1 && (*ret)[size - 1] == '/'; size--)
                (*ret)[size - 1] = '\0';
        return 0;
}

/* The places that other mounts are attached to. */
static int read_points(const json_t *points, struct settings *s, struct cloche_err *e)
{
        if (!points || json_is_null(points))
                return 0;
        if (!json_is_array(points) || json_array_size(points) > SETTINGS_POINTS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "points: expected an array of at most %d",
                               SETTINGS_POINTS_MAX);
        s->points = json_incref((json_t *)points);
        return 0;
}

/* A plain name. */
static int read_file(const json_t *params, struct settings *s, struct cloche_err *e)
{
        const json_t *value = json_object_get(params, "file");
        const char *text = json_string_value(value);

        if (!value || json_is_null(value))
                return 0;
        if (!text || !*text || strchr(text, '/') || strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "file: expected the name of a file of the directory");
        s->file = strdup(text);
        return s->file ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the settings");
}

static int check_known(const json_t *object, const char *const *known, size_t count, struct cloche_err *e)
{
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)object, name, value) {
                size_t i = 0;

                while (i < count && strcmp(known[i], name) != 0)
                        i++;
                if (i == count)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "unknown member '%.40s'", name);
        }
        return 0;
}

static int read_loading(const json_t *loading, struct settings *s, struct cloche_err *e)
{
        static const char *const known[] = {"mode", "include", "maxFileSize", "maxTotalSize"};
        int mode = LOADING_LAZY, r;
        json_t *include = json_object_get(loading, "include");

        if (loading && !json_is_object(loading) && !json_is_null(loading))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "loading: expected an object");
        r = check_known(loading, known, sizeof(known) / sizeof(known[0]), e);
        if (r == 0)
                r = read_choice(loading, "mode", loading_choices, &mode, e);
        if (r == 0)
                r = fs_settings_number(loading, "maxFileSize", &s->max_file_bytes, e);
        if (r == 0)
                r = fs_settings_number(loading, "maxTotalSize", &s->max_total_bytes, e);
        if (r < 0)
                return err_wrap(e, "loading");
        if (include && !json_is_array(include))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "loading.include: expected an array of patterns");
        s->loading = (enum loading_mode)mode;
        s->include = json_incref(include);
        return 0;
}

static int read_limits(const json_t *limits, struct settings *s, struct cloche_err *e)
{
        const struct {
                const char *key;
                uint64_t value;
                size_t *ret;
        } rows[] = {
                {"nodes", 500000, &s->tree.nodes},
                {"changes", 200000, &s->tree.changed},
                {"xattrBytes", 4 << 20, &s->tree.xattr_bytes},
                {"openFiles", 1024, &s->open_files},
                {"denials", 1000, &s->denials},
                {"warnings", 1000, &s->warnings},
        };

        if (limits && !json_is_object(limits) && !json_is_null(limits))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "limits: expected an object");
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint64_t value = rows[i].value;

                if (fs_settings_number(limits, rows[i].key, &value, e) < 0)
                        return err_wrap(e, "limits");
                *rows[i].ret = value;
        }
        return fs_settings_number(limits, "bytes", &s->upper_bytes, e) < 0 ? err_wrap(e, "limits") : 0;
}

static int read_owner(const json_t *params, struct settings *s, struct cloche_err *e)
{
        uint64_t uid = getuid(), gid = getgid();
        const json_t *cache = json_object_get(params, "cacheSeconds");
        int r = fs_settings_number(params, "uid", &uid, e);

        if (r == 0)
                r = fs_settings_number(params, "gid", &gid, e);
        if (r == 0 && cache && (!json_is_number(cache) || json_number_value(cache) < 0))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "cacheSeconds: expected a number, not negative");
        s->uid = (uid_t)uid;
        s->gid = (gid_t)gid;
        s->cache_s = cache ? json_number_value(cache) : 10;
        return r;
}

static int read_optional(const json_t *optional, struct settings *s, struct cloche_err *e)
{
        size_t i;
        json_t *name;

        json_array_foreach ((json_t *)optional, i, name) {
                bool landlock = json_is_string(name) && strcmp(json_string_value(name), "landlock") == 0;
                bool seccomp = json_is_string(name) && strcmp(json_string_value(name), "seccomp") == 0;

                if (!landlock && !seccomp)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "optional: the guards here are landlock and seccomp");
                s->landlock_optional |= landlock;
                s->seccomp_optional |= seccomp;
        }
        return 0;
}

static int check_members(const json_t *params, struct cloche_err *e)
{
        static const char *const known[] =
                {"permissions", "loading", "followSymlinks", "onPermissionDenied", "source", "target",  "uid",
                 "gid",         "points",  "file",           "cacheSeconds",       "limits", "optional"};

        if (!json_is_object(params))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the settings of a mount must be an object");
        return check_known(params, known, sizeof(known) / sizeof(known[0]), e);
}

int fs_settings_load(const json_t *params, struct settings *ret, struct cloche_err *e)
{
        const json_t *permissions = json_object_get(params, "permissions");
        int denied = DENIED_THROW, r;

        *ret = (struct settings){0};
        r = check_members(params, e);
        if (r == 0)
                r = rules_load(permissions, &ret->rules, e);
        if (r == 0)
                r = read_choice(params, "onPermissionDenied", denied_choices, &denied, e);
        if (r == 0)
                r = read_links(json_object_get(params, "followSymlinks"), &ret->links, e);
        if (r == 0)
                r = read_loading(json_object_get(params, "loading"), ret, e);
        if (r == 0)
                r = read_path(params, "source", &ret->source, e);
        if (r == 0)
                r = read_path(params, "target", &ret->target, e);
        if (r == 0)
                r = read_points(json_object_get(params, "points"), ret, e);
        if (r == 0)
                r = read_file(params, ret, e);
        if (r == 0)
                r = read_owner(params, ret, e);
        if (r == 0)
                r = read_limits(json_object_get(params, "limits"), ret, e);
        if (r == 0)
                r = read_optional(json_object_get(params, "optional"), ret, e);
        ret->on_denied = (enum denied_policy)denied;
        ret->all_alike = json_array_size(json_object_get(permissions, "rules")) +
                                 json_array_size(json_object_get(permissions, "exclude")) ==
                         0;
        return r;
}

void fs_settings_done(struct settings *s)
{
        rules_free(s->rules);
        json_decref(s->include);
        json_decref(s->points);
        free(s->file);
        free(s->source);
        free(s->target);
        *s = (struct settings){0};
}
