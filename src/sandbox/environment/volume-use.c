/* The volumes of one sandbox: checked when it is made, opened before its box is, closed
 * with it. The keeper mounts them (keeper/volume.c). So too the scratch volume for a
 * writable root, which is new at each start. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "volumes.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

/* -- the options ------------------------------------------------------------------------------------------------ */

static int check_members(const json_t *row, struct cloche_err *e)
{
        static const char *const names[] = {"name", "path", "readOnly"};
        const char *key;
        json_t *value;

        json_object_foreach ((json_t *)row, key, value) {
                size_t i = 0;

                while (i < sizeof(names) / sizeof(names[0]) && strcmp(names[i], key) != 0)
                        i++;
                if (i == sizeof(names) / sizeof(names[0]))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "volumes: an entry has no member \"%.60s\"; expected name, path, readOnly", key);
        }
        return 0;
}

static int check_row(const struct sandbox_request *request, const json_t *row, struct cloche_err *e)
{
        const json_t *path = json_object_get(row, "path"), *read_only = json_object_get(row, "readOnly");
        const char *name = json_string_value(json_object_get(row, "name")), *text = json_string_value(path);
        const struct sandbox_volume *volume;

        if (!name || !text || strlen(text) != json_string_length(path))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "volumes: an entry must be an object of name, path and perhaps readOnly");
        if (check_members(row, e) < 0)
                return -(int)e->code;
        if (text[0] != '/' || strlen(text) >= KEEPER_TARGET_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "volumes: '%.100s' must be an absolute path of the sandbox, of less than %d bytes", text,
                               KEEPER_TARGET_MAX);
        if (read_only && !json_is_boolean(read_only))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "volumes: readOnly must be true or false");
        volume = sandbox_volume_find(request->all, request->principal, name);
        return volume && volume->state == VOLUME_READY
                       ? 0
                       : err_set(e, CLOCHE_E_NOT_FOUND,
                                 "there is no volume \"%.63s\" (volume.list lists them): make it by volume.create",
                                 name);
}

int sandbox_volumes_check(const struct sandbox_request *request, struct cloche_err *e)
{
        const json_t *volumes = json_object_get(request->params, "volumes"), *row;
        size_t count = json_object_size(json_object_get(json_object_get(request->params, "mount"), "dirs")), i;
        int r = 0;

        if (count + json_array_size(volumes) > KEEPER_MOUNTS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a sandbox has at most %d mounts and volumes, not %zu",
                               KEEPER_MOUNTS_MAX, count + json_array_size(volumes));
        json_array_foreach (volumes, i, row)
                if (r == 0)
                        r = check_row(request, row, e);
        return r;
}

int sandbox_volumes_name(const struct sandbox *s, const char *volume)
{
        const json_t *row;
        size_t i;

        json_array_foreach (s->volumes, i, row) {
                const char *name = json_string_value(json_object_get(row, "name"));

                if (name && strcmp(name, volume) == 0)
                        return 1;
        }
        return 0;
}

/* -- the volumes of a running sandbox --------------------------------------------------------------------------- */

static int enter(struct sandbox *s, const json_t *row, struct cloche_err *e)
{
        const char *name = json_string_value(json_object_get(row, "name")),
                   *path = json_string_value(json_object_get(row, "path"));
        struct sandbox_volume *volume = name ? sandbox_volume_find(s->all, s->principal, name) : NULL;
        int r;

        if (!volume || volume->state != VOLUME_READY || !path || strlen(path) >= KEEPER_TARGET_MAX ||
            s->volume_uses->count == KEEPER_MOUNTS_MAX)
                return err_set(e, CLOCHE_E_NOT_FOUND, "the volume \"%.63s\" of the sandbox %s is gone",
                               name ? name : "?", s->name);
        r = sandbox_volume_enter(volume, e);
        if (r < 0)
                return r;
        s->volume_uses->rows[s->volume_uses->count++] =
                (struct volume_use){volume, path, json_is_true(json_object_get(row, "readOnly"))};
        return 0;
}

int sandboxes_have_scratch(const struct sandboxes *all)
{
        return all->options.has_layers_on_disk || !keeper_memory_has_attributes(all->engine->keeper);
}

