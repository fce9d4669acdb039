/* The `mount` object of a run, checked before there is a box. Runs in: the engine. */
#include "mount-options.h"

#include "base/err.h"
#include "base/path.h"
#include "helpers/fs/rules/reserved.h"
#include "helpers/fs/rules/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SETTINGS_POINTS_MAX >= KEEPER_MOUNTS_MAX, "a mount has room for all that lie in it");

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int refuse(struct cloche_err *e, const char *member, const char *expected)
{
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount%s%s must be %s", member[0] ? "." : "", member, expected);
}

/* -- names ---------------------------------------------------------------------------------------------------- */

static const char *name_among(const char *const *names, size_t count, const char *name)
{
        if (!name)
                return names[0];
        for (size_t i = 0; i < count; i++)
                if (strcmp(names[i], name) == 0)
                        return names[i];
        return NULL;
}

const char *mount_on_error(const char *name)
{
        static const char *const names[] = {"rollback", "continue", "abort"};

        return name_among(names, COUNT(names), name);
}

const char *mount_conflict(const char *name)
{
        static const char *const names[] = {"refuse", "keepBoth", "overwrite"};

        return name_among(names, COUNT(names), name);
}

const char *mount_links(const char *name)
{
        static const char *const names[] = {"any", "inside"};

        return name_among(names, COUNT(names), name);
}

static const char *sync_mode(const char *name)
{
        static const char *const names[] = {"batch", "manual"};

        return name_among(names, COUNT(names), name);
}

/* Read a member that is absent or one of the names. */
/* where: of the object, for messages. */
static int read_name(const json_t *object, const char *where, const char *member, const char *(*among)(const char *),
                     const char *expected, const char **ret, struct cloche_err *e)
{
        const json_t *value = json_object_get(object, member);

        *ret = !value || json_is_string(value) ? among(json_string_value(value)) : NULL;
        return *ret ? 0 : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s.%s must be %s", where, member, expected);
}

static int check_members(const json_t *object, const char *where, const char *const *known, size_t count,
                         struct cloche_err *e)
{
        const char *key;
        json_t *value;

        if (object && !json_is_object(object))
                return refuse(e, where, "an object");
        json_object_foreach ((json_t *)object, key, value) {
                size_t i = 0;

                while (i < count && strcmp(known[i], key) != 0)
                        i++;
                if (i == count)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount%s%s has no member \"%.60s\"%s",
                                       where[0] ? "." : "", where, key,
                                       !where[0] && key[0] == '/' ? ": places are the members of its \"dirs\"" : "");
        }
        return 0;
}

/* -- places --------------------------------------------------------------------------------------------------- */

int mount_is_below_writable(const char *target)
{
        static const char *const places[] = {"/workspace", "/tmp", "/home/cloche"};

        for (size_t i = 0; i < COUNT(places); i++)
                if (path_is_at_or_below(target, places[i]))
                        return 1;
        return 0;
}

static int find_root(const struct mount_roots *roots, struct mount_option *row, struct cloche_err *e)
{
        size_t best = 0;
        const char *rest;

        for (size_t i = 0; i < roots->count; i++)
                if (path_is_at_or_below(row->source, roots->paths[i]) &&
                    (best == 0 || strlen(roots->paths[i]) > strlen(roots->paths[best - 1])))
                        best = i + 1;
        if (best == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "mount.dirs: %.120s is not beneath a directory that may be mounted (of a daemon: "
                               "cloched --mount-root)",
                               row->source);
        rest = row->source + (strlen(roots->paths[best - 1]) == 1 ? 0 : strlen(roots->paths[best - 1]));
        row->root = (uint32_t)best - 1;
        while (*rest == '/')
                rest++;
        if (strlen(rest) >= sizeof(row->path))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.dirs: %.60s… is too long", row->source);
        strcpy(row->path, rest);
        return 0;
}

/* Return a directory's own member, or that of the whole mount object. */
static json_t *member_of(const json_t *mount, const json_t *dir, const char *name)
{
        json_t *own = json_object_get(dir, name);

        return own ? own : json_object_get(mount, name);
}

