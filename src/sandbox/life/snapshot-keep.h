/* Writing a snapshot to the disk. */
#ifndef CLOCHE_SANDBOX_LIFE_SNAPSHOT_KEEP_H
#define CLOCHE_SANDBOX_LIFE_SNAPSHOT_KEEP_H

#include "snapshot.h"

#define SNAPSHOTS ".snapshots"
#define SNAPSHOT_DEFINITION "snapshot.json"

/* Keep the archive that s has in the state directory as the files of the snapshot. done is
 * called later, unless the snapshot was freed before. */
CLOCHE_MUST_CHECK int snapshot_keep(struct snapshot *snapshot, const struct sandbox *s,
                                    void (*done)(struct snapshot *snapshot, const struct cloche_err *e),
                                    struct cloche_err *e);
/* No callback. */
void snapshot_keep_detach(struct snapshot *snapshot);
/* Remove the directory NAME, or with is_new the unfinished one. */
void snapshot_remove(int list_fd, const char *name, int is_new);

#endif
