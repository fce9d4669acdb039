#include "mount-options.h"

#include "base/err.h"
#include "base/path.h"
#include "fs/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUEST_ID 1000 /* the only user of a box */
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

static const char *sync_mode(const char *name)
{
        static const char *const names[] = {"batch", "manual"};

        return name_among(names, COUNT(names), name);
}

/* Read a member that is absent or one of the names. */
static int read_name(const json_t *object, const char *member, const char *(*among)(const char *), const char *full_name, const char *expected,
                     const char **ret, struct cloche_err *e)
{
        const json_t *value = json_object_get(object, member);

        *ret = !value || json_is_string(value) ? among(json_string_value(value)) : NULL;
        return *ret ? 0 : refuse(e, full_name, expected);
}

static int check_members(const json_t *object, const char *where, const char *const *known, size_t count, struct cloche_err *e)
{
        const char *key;
        json_t *value;

        if (object && !json_is_object(object))
                return refuse(e, where, "an object");
        json_object_foreach((json_t *)object, key, value) {
                size_t i = 0;

                while (i < count && strcmp(known[i], key) != 0)
                        i++;
                if (i == count)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount%s%s has no member \"%.60s\"", where[0] ? "." : "", where, key);
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
                if (path_is_at_or_below(row->source, roots->paths[i]) && (best == 0 || strlen(roots->paths[i]) > strlen(roots->paths[best - 1])))
                        best = i + 1;
        if (best == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.dirs: %.120s is not beneath a directory that may be mounted (of a daemon: cloched --mount-root)",
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

static int check_dir(const json_t *dir, struct cloche_err *e)
{
        static const char *const members[] = {"path", "permissions", "loading", "security", "onPermissionDenied"};
        int r = json_is_object(dir) ? check_members(dir, "dirs", members, COUNT(members), e) : 0;

        return r < 0 ? r : check_security(json_object_get(dir, "security"), e);
}

static int take_place(const struct mount_roots *roots, const char *target, const json_t *dir, struct mount_option *ret, struct cloche_err *e)
{
        const char *path = json_string_value(json_is_object(dir) ? json_object_get(dir, "path") : dir);
        size_t size = strlen(target);

        while (size > 1 && target[size - 1] == '/')
                size--;
        if (target[0] != '/' || size < 2 || size >= sizeof(ret->target))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.dirs: '%.100s' must be an absolute path of the box, of less than %d bytes", target, KEEPER_TARGET_MAX);
        if (!path || path[0] != '/')
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.dirs: '%.60s' must name an absolute path of the host", target);
        memcpy(ret->target, target, size);
        /* Links in the host's path are followed. If this process gave up the rights to see them,
         * the keeper walks them. */
        ret->source = realpath(path, NULL);
        if (!ret->source)
                ret->source = strdup(path);
        if (!ret->source)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the mounts");
        return find_root(roots, ret, e);
}

/* -- the whole ------------------------------------------------------------------------------------------------ */

/* cloche-fs reads it again; errors must come before there is a box. */
static int check_configuration(struct mount_option *row, struct cloche_err *e)
{
        const unsigned writing = 1u << RULES_CREATE | 1u << RULES_MODIFY | 1u << RULES_DELETE;
        struct settings settings = {0};
        int r = settings_load(row->configure, &settings, e);

        row->is_written = r == 0 && (rules_any(settings.rules) & writing) != 0;
        settings_done(&settings);
        return r < 0 ? err_wrap(e, "mount") : 0;
}

static json_t *configuration(const json_t *mount, const json_t *dir, const struct mount_option *row)
{
        static const char *const passed[] = {"permissions", "loading", "onPermissionDenied"};
        json_t *links = json_object_get(member_of(mount, dir, "security"), "followSymlinks");
        json_t *configure = json_pack("{s:s, s:s, s:i, s:i}", "source", row->source, "target", row->target, "uid", GUEST_ID, "gid", GUEST_ID);

        for (size_t i = 0; i < COUNT(passed); i++)
                if (member_of(mount, dir, passed[i]))
                        json_object_set(configure, passed[i], member_of(mount, dir, passed[i]));
        if (links)
                json_object_set(configure, "followSymlinks", links);
        return configure;
}

static int take_rows(const struct mount_roots *roots, const json_t *mount, struct mount_options *ret, struct cloche_err *e)
{
        const char *target;
        json_t *dir;
        int r = 0;

        json_object_foreach(json_object_get(mount, "dirs"), target, dir) {
                struct mount_option *row = &ret->rows[ret->count];

                if (ret->count == KEEPER_MOUNTS_MAX)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.dirs: at most %d directories are mounted at once", KEEPER_MOUNTS_MAX);
                ret->count++;
                r = check_dir(dir, e);
                if (r == 0)
                        r = take_place(roots, target, dir, row, e);
                if (r < 0)
                        return r;
                row->permissions = json_incref(member_of(mount, dir, "permissions"));
                row->configure = configuration(mount, dir, row);
                if (!row->configure)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "mount.dirs: '%.60s' is no text", target);
                r = check_configuration(row, e);
                if (r < 0)
                        return r;
        }
        return ret->count > 0 ? 0 : refuse(e, "dirs", "an object of at least one path of the box to a path of the host");
}

int mount_options_load(const struct mount_roots *roots, const json_t *mount, struct mount_options *ret, struct cloche_err *e)
{
        static const char *const members[] = {"dirs", "permissions", "loading", "sync", "security", "onPermissionDenied"};
        static const char *const sync_members[] = {"mode", "onError", "conflict"};
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
                r = read_name(sync, "mode", sync_mode, "sync.mode", "batch or manual", &mode, e);
        if (r == 0)
                r = read_name(sync, "onError", mount_on_error, "sync.onError", "rollback, continue or abort", &ret->on_error, e);
        if (r == 0)
                r = read_name(sync, "conflict", mount_conflict, "sync.conflict", "refuse, keepBoth or overwrite", &ret->conflict, e);
        if (r < 0)
                return r;
        ret->is_manual = strcmp(mode, "manual") == 0;
        return take_rows(roots, mount, ret, e);
}

void mount_options_done(struct mount_options *options)
{
        for (size_t i = 0; i < options->count; i++) {
                free(options->rows[i].source);
                json_decref(options->rows[i].permissions);
                json_decref(options->rows[i].configure);
        }
        *options = (struct mount_options){0};
}
