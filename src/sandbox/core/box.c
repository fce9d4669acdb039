/* The boxes of sandboxes, made by the keeper. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "box.h"
#include "sandboxes.h"

#include "base/err.h"
#include "engine/mounts/mount.h"
#include "sandbox/environment/volumes.h"

#include <stdlib.h>
#include <string.h>

static int make(const struct sandboxes *all, const struct image *image, const struct cloche_limits *limits,
                uint32_t beside, int has_writable_root, int has_root, const struct sandbox_identity *identity,
                const struct mounts *mounts, const struct volume_uses *volumes, keeper_done done, void *data,
                struct cloche_err *e)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        int is_own = beside == KEEPER_NO_BOX, r;

        if (!spec)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a sandbox");
        spec->limits = limits_of_box(limits);
        spec->is_sandbox = (uint32_t)is_own;
        spec->has_writable_root = (uint32_t)has_writable_root;
        spec->has_root = (uint32_t)has_root;
        if (identity) {
                strcpy(spec->host_name, identity->host_name);
                strcpy(spec->boot_id, identity->boot_id);
        }
        if (mounts)
                mounts_describe(mounts, spec);
        if (volumes)
                sandbox_volumes_describe(volumes, spec);
        r = engine_box_spec(all->engine, image, NULL, spec, e);
        if (!is_own) {
                spec->shared_with = beside;
                spec->image[0] = '\0'; /* it uses that of the other box, and its user */
                spec->user = (struct jail_user){0};
        } else if (r == 0) {
                r = engine_check_guards(all->engine, e);
        }
        if (r == 0)
                r = keeper_box_make_async(all->engine->keeper, spec, done, data, e);
        free(spec);
        return r;
}

static int drop(const struct sandboxes *all, uint32_t box, keeper_done done, void *data)
{
        return keeper_box_drop_async(all->engine->keeper, box, done, data, NULL);
}

static int limit(const struct sandboxes *all, uint32_t box, const struct keeper_box_limits *limits, keeper_done done,
                 void *data, struct cloche_err *e)
{
        return keeper_box_limit_async(all->engine->keeper, box, limits, done, data, e);
}

static int freeze(const struct sandboxes *all, uint32_t box, int is_frozen, keeper_done done, void *data,
                  struct cloche_err *e)
{
        return keeper_box_freeze_async(all->engine->keeper, box, is_frozen, done, data, e);
}

static int read_usage(const struct sandboxes *all, uint32_t box, struct keeper_usage *ret)
{
        return engine_read_usage(all->engine, box, ret);
}

static void read_present(const struct sandboxes *all, uint32_t box, struct cgroup_present *ret)
{
        engine_read_present(all->engine, box, ret);
}

static int request_usage(const struct sandboxes *all, uint32_t box, keeper_done done, void *data)
{
        return keeper_box_usage_async(all->engine->keeper, box, done, data, NULL);
}

static unsigned detach(const struct sandboxes *all, const void *data)
{
        return keeper_detach(all->engine->keeper, data);
}

static int volume(const struct sandboxes *all, const struct keeper_volume_spec *spec, keeper_done done, void *data,
                  struct cloche_err *e)
{
        return keeper_volume_async(all->engine->keeper, spec, done, data, e);
}

const struct sandbox_boxes sandbox_boxes_of_keeper = {make,         drop,          limit,  freeze, read_usage,
                                                      read_present, request_usage, detach, volume};
