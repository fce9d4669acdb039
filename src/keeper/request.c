/* Every field of a request is checked here, before use. Runs in: the keeper; pure. */
#include "request.h"

#include "base/err.h"
#include "base/path.h"

#include <stddef.h>
#include <string.h>

/* Bounds of the values for the kernel; the engine's own ranges (spec/limits.def) are narrower or
 * equal. */
static const struct {
        const char *name;
        size_t offset;
        uint64_t min, max;
} limit_rows[] = {
#define OF_BOX(field, min, max) {#field, offsetof(struct keeper_box_limits, field), min, max},
#define OF_RUN(field, min, max)
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, scope, ...) OF_##scope(field, min, max)
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};

static int check_text(const char *text, const char *name, struct cloche_err *e)
{
        return memchr(text, '\0', KEEPER_PATH_MAX) ? 0 : err_set(e, CLOCHE_E_PROTOCOL, "%s is not terminated", name);
}

static int check_image(const char *image, struct cloche_err *e)
{
        int r = check_text(image, "image", e);

        if (r == 0 && image[0] && image[0] != '/' && !keeper_is_tree(image))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "image must be an absolute path or %s with %d digits, not '%.100s'", KEEPER_TREE_PREFIX,
                               KEEPER_TREE_DIGITS, image);
        return r;
}

static int check_path(const char *path, const char *name, struct cloche_err *e)
{
        int r = check_text(path, name, e);

        if (r < 0)
                return r;
        if (path[0] && path[0] != '/')
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s must be an absolute path, not '%.100s'", name, path);
        return 0;
}

static int check_limits(const struct keeper_box_limits *limits, struct cloche_err *e)
{
        for (size_t i = 0; i < sizeof(limit_rows) / sizeof(limit_rows[0]); i++) {
                uint64_t value;

                memcpy(&value, (const char *)limits + limit_rows[i].offset, sizeof(value));
                if (value != UINT64_MAX && (value < limit_rows[i].min || value > limit_rows[i].max))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s is %llu, expected %llu to %llu or none",
                                       limit_rows[i].name, (unsigned long long)value,
                                       (unsigned long long)limit_rows[i].min, (unsigned long long)limit_rows[i].max);
        }
        return 0;
}

/* Check the limits of a live box that can be changed; 0 keeps a limit. */
static int check_new_limits(const struct keeper_box_limits *limits, struct cloche_err *e)
{
        struct keeper_box_limits changed;

        memset(&changed, 0xff, sizeof(changed));
        changed.memory_bytes = limits->memory_bytes ? limits->memory_bytes : UINT64_MAX;
        changed.pids = limits->pids ? limits->pids : UINT64_MAX;
        changed.cpu_percent = limits->cpu_percent ? limits->cpu_percent : UINT64_MAX;
        return check_limits(&changed, e);
}

/* True for an absolute path without empty parts, "." and "..": the kernel resolves it as
 * written. */
static int is_plain(const char *path)
{
        if (path[0] != '/')
                return 0;
        while (*path) {
                size_t size = strcspn(++path, "/");

                if (size == 0 || (size == 1 && path[0] == '.') || (size == 2 && path[0] == '.' && path[1] == '.'))
                        return 0;
                path += size;
        }
        return 1;
}

static int is_writable_place(const char *path)
{
        static const char *const places[] = {"/workspace", "/tmp", "/home/cloche"};

        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
                if (path_is_at_or_below(path, places[i]))
                        return 1;
        return 0;
}

/* A place in a volume would be a directory that guests can move; a volume's place in a mount,
 * one that its server makes. */
static int check_apart(const struct keeper_box_spec *spec, uint32_t outer, uint32_t inner, struct cloche_err *e)
{
        if ((spec->volume_mounts >> outer & 1 || spec->volume_mounts >> inner & 1) &&
            path_is_at_or_below(spec->mounts[inner], spec->mounts[outer]))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the mount '%.60s' cannot lie in '%.60s', as one of them is a volume: give it a place "
                               "beside it",
                               spec->mounts[inner], spec->mounts[outer]);
        return 0;
}

static int check_beside(const struct keeper_box_spec *spec, uint32_t outer, uint32_t inner, struct cloche_err *e)
{
        if (strcmp(spec->mounts[outer], spec->mounts[inner]) == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "two mounts have the place '%.100s'", spec->mounts[outer]);
        if (spec->file_mounts & 1u << outer && path_is_at_or_below(spec->mounts[inner], spec->mounts[outer]))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the mount '%.60s' cannot lie in '%.60s', which is a file: give it a place beside it",
                               spec->mounts[inner], spec->mounts[outer]);
        return check_apart(spec, outer, inner, e);
}

/* The roots of boxes beneath a template are copies of one: only writable places in them can get new
 * mount points. */
