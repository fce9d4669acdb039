/* What the guest changed, worked out from the tree as it is now.
 *
 * The list can be applied in two passes. What is deleted comes first, deepest first, by the paths the host knows; then the rest, parents
 * before what is in them, by the paths it will have. First pass: what leaves its place, that is each `deleted` path and each `from`
 * of what is renamed, merged in descending order of bytes, so that what is in a directory goes before it; what is renamed is
 * set aside, for two may have traded names. Second pass: the rest in the list's order.
 *
 * The origin of a row is what the host had at its path (of what is renamed: at `from`) when the guest first changed it; none: nothing
 * was there, or a row before says so. What is renamed and modified has two rows, of one origin; the second has the contents. */
#ifndef CLOCHE_FS_CHANGE_H
#define CLOCHE_FS_CHANGE_H

#include "mount.h"

enum change_type { CHANGE_DELETED, CHANGE_CREATED, CHANGE_RENAMED, CHANGE_MODIFIED };

struct change {
        enum change_type type;
        mode_t kind, permissions;
        uint64_t size, content; /* content: the number of its file in upper, 0: the guest wrote none */
        int64_t mtime_ns;
        char *path;
        char *from, *link, *target; /* of a rename; another name of the same file; of a symbolic link. NULL otherwise */
        bool is_virtual;
        bool over; /* a rename that takes the place of what the host has there */
        bool has_origin, has_over_origin;
        struct lower_identity origin, over_origin;
};

struct changes {
        struct change *rows;
        size_t count, room;
        size_t path_bytes;
};

/* As of now; the rows are copies. -CLOCHE_E_TOO_LARGE when the paths are more than is held at once. */
int changes_collect(struct mount *mount, struct changes *ret, struct cloche_err *e);
void changes_done(struct changes *changes);

/* Rows from index on: limit at most, and no more than one message holds, but one at least. *ret_end: the first that is not among
 * them. NULL with no memory. */
json_t *changes_to_json(const struct changes *changes, size_t from, size_t limit, size_t *ret_end);
json_t *change_identity_json(const struct lower_identity *identity);

#endif
