/* Build the `mount` object of a run from options.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "mounts.h"

#include <cloche/cloche.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int make(struct mounts_options *mounts)
{
        if (!mounts->object)
                mounts->object = json_pack("{s:{}, s:{s:[]}}", "dirs", "permissions", "rules");
        return mounts->object ? 0 : cli_bad("out of memory");
}

static int read_rules(const char *path, json_t **ret)
{
        json_error_t error;

        *ret = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
        if (!*ret)
                return error.line < 0 ? cli_bad("--mount: cannot read the rules: %s", error.text)
                                      : cli_bad("--mount: the rules '%s' are not valid JSON: %s (line %d)", path,
                                                error.text, error.line);
        if (json_is_object(*ret) && !json_object_get(*ret, "path"))
                return 0;
        json_decref(*ret);
        *ret = NULL;
        return cli_bad("--mount: the rules '%s' are not an object of default, rules and exclude, "
                       "or of permissions, loading, security and onPermissionDenied",
                       path);
}

/* A file holds permissions alone, or permissions with other members of a directory. Returns the
 * directory's object. */
static json_t *describe(const char *path, int is_file, json_t *file)
{
        static const char *const members[] = {"permissions", "loading", "security", "onPermissionDenied"};
        json_t *dir = NULL;

        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && !dir; i++)
                if (json_object_get(file, members[i]))
                        dir = json_incref(file);
        if (!dir)
                dir = json_pack("{s:O*}", "permissions", file);
        if (dir && is_file)
                json_object_set_new(dir, "kind", json_string("file"));
        if (dir && json_object_set_new(dir, "path", json_string(path)) < 0) {
                json_decref(dir);
                return NULL;
        }
        return dir;
}

char *mounts_directory(const char *path)
{
        size_t size = (size_t)(strrchr(path, '/') - path);

        return strndup(path, size ? size : 1);
}

/* Its real path, the directory that may be mounted for it, and whether it is a file. */
static int resolve(const char *path, char **ret_path, char **ret_root, int *ret_is_file)
{
        struct stat st;

        *ret_path = realpath(path, NULL);
        if (!*ret_path || stat(*ret_path, &st) < 0)
                return cli_bad("--mount: cannot open '%s': %s", path, strerror(errno));
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return cli_bad("--mount: '%s' is neither a directory nor a file", path);
        *ret_is_file = S_ISREG(st.st_mode);
        *ret_root = *ret_is_file ? mounts_directory(*ret_path) : strdup(*ret_path);
        return *ret_root ? 0 : cli_bad("out of memory");
}

/* A directory name may contain colons: only a last part that ends in .json names rules. */
static int split(const char *value, char **ret_target, char **ret_source, char **ret_rules)
{
        const char *equals = strchr(value, '='), *colon = equals ? strrchr(equals, ':') : NULL;
        size_t size = colon ? strlen(colon) : 0;

        if (!equals || equals == value || !equals[1])
                return cli_bad("--mount: '%s' is not PLACE=HOSTPATH[:RULES.json]", value);
        if (value[0] != '/')
                return cli_bad("--mount: '%s': the place in the box must be an absolute path: --mount /workspace/%s",
                               value, value + strspn(value, "./"));
        if (size < 7 || strcmp(colon + size - 5, ".json") != 0)
                colon = NULL;
        *ret_target = strndup(value, (size_t)(equals - value));
        *ret_source = colon ? strndup(equals + 1, (size_t)(colon - equals - 1)) : strdup(equals + 1);
        *ret_rules = colon ? strdup(colon + 1) : NULL;
        return 0;
}

