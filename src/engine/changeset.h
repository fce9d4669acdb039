/* What a run did to mounted directories: the lists of cloche-fs and the contents, on their way to a sync, or kept for one. */
#ifndef CLOCHE_ENGINE_CHANGESET_H
#define CLOCHE_ENGINE_CHANGESET_H

#include "mount.h"

struct cloche_changeset {
        struct changeset_row {
                char *target, *source;
                char *file;      /* its only name, when it is a mount of one file, which target and source are; else NULL */
                uint32_t root;
                char *path;      /* beneath the root */
                json_t *permissions;
                json_t *changes; /* as cloche-fs lists them (src/fs/README.md) */
                json_t *values;  /* contents by name; NULL: they are read when they are told */
                int contents_fd; /* a directory of numbered files; one file, in which a number is where contents begin, plus one; or -EBADF: nobody wrote anything */
        } rows[KEEPER_MOUNTS_MAX];
        size_t count;
        const char *on_error, *conflict, *links; /* static */
        int abort_skips;                 /* as of struct mount_options */
};

/* What was collected goes over. */
int changeset_take(struct mounts *mounts, struct cloche_changeset **ret, struct cloche_err *e);

/* Changes in the contract's form, into lists created, modified and deleted; contents unless omitted, *contents_left bytes of them at
 * most. 0 or -CLOCHE_E_RESOURCE. */
int changeset_describe(const struct cloche_changeset *set, int omit_contents, uint64_t *contents_left, json_t *created, json_t *modified,
                       json_t *deleted);
/* Those that are for the host: not the virtual ones. */
size_t changeset_count(const struct cloche_changeset *set);
/* Without those at these paths of the box. */
void changeset_forget(struct cloche_changeset *set, const json_t *paths);
/* What is left of it, where it was saved. */
int changeset_save_again(const struct cloche_changeset *set, int dir_fd, struct cloche_err *e);
/* What the guest wrote, O_RDONLY; -1: it wrote nothing, or it cannot be read. */
int changeset_open_contents(const struct changeset_row *row, const json_t *change);
/* One change so. */
json_t *changeset_describe_one(const struct changeset_row *row, const json_t *change);

/* sync.c: finish or undo what a killed sync has begun in the directories of opt->changes, whose own changes are not looked
 * at. The result has it as "recovered": [{state: none, finished, undone or busy, paths}]. */
int sync_recover(cloche_engine *engine, const struct cloche_sync_options *opt, cloche_sync **ret, struct cloche_err *e);
/* sync.c: ends a question that nobody could answer: the whole sync is aborted, also where the mount permits the caller no abort. */
void sync_unanswered(cloche_sync_question *question, const char *reason);
/* sync.c: the object that cloche_sync_result is the text of; a new reference, not to be changed. */
int sync_result(const cloche_sync *sync, json_t **ret, struct cloche_err *e);

#endif
