/* The mounts of one run: a cloche-fs each, started by the keeper, spoken to over its control socket (src/fs/README.md).
 *
 *   mounts_new ── box made ──▶ mounts_serve ── configured ── guest runs ── quiet ──▶ mounts_collect ──▶ its changes
 *
 * All of it happens on the engine's loop; what the guest asks waits in the kernel until its server is there. */
#ifndef CLOCHE_ENGINE_MOUNT_H
#define CLOCHE_ENGINE_MOUNT_H

#include "box.h"
#include "channel.h"
#include "mount-options.h"

struct cloche_engine;
struct mounts;

struct mount {
        struct mounts *all;
        const struct mount_option *option;
        struct channel channel;
        json_t *changes;  /* as cloche-fs lists them, once collected */
        uint64_t changes_bytes; /* as they came, in pages */
        json_t *values;   /* contents that came with them, by name; NULL: none were asked for */
        uint64_t values_max; /* bytes that the next page may bring of them */
        json_t *denials, *warnings;
        char *notice;     /* what its start has to tell, for the result; or NULL */
        cloche_sync *recovery; /* of what a killed sync left in the directory, before it is served; or NULL */
        cloche_changeset *recovered; /* what that is about */
        int contents_fd;  /* the directory with what the guest wrote, once collected */
        int is_asking;    /* the keeper was asked for the server */
        /* While a file is placed in it. */
        void (*on_placed)(void *data, const struct cloche_err *e);
        void *place_data;
        /* Until its configuration was sent, a file that is to be placed waits. */
        int is_configuring, place_fd;
        json_t *place;
        int is_configured;
        unsigned waiting; /* collecting: answers to come */
};

/* Counted: a seat that is still being made may be left behind by its run. */
struct mounts {
        unsigned refs;
        struct cloche_engine *engine;
        struct mount_options options;
        struct mount rows[KEEPER_MOUNTS_MAX];
        int caller_fd; /* whose rights count, as of struct cloche_run_options; owned, or -EBADF */
        struct cloche_err error; /* the first thing that went wrong, code 0: none */
        uint64_t contents_left;  /* bytes that may come with the changes still */
        uv_timer_t *timer;       /* while a file is placed, and while collecting */
        /* Once there is a run. */
        void *data;
        void (*on_denied)(void *data, const struct mount *mount, const json_t *denial);
        void (*on_failed)(void *data, const struct cloche_err *e);
        void (*on_collected)(void *data);
};

/* options are taken over, also on failure. caller_fd: borrowed, or negative. */
int mounts_new(struct cloche_engine *engine, struct mount_options *options, int caller_fd, struct mounts **ret, struct cloche_err *e);
struct mounts *mounts_ref(struct mounts *mounts);
void mounts_unref(struct mounts *mounts); /* accepts NULL */
/* Their places, for the keeper. */
void mounts_describe(const struct mounts *mounts, struct keeper_box_spec *spec);
/* The box is made: have them served. Failures come later, as error and on_failed. */
int mounts_serve(struct mounts *mounts, const struct box *box, struct cloche_err *e);

/* As mount_options_find(). */
struct mount *mounts_find(struct mounts *mounts, const char *path, const char **ret_below);
/* Does one lie in another, or is one a file? Then PID 1 answers only once all stand (jail/root-inner.c). */
int mounts_are_awaited(const struct mounts *mounts);
/* Put a virtual file there, before the guest runs, one at a time. file: its contents, or a link's target; borrowed. done is called later, once. */
CLOCHE_MUST_CHECK int mount_place(struct mount *mount, const char *below, int file_fd, uint32_t mode, void (*done)(void *data, const struct cloche_err *e),
                                  void *data, struct cloche_err *e);
/* done with this data is not called any more. */
void mounts_forget_place(struct mounts *mounts, const void *data);

/* Fetch changes, denials and contents; on_collected follows, perhaps from here. With an error set what could be had is there.
 * contents_max: bytes of contents that come with the changes, and can be told without opening a file of the box. */
void mounts_collect(struct mounts *mounts, uint64_t contents_max);
/* No more callbacks; the servers end. */
void mounts_close(struct mounts *mounts);

#endif