static int check_security(const json_t *security, struct cloche_err *e)
{
        static const char *const members[] = {"followSymlinks"};

        return check_members(security, "security", members, COUNT(members), e);
}

/* Only the size limit of a mounted file is passed on, so cloche-fs does not see the others. */
static int check_loading(const json_t *loading, struct cloche_err *e)
{
        static const char *const members[] = {"mode", "include", "maxFileSize", "maxTotalSize"};

        return json_is_null(loading) ? 0 : check_members(loading, "loading", members, COUNT(members), e);
}

static int check_dir(const json_t *dir, struct cloche_err *e)
{
        static const char *const members[] = {"path",    "kind",     "permissions",
                                              "loading", "security", "onPermissionDenied"};
        int r = json_is_object(dir) ? check_members(dir, "dirs", members, COUNT(members), e) : 0;

        if (r == 0)
                r = check_loading(json_object_get(dir, "loading"), e);
        return r < 0 ? r : check_security(json_object_get(dir, "security"), e);
}

/* For a file, cut its name off the path: its directory is opened, and a sync puts the new file
 * there. */
static int take_kind(const json_t *dir, struct mount_option *row, struct cloche_err *e)
{
        const json_t *kind = json_object_get(dir, "kind");
        const char *name = strrchr(row->source, '/') + 1, *text = json_string_value(kind);
        char *slash = strrchr(row->path, '/');

        if (!kind || (text && strcmp(text, "directory") == 0))
                return 0;
        if (!text || strcmp(text, "file") != 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.dirs: '%.60s': kind must be directory or file",
                               row->target);
        if (!row->path[0])
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "mount.dirs: %.120s is a directory that may be mounted (of a daemon: cloched "
                               "--mount-root), not a file beneath one",
                               row->source);
        row->file = strdup(name);
        *(slash ? slash : row->path) = '\0';
        return row->file ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the mounts");
}

static int take_place(const struct mount_roots *roots, const char *target, const json_t *dir, struct mount_option *ret,
                      struct cloche_err *e)
{
        const json_t *given = json_is_object(dir) ? json_object_get(dir, "path") : dir;
        const char *path = json_string_value(given), *name;
        size_t size = strlen(target);

        while (size > 1 && target[size - 1] == '/')
                size--;
        if (target[0] != '/' || size < 2 || size >= sizeof(ret->target))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "mount.dirs: '%.100s' must be an absolute path of the box, of less than %d bytes",
                               target, KEEPER_TARGET_MAX);
        if (!path || path[0] != '/' || strlen(path) != json_string_length(given))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "mount.dirs: '%.60s' must name an absolute path of the host, without NUL", target);
        memcpy(ret->target, target, size);
        /* Links in the host's path are followed. If this process gave up the rights to see them,
         * the keeper walks them. */
        ret->source = realpath(path, NULL);
        if (!ret->source)
                ret->source = strdup(path);
        if (!ret->source)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the mounts");
        name = strrchr(ret->source, '/') + 1;
        if (reserved_is(name, strlen(name)))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "mount.dirs: %.120s: the name belongs to syncs, which keep their journal there: mount "
                               "the directory above it",
                               ret->source);
        return find_root(roots, ret, e);
}

/* -- the whole ------------------------------------------------------------------------------------------------ */

/* cloche-fs reads it again; errors must come before there is a box. */
static int check_configuration(struct mount_option *row, struct cloche_err *e)
{
        const unsigned writing = 1u << RULES_CREATE | 1u << RULES_MODIFY | 1u << RULES_DELETE;
        struct settings settings = {0};
        int r = fs_settings_load(row->configure, &settings, e);

        row->is_written = r == 0 && (rules_any(settings.rules) & writing) != 0;
        fs_settings_done(&settings);
        return r < 0 ? err_wrap(e, "mount") : 0;
}

