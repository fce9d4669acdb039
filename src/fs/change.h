/* What the guest changed, worked out from the tree as it is now.
 *
 * The list can be applied in two passes. What is deleted comes first, deepest first, by the paths the host knows; then the rest, parents
 * before what is in them, by the paths it will have. First pass: what leaves its place, that is each `deleted` path and each `from`
 * of what is renamed, merged in descending order of bytes, so that what is in a directory goes before it; what is renamed is
 * set aside, for two may have traded names. Second pass: the rest in the list's order. */
#ifndef CLOCHE_FS_CHANGE_H
#define CLOCHE_FS_CHANGE_H

#include "mount.h"

enum change_type { CHANGE_DELETED, CHANGE_CREATED, CHANGE_RENAMED, CHANGE_MODIFIED };

struct change {
        enum change_type type;
        char *path;
        char *from, *link; /* of a rename; another name of the same file. NULL otherwise */
        const struct node *node;
        bool is_virtual;
        bool over; /* a rename or creation that takes the place of what the host has there */
};

struct changes {
        struct change *rows;
        size_t count, room;
        size_t path_bytes;
};

/* -CLOCHE_E_TOO_LARGE when the paths are more than a message holds. The nodes are borrowed: until the next request. */
int changes_collect(struct mount *mount, struct changes *ret, struct cloche_err *e);
void changes_done(struct changes *changes);

/* NULL with no memory. */
json_t *changes_to_json(const struct changes *changes);
json_t *change_identity_json(const struct lower_identity *identity);

#endif