static void on_scratch(void *data, struct keeper_reply *reply)
{
        struct volume_uses *uses = data;
        struct cloche_err e = {0};

        uses->is_scratch_open = !reply->error;
        if (reply->error) {
                e = *reply->error;
                err_wrap(&e, "the writable root of the sandbox %s lies on the disk%s", uses->sandbox->name,
                         keeper_memory_has_attributes(uses->sandbox->all->engine->keeper) ? "" : " before Linux 6.6");
        }
        sandbox_on_volumes(uses->sandbox, reply->error ? &e : NULL);
}

static int open_scratch(struct sandbox *s, struct cloche_err *e)
{
        struct keeper_volume_spec spec = {.action = KEEPER_VOLUME_SCRATCH,
                                          .size_bytes = s->limits.disk_bytes,
                                          .entries = s->limits.disk_inodes};
        int r;

        if (s->limits.disk_bytes == UINT64_MAX || s->limits.disk_inodes == UINT64_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a writable root lies on the disk here, which needs the limits diskBytes and "
                               "diskInodes");
        r = sandbox_volumes_check_room(s->all, s->principal, s->limits.disk_bytes, e);
        if (r == 0 && sandbox_volume_make_up_id(spec.id) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "start the sandbox %s", s->name);
        if (r == 0)
                r = s->all->boxes->volume(s->all, &spec, on_scratch, s->volume_uses, e);
        if (r == 0)
                memcpy(s->volume_uses->scratch, spec.id, sizeof(spec.id));
        return r;
}

int sandbox_volumes_prepare(struct sandbox *s, struct cloche_err *e)
{
        int has_scratch = s->has_writable_root && sandboxes_have_scratch(s->all), r = 0;
        const json_t *row;
        size_t i;

        if (!s->volumes && !has_scratch)
                return 0;
        s->volume_uses = calloc(1, sizeof(*s->volume_uses));
        if (!s->volume_uses)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the sandbox %s", s->name);
        s->volume_uses->sandbox = s;
        if (has_scratch)
                r = open_scratch(s, e);
        json_array_foreach (s->volumes, i, row)
                if (r == 0)
                        r = enter(s, row, e);
        return r;
}

int sandbox_volumes_are_open(const struct sandbox *s)
{
        if (s->volume_uses && s->volume_uses->scratch[0] && !s->volume_uses->is_scratch_open)
                return 0;
        for (size_t i = 0; s->volume_uses && i < s->volume_uses->count; i++)
                if (!s->volume_uses->rows[i].volume->is_open)
                        return 0;
        return 1;
}

void sandbox_volumes_describe(const struct volume_uses *volumes, struct keeper_box_spec *spec)
{
        memcpy(spec->scratch, volumes->scratch, sizeof(spec->scratch));
        for (size_t i = 0; i < volumes->count && spec->mount_count < KEEPER_MOUNTS_MAX; i++) {
                const struct volume_use *use = &volumes->rows[i];

                spec->volume_mounts |= 1u << spec->mount_count;
                if (use->is_read_only)
                        spec->read_only |= 1u << spec->mount_count;
                strcpy(spec->mounts[spec->mount_count], use->path);
                memcpy(spec->volumes[spec->mount_count++], use->volume->id, sizeof(use->volume->id));
        }
}

/* Also one whose opening is under way. A keeper that is gone has closed it. */
static void close_scratch(struct sandbox *s)
{
        struct keeper_volume_spec spec = {.action = KEEPER_VOLUME_CLOSE};

        if (!s->volume_uses || !s->volume_uses->scratch[0])
                return;
        (void)s->all->boxes->detach(s->all, s->volume_uses);
        memcpy(spec.id, s->volume_uses->scratch, sizeof(spec.id));
        (void)s->all->boxes->volume(s->all, &spec, NULL, NULL, NULL);
}

void sandbox_volumes_close(struct sandbox *s)
{
        close_scratch(s);
        for (size_t i = 0; s->volume_uses && i < s->volume_uses->count; i++)
                sandbox_volume_leave(s->volume_uses->rows[i].volume);
        free(s->volume_uses);
        s->volume_uses = NULL;
        s->waits_for_volumes = 0;
}
