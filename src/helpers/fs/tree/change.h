/* The guest's changes, computed from the present tree.
 *
 * The list is applied in two passes. The first pass removes entries from their places, under the
 * paths that the host has: each `deleted` path and each `from` of a rename, merged in descending
 * order of bytes, so that a directory's contents precede it. Renamed entries are set aside, because
 * two may have traded names. The second pass applies the remaining rows in the list's order,
 * parents before their contents, under the new paths.
 *
 * The origin of a row is the host's entry at its path (of a rename: at `from`) when the guest first
 * changed it. None: the path was free, or an earlier row has the origin. A renamed and modified
 * entry has two rows with one origin; the second has the contents. */
#ifndef CLOCHE_HELPERS_FS_TREE_CHANGE_H
#define CLOCHE_HELPERS_FS_TREE_CHANGE_H

#include "helpers/fs/mount.h"

enum change_type { CHANGE_DELETED, CHANGE_CREATED, CHANGE_RENAMED, CHANGE_MODIFIED };

struct change {
        enum change_type type;
        mode_t kind, permissions;
        uint64_t size, content; /* content: the number of its file in upper, 0: not written by the guest */
        int64_t mtime_ns;
        char *path;
        char *from, *link, *target; /* of a rename; another name of the file; of a symbolic link. NULL otherwise */
        bool is_virtual;
        bool over; /* a rename that replaces an entry of the host */
        bool has_origin, has_over_origin;
        struct lower_identity origin, over_origin;
};

struct changes {
        struct change *rows;
        size_t count, room;
        size_t path_bytes;
};

/* Collect the present changes; the rows are copies. -CLOCHE_E_TOO_LARGE if the paths exceed the
 * limit held in memory. */
int changes_collect(struct fs_mount *mount, struct changes *ret, struct cloche_err *e);
void changes_done(struct changes *changes);

/* Encode rows from index on: at most limit, and at most one message, but at least one row.
 * *ret_end: the index after the last. NULL when out of memory. */
json_t *changes_to_json(const struct changes *changes, size_t from, size_t limit, size_t *ret_end);

#endif
