/* Runs in: the engine. */
#include "image.h"

#include "base/env.h"
#include "base/err.h"
#include "engine/loop/engine.h"
#include "proto/image.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

int image_read(const char *name, struct image *ret)
{
        const size_t algorithm = sizeof(KEEPER_TREE_PREFIX) - 2;

        if (strlen(name) != sizeof(ret->name) - 1)
                return 0;
        strcpy(ret->name, name);
        if (ret->name[algorithm] == ':')
                ret->name[algorithm] = '-';
        return keeper_is_tree(ret->name);
}

/* -- settings ------------------------------------------------------------------------------------------------- */

static int check_variable(const char *name, const json_t *value, size_t *bytes, struct cloche_err *e)
{
        size_t size = env_name_size(name);

        if (size == 0 || name[size] || image_variable_is_box(name, size))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "env: an image cannot set the variable '%.60s'", name);
        if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "env: %.60s must be text without NUL", name);
        *bytes += size + json_string_length(value);
        return 0;
}

static int check_env(const json_t *env, struct cloche_err *e)
{
        const char *name;
        json_t *value;
        size_t bytes = 0;
        int r = 0;

        if (env && !json_is_object(env))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "env must be an object: text by name");
        if (json_object_size(env) > IMAGE_ENV_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "env has %zu variables, expected at most %d",
                               json_object_size(env), IMAGE_ENV_MAX);
        json_object_foreach ((json_t *)env, name, value)
                if (r == 0)
                        r = check_variable(name, value, &bytes, e);
        if (r == 0 && bytes > IMAGE_ENV_BYTES_MAX)
                r = err_set(e, CLOCHE_E_TOO_LARGE, "env has %zu bytes, expected at most %u", bytes,
                            IMAGE_ENV_BYTES_MAX);
        return r;
}

static int check_directory(const json_t *directory, struct cloche_err *e)
{
        const char *path = json_string_value(directory);
        char clean[IMAGE_DIRECTORY_SIZE];

        if (!directory)
                return 0;
        if (!path || *path != '/' || strlen(path) != json_string_length(directory))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "workingDirectory must be an absolute path");
        return files_normalise(path, "/", clean, sizeof(clean), e) < 0 ? err_wrap(e, "workingDirectory") : 0;
}

static int read_user(const json_t *json, struct jail_user *ret, struct cloche_err *e)
{
        const char *name, *home;
        json_int_t uid, gid;

        *ret = jail_user_default();
        if (!json)
                return 0;
        if (json_unpack((json_t *)json, "{s:I, s:I, s:s, s:s!}", "uid", &uid, "gid", &gid, "name", &name, "home",
                        &home) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "runsAs must be an object: uid, gid, name, home");
        if (uid < 0 || gid < 0 || !jail_user_has_ids((uint64_t)uid, (uint64_t)gid))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "runsAs: code cannot run as %lld:%lld, expected 1:0 to %u:%u", (long long)uid,
                               (long long)gid, JAIL_ID_MAX, JAIL_ID_MAX);
        if (!jail_user_is_name(name) || !jail_user_is_home(home))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "runsAs: name must be 1 to %d of A-Z, a-z, 0-9, '.', '_' and '-', and home such a "
                               "name in " JAIL_HOMES,
                               JAIL_NAME_SIZE - 1);
        ret->uid = (uint32_t)uid;
        ret->gid = (uint32_t)gid;
        strcpy(ret->name, name);
        strcpy(ret->home, home);
        return 0;
}

static int is_command(const json_t *command)
{
        return json_is_string(command) && json_string_length(command) > 0 &&
               json_string_length(command) <= IMAGE_COMMAND_BYTES_MAX &&
               strlen(json_string_value(command)) == json_string_length(command);
}

static int check_startup(const json_t *startup, struct cloche_err *e)
{
        const json_t *ms = json_object_get(startup, "readyMs");
        const char *name;
        json_t *value;

        if (startup && !json_is_object(startup))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "startup must be an object: start, ready, readyMs");
        json_object_foreach ((json_t *)startup, name, value) {
                if (strcmp(name, "readyMs") == 0)
                        continue;
                if (strcmp(name, "start") != 0 && strcmp(name, "ready") != 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "startup: unknown field '%.60s', expected start, ready or readyMs", name);
                if (!is_command(value))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "startup: %.60s must be text of 1 to %u bytes, without NUL", name,
                                       IMAGE_COMMAND_BYTES_MAX);
        }
        if (ms && (!json_is_integer(ms) || json_integer_value(ms) < 1 || json_integer_value(ms) > IMAGE_READY_MS_MAX))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "startup: readyMs must be a number from 1 to %d",
                               IMAGE_READY_MS_MAX);
        return 0;
}

static int check_settings(const json_t *json, struct cloche_err *e)
{
        static const char *const known[] = {"env", "workingDirectory", "runsAs", "startup"};
        const char *name;
        json_t *value;
        struct jail_user user;
        int r;

        if (!json_is_object(json))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "expected an object: env, workingDirectory, runsAs, startup");
        json_object_foreach ((json_t *)json, name, value) {
                size_t i = 0;

                while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], name) != 0)
                        i++;
                if (i == sizeof(known) / sizeof(known[0]))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "unknown field '%.60s', expected env, workingDirectory, runsAs or startup",
                                       name);
        }
        r = check_env(json_object_get(json, "env"), e);
        if (r == 0)
                r = check_directory(json_object_get(json, "workingDirectory"), e);
        if (r == 0)
                r = check_startup(json_object_get(json, "startup"), e);
        return r == 0 ? read_user(json_object_get(json, "runsAs"), &user, e) : r;
}

