/* The boxes of sandboxes, behind an interface: sandboxes run on boxes of the keeper, and in unit
 * tests on boxes that the test plays. Programs, kills, ports and the disk of a box are requests to
 * its PID 1 (engine/loop/control.h), whose socket comes with the box. */
#ifndef CLOCHE_SANDBOX_CORE_BOX_H
#define CLOCHE_SANDBOX_CORE_BOX_H

#include "engine/box/image.h"
#include "engine/box/keeper-client.h"
#include <cloche/limits.h>

struct sandboxes;
struct mounts;
struct volume_uses;

/* By which programs in a sandbox tell it from others. */
struct sandbox_identity {
        char host_name[KEEPER_HOST_NAME_SIZE]; /* as long as it exists */
        char boot_id[KEEPER_BOOT_ID_SIZE];     /* another at each start */
};

struct sandbox_boxes {
        /* Make a box of this image. beside: the box whose files it shares, or KEEPER_NO_BOX.
         * identity, mounts, volumes: of the box, or NULL. done is called later: take the box of
         * the reply with keeper_box_take. */
        int (*make)(const struct sandboxes *all, const struct image *image, const struct cloche_limits *limits,
                    uint32_t beside, int has_writable_root, int has_root, const struct sandbox_identity *identity,
                    const struct mounts *mounts, const struct volume_uses *volumes, keeper_done done, void *data,
                    struct cloche_err *e);
        /* Negative: the box has ended already. done may be NULL. */
        int (*drop)(const struct sandboxes *all, uint32_t box, keeper_done done, void *data);
        int (*limit)(const struct sandboxes *all, uint32_t box, const struct keeper_box_limits *limits,
                     keeper_done done, void *data, struct cloche_err *e);
        /* Freeze or thaw all processes of the box: the answer tells whether they are frozen. */
        int (*freeze)(const struct sandboxes *all, uint32_t box, int is_frozen, keeper_done done, void *data,
                      struct cloche_err *e);
        /* True if the usage can be read at once; else request it. */
        int (*read_usage)(const struct sandboxes *all, uint32_t box, struct keeper_usage *ret);
        /* The usage of this moment, as far as it can be read. */
        void (*read_present)(const struct sandboxes *all, uint32_t box, struct cgroup_present *ret);
        int (*request_usage)(const struct sandboxes *all, uint32_t box, keeper_done done, void *data);
        /* Drop the callbacks of requests with this data; returns their number. */
        unsigned (*detach)(const struct sandboxes *all, const void *data);
        /* Make, open, close or remove a volume. */
        int (*volume)(const struct sandboxes *all, const struct keeper_volume_spec *spec, keeper_done done, void *data,
                      struct cloche_err *e);
};

extern const struct sandbox_boxes sandbox_boxes_of_keeper;

#endif