static int check_mount(const struct keeper_box_spec *spec, uint32_t mount, struct cloche_err *e)
{
        const char *target = spec->mounts[mount];
        int r = 0;

        if (!memchr(target, '\0', KEEPER_TARGET_MAX))
                return err_set(e, CLOCHE_E_PROTOCOL, "the place of a mount is not terminated");
        if (!is_plain(target))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the place of a mount must be an absolute path without '.' and '..', not '%.100s'",
                               target);
        if (spec->parent != KEEPER_NO_BOX && !is_writable_place(target))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "'%.100s': a box of a template has mounts at or below /workspace, /tmp and /home/cloche "
                               "only",
                               target);
        for (uint32_t other = 0; r == 0 && other < mount; other++) {
                r = check_beside(spec, other, mount, e);
                if (r == 0)
                        r = check_beside(spec, mount, other, e);
        }
        return r;
}

static int check_volumes(const struct keeper_box_spec *spec, struct cloche_err *e)
{
        uint32_t volumes = spec->volume_mounts;

        if (volumes >> spec->mount_count || volumes & spec->file_mounts || spec->read_only & ~volumes)
                return err_set(e, CLOCHE_E_PROTOCOL, "volume_mounts is %x, read_only %x, file_mounts %x of %u mounts",
                               volumes, spec->read_only, spec->file_mounts, spec->mount_count);
        if (volumes && !spec->is_sandbox)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "only the box of a sandbox has volumes");
        for (uint32_t i = 0; i < spec->mount_count; i++)
                if (volumes >> i & 1 && !keeper_is_volume(spec->volumes[i]))
                        return err_set(e, CLOCHE_E_PROTOCOL, "the volume of mount %u has no valid id", i);
        return 0;
}

static int check_scratch(const struct keeper_volume_spec *volume, struct cloche_err *e)
{
        if (!volume->size_bytes || volume->size_bytes > KEEPER_VOLUME_BYTES_MAX || !volume->entries ||
            volume->entries > KEEPER_SCRATCH_ENTRIES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "files on the disk need a limit: 1 to %llu bytes and 1 to %llu files",
                               (unsigned long long)KEEPER_VOLUME_BYTES_MAX,
                               (unsigned long long)KEEPER_SCRATCH_ENTRIES_MAX);
        return 0;
}

static int check_volume(const struct keeper_volume_spec *volume, struct cloche_err *e)
{
        if (volume->action >= KEEPER_VOLUME_ACTIONS || volume->reserved)
                return err_set(e, CLOCHE_E_PROTOCOL, "there is no action %u of volumes", volume->action);
        if (!keeper_is_volume(volume->id))
                return err_set(e, CLOCHE_E_PROTOCOL, "the volume has no valid id");
        if (volume->action == KEEPER_VOLUME_SCRATCH)
                return check_scratch(volume, e);
        if (volume->entries)
                return err_set(e, CLOCHE_E_PROTOCOL, "a number of entries is for scratch volumes");
        if (volume->action != KEEPER_VOLUME_MAKE)
                return volume->size_bytes ? err_set(e, CLOCHE_E_PROTOCOL, "a size is for new volumes") : 0;
        if (volume->size_bytes < KEEPER_VOLUME_BYTES_MIN || volume->size_bytes > KEEPER_VOLUME_BYTES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a volume has %llu to %llu bytes, not %llu",
                               (unsigned long long)KEEPER_VOLUME_BYTES_MIN, (unsigned long long)KEEPER_VOLUME_BYTES_MAX,
                               (unsigned long long)volume->size_bytes);
        return 0;
}

static int check_mounts(const struct keeper_box_spec *spec, struct cloche_err *e)
{
        int r = 0;

        if (spec->mount_count > KEEPER_MOUNTS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a box has at most %d mounts, not %u", KEEPER_MOUNTS_MAX,
                               spec->mount_count);
        if (spec->file_mounts >> spec->mount_count)
                return err_set(e, CLOCHE_E_PROTOCOL, "file_mounts is %x, and there are %u mounts", spec->file_mounts,
                               spec->mount_count);
        if (spec->is_template && spec->mount_count > 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a template has no mounts");
        r = check_volumes(spec, e);
        for (uint32_t i = 0; r == 0 && i < spec->mount_count; i++)
                r = check_mount(spec, i, e);
        return r;
}

static int check_service(const struct keeper_service_spec *service, struct cloche_err *e)
{
        if (service->service >= KEEPER_SERVICE_COUNT)
                return err_set(e, CLOCHE_E_PROTOCOL, "there is no service %u", service->service);
        if (!memchr(service->path, '\0', KEEPER_PATH_MAX))
                return err_set(e, CLOCHE_E_PROTOCOL, "path is not terminated");
        if (service->path[0] == '/')
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "path must be relative, not '%.100s'", service->path);
        if (service->is_written > 1)
                return err_set(e, CLOCHE_E_PROTOCOL, "is_written is %u, expected 0 or 1", service->is_written);
        if (service->service == KEEPER_SERVICE_NET &&
            (service->path[0] || service->mount || service->root || service->is_written))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a network has no directory");
        if (service->service == KEEPER_SERVICE_IMAGES && (service->path[0] || service->mount || service->root))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the image store is the one on the keeper's command line");
        return 0;
}

/* A sharing box takes everything from the other box except the limits of its programs and a
 * runtime; beneath a template it takes only some of it. */