int mounts_add(struct mounts_options *mounts, const char *value)
{
        char *target = NULL, *source = NULL, *rules = NULL, *path = NULL;
        json_t *dir = NULL, *file = NULL, *dirs;
        int bad = make(mounts), is_file = 0;

        if (bad == 0 && mounts->count == MOUNTS_MAX)
                bad = cli_bad("--mount: given more than %d times", MOUNTS_MAX);
        if (bad == 0)
                bad = split(value, &target, &source, &rules);
        if (bad == 0)
                bad = resolve(source, &path, &mounts->roots[mounts->count], &is_file);
        if (bad == 0) {
                dirs = json_object_get(mounts->object, "dirs");
                if (json_object_get(dirs, target))
                        bad = cli_bad("--mount: '%s' is mounted twice", target);
        }
        if (bad == 0 && rules)
                bad = read_rules(rules, &file);
        if (bad == 0) {
                mounts->count++;
                dir = describe(path, is_file, file);
                if (!dir || json_object_set_new(dirs, target, dir) < 0)
                        bad = cli_bad("--mount: '%s' is not UTF-8", value);
        }
        json_decref(file);
        free(path);
        free(target);
        free(source);
        free(rules);
        return bad;
}

static int add_action(json_t *rule, const char *word, size_t size)
{
        int is_denied = size > 0 && word[0] == '-';
        json_t *action = json_stringn(word + is_denied, size - (size_t)is_denied);

        return json_array_append_new(json_object_get(rule, is_denied ? "deny" : "allow"), action);
}

int mounts_add_rule(struct mounts_options *mounts, const char *value)
{
        const char *equals = strrchr(value, '=');
        json_t *rule = NULL;
        int bad = make(mounts);

        if (bad == 0 && (!equals || equals == value || !equals[1]))
                bad = cli_bad("--rule: '%s' is not PATTERN=ACTION,… (read, list, create, modify, delete or *; a "
                              "leading - "
                              "denies)",
                              value);
        if (bad)
                return bad;
        rule = json_pack("{s:s%, s:[], s:[]}", "pattern", value, (size_t)(equals - value), "allow", "deny");
        if (!rule)
                return cli_bad("--rule: '%s' is not UTF-8", value);
        for (const char *word = equals + 1; *word;) {
                size_t size = strcspn(word, ",");

                if (add_action(rule, word, size) < 0)
                        bad = cli_bad("--rule: '%s' is not UTF-8", value);
                word += size + (word[size] == ',');
        }
        json_array_append_new(json_object_get(json_object_get(mounts->object, "permissions"), "rules"), rule);
        return bad;
}

int mounts_set(struct mounts_options *mounts, const char *section, const char *member, const char *option,
               const char *value)
{
        json_t *at;
        int bad = make(mounts);

        if (bad)
                return bad;
        at = section ? json_object_get(mounts->object, section) : mounts->object;
        if (!at) {
                json_object_set_new(mounts->object, section, json_object());
                at = json_object_get(mounts->object, section);
        }
        return json_object_set_new(at, member, json_string(value)) < 0 ? cli_bad("%s: '%s' is not UTF-8", option, value)
                                                                       : 0;
}

/* Rules of --rule precede a file's, so that they win at equal priority. */
static void prepend_rules(json_t *object)
{
        json_t *shared = json_object_get(json_object_get(object, "permissions"), "rules"), *dir;
        const char *target;

        json_object_foreach (json_object_get(object, "dirs"), target, dir) {
                json_t *permissions = json_object_get(dir, "permissions"), *own = json_object_get(permissions, "rules");
                json_t *all = permissions ? json_copy(shared) : NULL;

                if (!all || (own && json_array_extend(all, own) < 0)) {
                        json_decref(all); /* the engine refuses rules that are no array, with its own message */
                        continue;
                }
                json_object_set_new(permissions, "rules", all);
        }
}

int mounts_bind(struct mounts_options *mounts, struct cloche_engine_options *engine, struct cloche_run_options *run)
{
        if (!mounts->object)
                return 0;
        if (mounts->count == 0)
                return cli_bad("options for mounts need --mount PLACE=HOSTPATH");
        prepend_rules(mounts->object);
        mounts->text = json_dumps(mounts->object, JSON_COMPACT);
        if (!mounts->text)
                return cli_bad("out of memory");
        run->mount = mounts->text;
        engine->mount_roots = (const char *const *)mounts->roots;
        engine->mount_root_count = mounts->count;
        return 0;
}

void mounts_done(struct mounts_options *mounts)
{
        json_decref(mounts->object);
        for (size_t i = 0; i < MOUNTS_MAX; i++)
                free(mounts->roots[i]);
        free(mounts->text);
}