static struct image_settings *find(const struct image_settings_list *list, const char *text)
{
        struct image_settings *s;

        SLIST_FOREACH (s, list, link)
                if (strcmp(s->text, text) == 0)
                        return s;
        return NULL;
}

static void settings_free(struct image_settings *s)
{
        json_decref(s->json);
        free(s->text);
        free(s);
}

void image_settings_free_all(struct image_settings_list *list)
{
        struct image_settings *s;

        while ((s = SLIST_FIRST(list))) {
                SLIST_REMOVE_HEAD(list, link);
                settings_free(s);
        }
}

static void remove_unused(struct image_settings_list *list)
{
        struct image_settings *s = SLIST_FIRST(list), *next;

        for (; s; s = next) {
                next = SLIST_NEXT(s, link);
                if (s->refs == 0) {
                        SLIST_REMOVE(list, s, image_settings, link);
                        settings_free(s);
                }
        }
}

static void read_startup(const json_t *startup, struct image_settings *ret)
{
        const json_t *ms = json_object_get(startup, "readyMs");

        ret->start = json_string_value(json_object_get(startup, "start"));
        ret->ready = json_string_value(json_object_get(startup, "ready"));
        ret->ready_ms = ms ? (uint64_t)json_integer_value(ms) : IMAGE_READY_MS_MAX;
}

/* Takes json. */
static int add_settings(struct image_settings_list *list, json_t *json, struct image_settings **ret,
                        struct cloche_err *e)
{
        char *text = json_dump_text(json, JSON_COMPACT | JSON_SORT_KEYS);
        struct image_settings *s = text ? find(list, text) : NULL;

        if (text && !s && (s = calloc(1, sizeof(*s)))) {
                remove_unused(list);
                *s = (struct image_settings){
                        .text = text,
                        .json = json_incref(json),
                        .env = json_object_get(json, "env"),
                        .directory = json_string_value(json_object_get(json, "workingDirectory")),
                };
                (void)read_user(json_object_get(json, "runsAs"), &s->user, NULL); /* it was checked */
                read_startup(json_object_get(json, "startup"), s);
                SLIST_INSERT_HEAD(list, s, link);
                text = NULL;
        }
        free(text);
        json_decref(json);
        *ret = s;
        return s ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the settings of an image");
}

int image_settings_take(struct image_settings_list *list, const char *text, struct image_settings **ret,
                        struct cloche_err *e)
{
        json_t *json = NULL;
        int r;

        *ret = text ? find(list, text) : NULL;
        if (!text || *ret)
                return 0;
        r = json_load_text(text, strlen(text), &json, e);
        if (r == 0)
                r = check_settings(json, e);
        if (r == 0)
                return add_settings(list, json, ret, e);
        json_decref(json);
        return err_wrap(e, "imageSettings");
}

json_t *image_settings_pick(const json_t *image)
{
        return json_pack("{s:O*, s:O*, s:O*, s:O*}", "env", json_object_get(image, "env"), "workingDirectory",
                         json_object_get(image, "workingDirectory"), "runsAs", json_object_get(image, "runsAs"),
                         "startup", json_object_get(image, "startup"));
}

json_t *image_settings_without_startup(const json_t *settings)
{
        json_t *copy = settings ? json_copy((json_t *)settings) : NULL;

        json_object_del(copy, "startup");
        return copy;
}

struct jail_user image_runs_as(const struct image *image)
{
        return image->settings ? image->settings->user : jail_user_default();
}

void image_hold(struct image *image)
{
        if (image->settings)
                image->settings->refs++;
}

void image_drop(struct image *image)
{
        if (image->settings)
                image->settings->refs--;
        image->settings = NULL;
}

/* -- images --------------------------------------------------------------------------------------------------- */

int image_take(cloche_engine *engine, const char *name, const char *settings, struct image *ret, struct cloche_err *e)
{
        *ret = (struct image){.settings = engine->own_settings};
        if ((!name || !name[0]) && settings)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "imageSettings: expected an image beside them");
        if (!name || !name[0])
                return 0;
        if (!image_read(name, ret))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "image must be " KEEPER_TREE_PREFIX
                               " and %d digits of 0-9a-f, not '%.100s': cloche image "
                               "ls lists the images",
                               KEEPER_TREE_DIGITS, name);
        if (!engine->has_images)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the image %s cannot be used: this engine has no image store (cloched --images names "
                               "one)",
                               name);
        return image_settings_take(&engine->image_settings, settings, &ret->settings, e);
}

int image_take_members(cloche_engine *engine, const json_t *object, struct image *ret, struct cloche_err *e)
{
        const char *name = json_string_value(json_object_get(object, "image"));
        const json_t *settings = json_object_get(object, "imageSettings");
        char *text = settings ? json_dump_text(settings, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        int r = settings && !text ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the settings of an image")
                                  : image_take(engine, name, text, ret, e);

        free(text);
        return r;
}

int image_take_startup(cloche_engine *engine, const json_t *startup, struct image *image, struct cloche_err *e)
{
        json_t *json;
        char *text;
        int r;

        if (!startup)
                return 0;
        json = image->settings ? json_copy(image->settings->json) : json_object();
        json_object_set(json, "startup", (json_t *)startup);
        text = json_dump_text(json, JSON_COMPACT | JSON_SORT_KEYS);
        r = text ? image_settings_take(&engine->image_settings, text, &image->settings, e)
                 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the commands of a sandbox");
        free(text);
        json_decref(json);
        return r;
}