static json_t *configuration(const json_t *mount, const json_t *dir, const struct mount_option *row)
{
        static const char *const passed[] = {"permissions", "loading", "onPermissionDenied"};
        json_t *links = json_object_get(member_of(mount, dir, "security"), "followSymlinks");
        json_t *configure = json_pack("{s:s, s:s, s:i, s:i}", "source", row->source, "target", row->target, "uid",
                                      JAIL_UID, "gid", JAIL_UID); /* mount.c has those of the box */

        for (size_t i = 0; i < COUNT(passed); i++)
                if (member_of(mount, dir, passed[i]))
                        json_object_set(configure, passed[i], member_of(mount, dir, passed[i]));
        if (links)
                json_object_set(configure, "followSymlinks", links);
        return configure;
}

/* Apply the rules to a file once, by its name in the box; its name on the host may differ. */
static int decide_file(struct mount_option *row, struct cloche_err *e)
{
        struct rules *rules = NULL;
        json_t *rights = json_object();
        int r = rules_load(row->permissions, &rules, e);
        unsigned allowed = r < 0 ? 0 : rules_decide(rules, strrchr(row->target, '/') + 1, NULL);

        for (unsigned i = 0; i < RULES_ACTION_COUNT; i++)
                json_object_set_new(rights, rules_action_name((enum rules_action)i), json_boolean(allowed & 1u << i));
        rules_free(rules);
        json_decref(row->permissions);
        row->permissions = json_pack("{s:o}", "default", rights);
        if (r < 0)
                return err_wrap(e, "mount");
        return row->permissions ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the mounts");
}

/* The caller named the file, so of loading only the size limit counts. */
static int configure_file(struct mount_option *row, struct cloche_err *e)
{
        json_t *max = json_object_get(json_object_get(row->configure, "loading"), "maxFileSize");
        int r = json_object_set_new(row->configure, "file", json_string(row->file));

        if (json_object_get(row->configure, "loading"))
                r |= json_object_set_new(row->configure, "loading",
                                         max ? json_pack("{s:O}", "maxFileSize", max) : json_object());
        r |= json_object_set(row->configure, "permissions", row->permissions);
        return r < 0 ? err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "mount.dirs: '%.60s': the file's name on the host is not UTF-8", row->target)
                     : 0;
}

static int take_rows(const struct mount_roots *roots, const json_t *mount, struct mount_options *ret,
                     struct cloche_err *e)
{
        const char *target;
        json_t *dir;
        int r = 0;

        json_object_foreach (json_object_get(mount, "dirs"), target, dir) {
                struct mount_option *row = &ret->rows[ret->count];

                if (ret->count == KEEPER_MOUNTS_MAX)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "mount.dirs: at most %d directories are mounted at once", KEEPER_MOUNTS_MAX);
                ret->count++;
                r = check_dir(dir, e);
                if (r == 0)
                        r = take_place(roots, target, dir, row, e);
                if (r == 0)
                        r = take_kind(dir, row, e);
                if (r < 0)
                        return r;
                row->permissions = json_incref(member_of(mount, dir, "permissions"));
                row->configure = configuration(mount, dir, row);
                if (!row->configure)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.dirs: '%.60s' is not UTF-8", target);
                r = check_configuration(row, e);
                if (r == 0 && row->file)
                        r = decide_file(row, e);
                if (r == 0 && row->file)
                        r = configure_file(row, e);
                if (r == 0 && row->file)
                        r = check_configuration(row, e);
                if (r < 0)
                        return r;
        }
        return ret->count > 0 ? 0
                              : refuse(e, "dirs", "an object of at least one path of the box to a path of the host");
}

/* Find the closest mount that holds another one. */
static struct mount_option *find_outer(struct mount_options *options, const struct mount_option *inner)
{
        struct mount_option *best = NULL;

        for (struct mount_option *row = options->rows; row < options->rows + options->count; row++)
                if (row != inner && path_is_at_or_below(inner->target, row->target) &&
                    (!best || strlen(row->target) > strlen(best->target)))
                        best = row;
        return best;
}

