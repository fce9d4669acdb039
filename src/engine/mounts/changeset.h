/* Changes that a run made in mounted directories: the lists of cloche-fs and the contents, on their
 * way to a sync or saved for a later one. */
#ifndef CLOCHE_ENGINE_MOUNTS_CHANGESET_H
#define CLOCHE_ENGINE_MOUNTS_CHANGESET_H

#include "mount.h"

struct cloche_sync_options;

struct cloche_changeset {
        struct changeset_row {
                char *target, *source;
                char *file; /* name of a mounted file, which target and source are; or NULL */
                uint32_t root;
                char *path; /* below the root */
                json_t *permissions;
                json_t *changes; /* as cloche-fs lists them (src/helpers/fs/README.md) */
                json_t *values;  /* contents by name; NULL: they are in contents_fd */
                int contents_fd; /* directory of numbered files, or one file (name: offset + 1); or -EBADF */
        } rows[KEEPER_MOUNTS_MAX];
        size_t count;
        const char *on_error, *conflict, *links; /* static */
        int abort_skips;                         /* as in struct mount_options */
};

/* Move the collected changes out of mounts. */
int changeset_take(struct mounts *mounts, struct cloche_changeset **ret, struct cloche_err *e);

/* Append the changes in the contract's form to created, modified and deleted. Includes contents
 * unless omitted, at most *contents_left bytes. Returns 0 or -CLOCHE_E_RESOURCE. */
int changeset_describe(const struct cloche_changeset *set, int omit_contents, uint64_t *contents_left, json_t *created,
                       json_t *modified, json_t *deleted);
/* Count the changes that are for the host, without virtual files. */
size_t changeset_count(const struct cloche_changeset *set);
/* Remove the changes at these paths of the box. */
void changeset_forget(struct cloche_changeset *set, const json_t *paths);
/* Save the remaining changes over the list saved before. */
int changeset_save_again(const struct cloche_changeset *set, int dir_fd, struct cloche_err *e);
/* Open the contents that the guest wrote, O_RDONLY; -1: there are none, or they cannot be read. */
int changeset_open_contents(const struct changeset_row *row, const json_t *change);
/* Describe one change in the same form. */
json_t *changeset_describe_one(const struct changeset_row *row, const json_t *change);

/* sync.c: finish or undo the work of killed syncs in the directories of opt->changes; the changes
 * themselves are ignored. The result reports it as "recovered": [{state: none, finished, undone or
 * busy, paths}]. */
int sync_recover(cloche_engine *engine, const struct cloche_sync_options *opt, cloche_sync **ret, struct cloche_err *e);
/* sync.c: abort the whole sync, because its question could not reach the caller. This works also
 * where the mount permits the caller no abort. */
void sync_unanswered(cloche_sync_question *question, const char *reason);
/* sync.c: the object whose text cloche_sync_result returns; a new reference, read-only. */
int sync_result(const cloche_sync *sync, json_t **ret, struct cloche_err *e);

#endif
