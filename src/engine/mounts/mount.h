/* The mounts of one run: a cloche-fs each, started by the keeper, driven over its control socket
 * (src/helpers/fs/README.md).
 *
 *   mounts_new ── box made ──▶ mounts_serve ── configured ── guest runs ── quiet ──▶ mounts_collect ──▶ its changes
 *
 * All of it happens on the engine's loop; requests of the guest wait in the kernel until its server
 * runs. */
#ifndef CLOCHE_ENGINE_MOUNTS_MOUNT_H
#define CLOCHE_ENGINE_MOUNTS_MOUNT_H

#include "engine/box/box.h"
#include "engine/loop/channel.h"
#include "mount-options.h"

#include <cloche/engine.h>

struct cloche_engine;
struct mounts;

struct mount {
        struct mounts *all;
        const struct mount_option *option;
        struct channel channel;
        json_t *changes;        /* as cloche-fs lists them, once collected */
        uint64_t changes_bytes; /* size of the pages */
        json_t *values;         /* contents that came with changes, by name; NULL: not requested */
        uint64_t values_max;    /* room for contents in the next page */
        json_t *denials, *warnings;
        char *notice;                /* warning of its start, for the result; or NULL */
        cloche_sync *recovery;       /* of a killed sync's work, before the mount is served; or NULL */
        cloche_changeset *recovered; /* the changeset of recovery */
        int contents_fd;             /* directory with the contents that the guest wrote, once collected */
        int is_asking;               /* the keeper is starting the server */
        /* While a file is being seeded. */
        void (*on_seeded)(void *data, const struct cloche_err *e);
        void *seed_data;
        /* A file to seed waits until the configuration was sent. */
        int is_configuring, seed_fd;
        json_t *seed;
        unsigned waiting;          /* collecting: answers missing */
        unsigned requested, stale; /* answers under way; the first ones are of a collection that failed */
        int is_lost;               /* its server ended before mounts_collect_again() */
        int is_served;             /* it has its configuration and answers the guest */
};

/* Reference-counted: the run may drop an instance that is still being made. */
struct mounts {
        unsigned refs;
        struct cloche_engine *engine;
        struct mount_options options;
        struct mount rows[KEEPER_MOUNTS_MAX];
        int caller_fd;           /* rights to use, as in struct cloche_run_options; owned, or -EBADF */
        struct cloche_err error; /* the first error, code 0: none */
        uint64_t contents_left;  /* room for contents with the changes */
        uv_timer_t *timer;       /* timeout of the start, of seeding and of collecting */
        uint32_t user, group;    /* that the servers show as owner */
        /* Once there is a run. */
        void *data;
        void (*on_denied)(void *data, const struct mount *mount, const json_t *denial);
        void (*on_failed)(void *data, const struct cloche_err *e);
        void (*on_collected)(void *data);
        void (*on_ready)(void *data); /* all are served */
};

/* Takes options, also on failure. caller_fd: borrowed, or negative. */
int mounts_new(struct cloche_engine *engine, struct mount_options *options, int caller_fd, struct mounts **ret,
               struct cloche_err *e);
struct mounts *mounts_ref(struct mounts *mounts);
void mounts_unref(struct mounts *mounts); /* accepts NULL */
/* Put the mount points into spec. */
void mounts_describe(const struct mounts *mounts, struct keeper_box_spec *spec);
/* Start the servers: the box is made. Later failures come as error and on_failed. */
int mounts_serve(struct mounts *mounts, struct keeper *keeper, uint32_t box, struct cloche_err *e);

/* Like mount_options_find(). */
struct mount *mounts_find(struct mounts *mounts, const char *path, const char **ret_below);
/* True if one is in another, or is a file: PID 1 then answers only after all are mounted
 * (jail/root/inner.c). */
int mounts_are_awaited(const struct mounts *mounts);
/* Put a virtual file there before the guest runs, one at a time. file_fd: its contents, or a link's
 * target; borrowed. done is called later, once. */
CLOCHE_MUST_CHECK int mount_seed(struct mount *mount, const char *below, int file_fd, uint32_t mode,
                                 void (*done)(void *data, const struct cloche_err *e), void *data,
                                 struct cloche_err *e);
/* Drop the callbacks with this data. */
void mounts_detach_seed(struct mounts *mounts, const void *data);

/* Fetch changes, denials and contents; on_collected follows, perhaps from here. If error is set
 * then, the data is incomplete. contents_max: bytes of contents that come with the changes, and can
 * be reported without opening a file of the box. */
void mounts_collect(struct mounts *mounts, uint64_t contents_max);
/* The same for mounts that stay: errors of before do not count, and servers that have ended have
 * no changes. Returns the number of the others; 0: on_collected does not follow. */
size_t mounts_collect_again(struct mounts *mounts);
/* Drop all callbacks and end the servers. */
void mounts_close(struct mounts *mounts);

#endif