static int check_sharing(const struct keeper_box_spec *spec, struct cloche_err *e)
{
        int is_sharing = spec->shared_with != KEEPER_NO_BOX;

        if (spec->is_sandbox && (spec->is_template || spec->parent != KEEPER_NO_BOX))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a sandbox's box is no template and stands beneath none");
        if (is_sharing && spec->is_template && spec->parent == KEEPER_NO_BOX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a template beneath none shares with no sandbox: what is forked from it may");
        if (is_sharing && (spec->is_sandbox || spec->mount_count > 0 || spec->image[0]))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a box that shares with box %u has its image, mounts and terminals", spec->shared_with);
        return 0;
}

static int check_user(const struct keeper_box_spec *spec, struct cloche_err *e)
{
        static const struct jail_user none;
        const struct jail_user *user = &spec->user;

        if (spec->parent != KEEPER_NO_BOX || spec->shared_with != KEEPER_NO_BOX)
                return memcmp(user, &none, sizeof(none)) == 0
                               ? 0
                               : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a box beneath or beside another has its user");
        if (!jail_user_has_ids(user->uid, user->gid))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a box shows no user %u:%u, expected 1:0 to %u:%u",
                               user->uid, user->gid, JAIL_ID_MAX, JAIL_ID_MAX);
        if (!jail_user_is_name(user->name) || !memchr(user->home, '\0', sizeof(user->home)) ||
            !jail_user_is_home(user->home))
                return err_set(e, CLOCHE_E_PROTOCOL, "the user of a box has no valid name and home");
        return 0;
}

/* It becomes a line of files in the box. */
static int check_word(const char *word, size_t size, const char *name, struct cloche_err *e)
{
        size_t length = strnlen(word, size);

        return length < size &&
                               strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == length
                       ? 0
                       : err_set(e, CLOCHE_E_PROTOCOL, "%s of a box has other characters than letters, digits and '-'",
                                 name);
}

static int check_identity(const struct keeper_box_spec *spec, struct cloche_err *e)
{
        int r = check_word(spec->host_name, sizeof(spec->host_name), "host_name", e);

        if (r == 0)
                r = check_word(spec->boot_id, sizeof(spec->boot_id), "boot_id", e);
        if (r == 0 && !spec->is_sandbox && (spec->host_name[0] || spec->boot_id[0]))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                            "only the box of a sandbox has a name and a boot id of its own");
        return r;
}

static int check_spec(const struct keeper_box_spec *spec, struct cloche_err *e)
{
        int r;

        if (spec->is_template > 1)
                return err_set(e, CLOCHE_E_PROTOCOL, "is_template is %u", spec->is_template);
        if (spec->is_sandbox > 1)
                return err_set(e, CLOCHE_E_PROTOCOL, "is_sandbox is %u", spec->is_sandbox);
        if (spec->has_writable_root > 1)
                return err_set(e, CLOCHE_E_PROTOCOL, "has_writable_root is %u", spec->has_writable_root);
        if (spec->has_writable_root && (!spec->is_sandbox || !keeper_is_tree(spec->image)))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a writable root is that of a sandbox of an image of the store");
        if (spec->has_root > 1)
                return err_set(e, CLOCHE_E_PROTOCOL, "has_root is %u", spec->has_root);
        if (spec->has_root && !spec->has_writable_root)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "root is that of a sandbox with a writable root");
        if (spec->scratch[0] && (!spec->has_writable_root || !keeper_is_volume(spec->scratch)))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the scratch volume of a box has no valid id, or no writable root");
        r = check_image(spec->image, e);
        if (r == 0)
                r = check_path(spec->runtime_dir, "runtime_dir", e);
        if (r == 0 && spec->parent != KEEPER_NO_BOX && (spec->image[0] || spec->runtime_dir[0]))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a box beneath a template has its image and runtime");
        if (r == 0)
                r = check_sharing(spec, e);
        if (r == 0)
                r = check_user(spec, e);
        if (r == 0)
                r = check_identity(spec, e);
        if (r == 0)
                r = check_mounts(spec, e);
        return r < 0 ? r : check_limits(&spec->limits, e);
}

int keeper_request_check(const struct keeper_request *request, size_t size, struct cloche_err *e)
{
        size_t expected;

        if (size >= KEEPER_REQUEST_HEAD && request->op >= KEEPER_OP_COUNT)
                return err_set(e, CLOCHE_E_PROTOCOL, "there is no request %u", request->op);
        expected = size >= KEEPER_REQUEST_HEAD ? keeper_request_size(request->op) : KEEPER_REQUEST_HEAD;
        if (size != expected)
                return err_set(e, CLOCHE_E_PROTOCOL, "a request has %zu bytes, not %zu", size, expected);
        if (request->op == KEEPER_BOX_LIMIT)
                return check_new_limits(&request->spec.limits, e);
        if (request->op == KEEPER_SERVE)
                return check_service(&request->service, e);
        if (request->op == KEEPER_VOLUME)
                return check_volume(&request->volume, e);
        return request->op == KEEPER_BOX_MAKE ? check_spec(&request->spec, e) : 0;
}