/* Add the mount points in other mounts to the configuration of those: their servers show them. */
static int add_points(struct mount_options *options, struct cloche_err *e)
{
        for (struct mount_option *row = options->rows; row < options->rows + options->count; row++) {
                struct mount_option *outer = find_outer(options, row);
                json_t *points = outer ? json_object_get(outer->configure, "points") : NULL;

                if (!outer)
                        continue;
                if (outer->file)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "mount.dirs: '%.60s' cannot lie in '%.60s', which is a file: give it a place "
                                       "beside it",
                                       row->target, outer->target);
                if (strcmp(outer->target, row->target) == 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.dirs: '%.100s' is given twice",
                                       row->target);
                if (reserved_is_in(row->target + strlen(outer->target) + 1))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "mount.dirs: '%.100s' lies in a place called " RESERVED_NAME
                                       ", where syncs keep their journal: choose another name",
                                       row->target);
                if (!points && json_object_set_new(outer->configure, "points", points = json_array()) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the mounts");
                json_array_append_new(points, json_pack("{s:s, s:s}", "path", row->target + strlen(outer->target) + 1,
                                                        "kind", row->file ? "file" : "directory"));
        }
        return 0;
}

const struct mount_option *mount_options_find(const struct mount_options *options, const char *path,
                                              const char **ret_below)
{
        const struct mount_option *best = NULL;

        for (const struct mount_option *row = options->rows; row < options->rows + options->count; row++) {
                size_t size = strlen(row->target);

                if (strncmp(path, row->target, size) != 0 || path[size] != (row->file ? '\0' : '/') ||
                    (best && strlen(best->target) > size))
                        continue;
                best = row;
                *ret_below = path + size + !row->file;
        }
        return best;
}

static int read_allow_abort(const json_t *given, int *ret_skips, struct cloche_err *e)
{
        if (given && !json_is_boolean(given))
                return refuse(e, "sync.allowAbort", "true or false");
        *ret_skips = json_is_false(given);
        return 0;
}

int sync_policies_read(const json_t *object, const char *where, struct sync_policies *ret, struct cloche_err *e)
{
        int r = read_name(object, where, "onError", mount_on_error, "rollback, continue or abort", &ret->on_error, e);

        if (r == 0)
                r = read_name(object, where, "conflict", mount_conflict, "refuse, keepBoth or overwrite",
                              &ret->conflict, e);
        return r < 0 ? r : read_name(object, where, "links", mount_links, "any or inside", &ret->links, e);
}

int mount_roots_check(const struct mount_roots *roots, struct cloche_err *e)
{
        return roots->count > 0 ? 0
                                : err_set(e, CLOCHE_E_FORBIDDEN,
                                          "no directory may be mounted here: cloched was started without --mount-root");
}

int mount_options_load(const struct mount_roots *roots, const json_t *mount, struct mount_options *ret,
                       struct cloche_err *e)
{
        static const char *const members[] = {"dirs", "permissions", "loading",
                                              "sync", "security",    "onPermissionDenied"};
        static const char *const sync_members[] = {"mode", "onError", "conflict", "links", "allowAbort"};
        const json_t *sync = json_object_get(mount, "sync");
        const char *mode = NULL;
        int r;

        *ret = (struct mount_options){0};
        if (!json_is_object(mount))
                return refuse(e, "", "an object");
        r = check_members(mount, "", members, COUNT(members), e);
        if (r == 0)
                r = check_members(sync, "sync", sync_members, COUNT(sync_members), e);
        if (r == 0)
                r = check_security(json_object_get(mount, "security"), e);
        if (r == 0)
                r = check_loading(json_object_get(mount, "loading"), e);
        if (r == 0)
                r = read_name(sync, "mount.sync", "mode", sync_mode, "batch or manual", &mode, e);
        if (r == 0)
                r = sync_policies_read(sync, "mount.sync", &ret->sync, e);
        if (r == 0)
                r = read_allow_abort(json_object_get(sync, "allowAbort"), &ret->abort_skips, e);
        if (r < 0)
                return r;
        ret->is_manual = strcmp(mode, "manual") == 0;
        r = take_rows(roots, mount, ret, e);
        return r < 0 ? r : add_points(ret, e);
}

void mount_options_done(struct mount_options *options)
{
        for (size_t i = 0; i < options->count; i++) {
                free(options->rows[i].source);
                free(options->rows[i].file);
                json_decref(options->rows[i].permissions);
                json_decref(options->rows[i].configure);
        }
        *options = (struct mount_options){0};
}
