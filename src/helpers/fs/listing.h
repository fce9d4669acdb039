/* The merged names of a directory, the host's and the guest's, as of one moment:
 * offsets into it are stable. */
#ifndef CLOCHE_HELPERS_FS_LISTING_H
#define CLOCHE_HELPERS_FS_LISTING_H

#include "mount.h"

struct listing {
        char *bytes; /* per name: a byte of its kind (DT_*), the name, a NUL */
        size_t size, room;
        uint32_t *at; /* offset of each */
        size_t count, at_room;
        int dir_fd; /* the host's directory; -EBADF: it exists for the guest only */
};

/* 0 or -errno; "." and ".." are excluded. */
int listing_read(struct fs_mount *mount, struct node *directory, struct listing *ret);
void listing_done(struct fs_mount *mount, struct listing *listing);

/* Check that a directory has no entries, shown or left out: 0, -ENOTEMPTY or -errno. */
int listing_check_empty(struct fs_mount *mount, struct node *directory);

static inline const char *listing_name(const struct listing *listing, size_t index)
{
        return listing->bytes + listing->at[index] + 1;
}

static inline unsigned char listing_kind(const struct listing *listing, size_t index)
{
        return (unsigned char)listing->bytes[listing->at[index]];
}

#endif
