/* Writing a snapshot to the disk. */
#ifndef CLOCHE_SANDBOX_LIFE_SNAPSHOT_KEEP_H
#define CLOCHE_SANDBOX_LIFE_SNAPSHOT_KEEP_H

#include "snapshot.h"

#define SNAPSHOTS ".snapshots"
#define SNAPSHOT_DEFINITION "snapshot.json"

/* The archive of a new snapshot: that of a sandbox in the state directory, or of another one. */
struct snapshot_source {
        const struct sandbox *sandbox;
        const struct snapshot *snapshot; /* if there is no sandbox */
};

/* Keep the archive as the files of the snapshot; with is_replacing it takes the place of the one
 * that has its name. done is called later, unless the snapshot was freed before. */
CLOCHE_MUST_CHECK int snapshot_keep(struct snapshot *snapshot, struct snapshot_source from, int is_replacing,
                                    void (*done)(struct snapshot *snapshot, const struct cloche_err *e),
                                    struct cloche_err *e);
/* Open the directory of a snapshot that is ready. -ENOENT: another took its place just now. */
int snapshot_open(const struct snapshot *snapshot, int list_fd);
/* No callback. */
void snapshot_keep_detach(struct snapshot *snapshot);
/* Remove the directory NAME, or with is_new the unfinished one. */
void snapshot_remove(int list_fd, const char *name, int is_new);

#endif
