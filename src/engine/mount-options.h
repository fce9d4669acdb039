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
        char path[KEEPER_PATH_MAX];     /* of a file the directory it is in */
        char *file;                     /* its name there; NULL: the mount is a directory */
        int is_written; /* a rule permits to create, modify or delete */
        json_t *permissions;
        json_t *configure; /* params for cloche-fs */
};

struct mount_options {
        struct mount_option rows[KEEPER_MOUNTS_MAX];
        size_t count;
        int is_manual;              /* nothing is written to the host before it is asked for */
        const char *on_error, *conflict, *links; /* names of the contract, static */
        int abort_skips; /* allowAbort was false: beforeSync's abort leaves out its change alone */
};

/* Beneath target, with *ret_below what is beneath it, or, of a file, target itself. The mount that lies deepest among those for which it is so: NULL: none. */
const struct mount_option *mount_options_find(const struct mount_options *options, const char *path, const char **ret_below);

/* {dirs, permissions, loading, sync {mode, onError, conflict, links, allowAbort}, security {followSymlinks}, onPermissionDenied}. A directory is a path of the host,
 * or {path, kind: "directory" or "file", permissions, loading, security, onPermissionDenied}: what it says takes the place of what the whole says.
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
