/* One member of the archive of a sandbox with a writable root (box/files/archive/pack.h), as a
 * change of its image. The guest can write any archive here. */
#ifndef CLOCHE_HELPERS_IMAGE_READ_CHANGE_H
#define CLOCHE_HELPERS_IMAGE_READ_CHANGE_H

#include "member.h"

struct changes {
        uint32_t owner, group; /* of the sandbox's files: root's in the image. 0: of one with a root of its own, whose
                                  accounts are changes too */
        int64_t time;          /* of all members; -1: their own */
};

/* -CLOCHE_E_BAD_ARCHIVE: besides the reasons of layer_member_read(), a name that begins with
 * ".wh.", for it would be a whiteout in the layer of an export. */
CLOCHE_MUST_CHECK int layer_change_read(struct archive_entry *entry, const struct changes *changes,
                                        struct layer_member *ret, struct layer_drops *drops, struct cloche_err *e);

#endif
