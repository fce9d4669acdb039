/* Host directories that a run may see: the `mount` object of the executor contract, checked before
 * there is a box. */
#ifndef CLOCHE_ENGINE_MOUNTS_MOUNT_OPTIONS_H
#define CLOCHE_ENGINE_MOUNTS_MOUNT_OPTIONS_H

#include "proto/keeper.h"

#include <cloche/error.h>
#include <jansson.h>

/* Directories that may be mounted with all below them. The keeper knows them by number. */
struct mount_roots {
        char **paths; /* absolute */
        size_t count;
        char **arguments; /* likewise, for the keeper's command line */
};

/* Static names of the contract. */
struct sync_policies {
        const char *on_error, *conflict, *links;
};

struct mount_option {
        char target[KEEPER_TARGET_MAX]; /* in the box */
        char *source;                   /* on the host, for errors and results */
        uint32_t root;                  /* index in struct mount_roots; path is below it */
        char path[KEEPER_PATH_MAX];     /* of a file: its directory */
        char *file;                     /* name of a file there; NULL: the mount is a directory */
        int is_written;                 /* a rule permits create, modify or delete */
        json_t *permissions;
        json_t *configure; /* params for cloche-fs */
};

struct mount_options {
        struct mount_option rows[KEEPER_MOUNTS_MAX];
        size_t count;
        int is_manual; /* writes to the host only on request */
        struct sync_policies sync;
        int abort_skips; /* allowAbort was false: an abort in beforeSync only skips its change */
};

/* Find the deepest mount that holds path, which is below its target or, for a mounted file, the
 * target itself. Sets *ret_below to the rest of path; NULL: no mount does. */
const struct mount_option *mount_options_find(const struct mount_options *options, const char *path,
                                              const char **ret_below);

/* For mounts of a daemon's callers. -CLOCHE_E_FORBIDDEN: its operator permits none. */
int mount_roots_check(const struct mount_roots *roots, struct cloche_err *e);

/* {dirs, permissions, loading, sync {mode, onError, conflict, links, allowAbort}, security
 * {followSymlinks}, onPermissionDenied}. A directory is a path of the host, or {path, kind:
 * "directory" or "file", permissions, loading, security, onPermissionDenied}, which override the
 * members of the whole. -CLOCHE_E_INVALID_ARGUMENT names the member. Call mount_options_done() on
 * ret, also on failure. */
int mount_options_load(const struct mount_roots *roots, const json_t *mount, struct mount_options *ret,
                       struct cloche_err *e);
void mount_options_done(struct mount_options *options);

/* Return the static name if it is a valid action after a failure, for a file that the host changed
 * meanwhile, or for links out of their directory; the default for NULL; else NULL. */
const char *mount_on_error(const char *name);
const char *mount_conflict(const char *name);
const char *mount_links(const char *name);

/* Read them from {onError, conflict, links}; those that are absent have their defaults. where:
 * of the object, for messages. */
int sync_policies_read(const json_t *object, const char *where, struct sync_policies *ret, struct cloche_err *e);

/* True if target is at or below /workspace, /tmp or /home/cloche, where a box may be written to.
 * Boxes of templates can have mounts only there. */
int mount_is_below_writable(const char *target);

#endif
