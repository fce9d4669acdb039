/* Snapshots: named copies of a sandbox's files and definition, which nothing changes any more. */
#ifndef CLOCHE_SANDBOX_LIFE_SNAPSHOT_H
#define CLOCHE_SANDBOX_LIFE_SNAPSHOT_H

#include "sandbox/core/sandboxes.h"

#define SNAPSHOT_DIGEST_SIZE (sizeof("sha256-") + 64) /* with its 0 */

enum snapshot_state {
        SNAPSHOT_MAKING, /* its name is taken; on the disk it has another */
        SNAPSHOT_READY,
        SNAPSHOT_STATES
};

struct snapshot {
        TAILQ_ENTRY(snapshot) link;
        struct sandboxes *all;
        char name[SANDBOX_NAME_MAX], sandbox[SANDBOX_NAME_MAX]; /* of the sandbox that it is of */
        int64_t principal;
        enum snapshot_state state;
        uint64_t created_ms; /* real time */
        uint64_t bytes;      /* of its archive */
        char digest[SNAPSHOT_DIGEST_SIZE];
        ino_t inode; /* of its directory */
        json_t *heritage, *labels;
        struct snapshot_keeping *keeping; /* while it is written to the disk */
        struct sandbox_request *request;  /* that makes it, or NULL */
};

/* Read those of a principal, and remove the leftovers of a killed daemon. dir_fd: the
 * principal's. */
void snapshots_load(struct sandboxes *all, int64_t principal, int dir_fd);
void snapshots_free(struct sandboxes *all);
unsigned snapshots_count(const struct sandboxes *all, int64_t principal);
/* The snapshot that a request to create a sandbox names; *ret NULL: none. */
CLOCHE_MUST_CHECK int snapshot_find_for(const struct sandbox_request *request, const struct snapshot **ret,
                                        struct cloche_err *e);
/* For a new sandbox: give it the definition, to which the request may add; then
 * snapshot_give the files. */
CLOCHE_MUST_CHECK int snapshot_begin(const struct snapshot *snapshot, struct sandbox *s, struct cloche_err *e);
CLOCHE_MUST_CHECK int snapshot_give(const struct snapshot *snapshot, struct sandbox *s, struct cloche_err *e);

#endif
