/* What a run may see of the host's directories: the `mount` object of the executor contract, checked before there is a box. */
#ifndef CLOCHE_ENGINE_MOUNT_OPTIONS_H
#define CLOCHE_ENGINE_MOUNT_OPTIONS_H

#include "keeper/protocol.h"

#include <cloche/cloche.h>
#include <jansson.h>

/* Directories that may be mounted with all that is beneath; the keeper knows them by their numbers. */
struct mount_roots {
        char **paths; /* absolute */
        size_t count;
        char **arguments; /* the same, as the keeper's command line has them */
};

struct mount_option {
        char target[KEEPER_TARGET_MAX]; /* in the box */
        char *source;                   /* on the host, as errors and results name it */
        uint32_t root;                  /* of struct mount_roots; path is beneath it */
        char path[KEEPER_PATH_MAX];
        int is_written; /* a rule permits to create, modify or delete */
        json_t *permissions;
        json_t *configure; /* params for cloche-fs */
};

struct mount_options {
        struct mount_option rows[KEEPER_MOUNTS_MAX];
        size_t count;
        int is_manual;              /* nothing is written to the host before it is asked for */
        const char *on_error, *conflict, *links; /* names of the contract, static */
};

/* {dirs, permissions, loading, sync {mode, onError, conflict, links}, security {followSymlinks}, onPermissionDenied}. A directory is a path of the host,
 * or {path, permissions, loading, security, onPermissionDenied}: what it says takes the place of what the whole says.
 * -CLOCHE_E_INVALID_ARGUMENT names the member. ret is done with mount_options_done(), also on failure. */
int mount_options_load(const struct mount_roots *roots, const json_t *mount, struct mount_options *ret, struct cloche_err *e);
void mount_options_done(struct mount_options *options);

/* What a sync does after a failure, with a file that the host changed meanwhile, or with links that lead out of their directory: the name if it is one, or the default for NULL;
 * else NULL. */
const char *mount_on_error(const char *name);
const char *mount_conflict(const char *name);
const char *mount_links(const char *name);

/* It lies where a box may be written to, at or below /workspace, /tmp and /home/cloche: boxes of templates reach mounts there only. */
int mount_is_below_writable(const char *target);

#endif
