/* Merge the names of the host's directory with the guest's.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "listing.h"

#include "base/fd.h"
#include "helpers/fs/rules/reserved.h"
#include "helpers/fs/tree/overlay.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (256u << 20) /* of all open listings */

static int grow(void **data, size_t *room, size_t need, size_t item)
{
        size_t more = *room ? *room : 256;
        void *grown;

        while (more < need)
                more *= 2;
        if (more == *room)
                return 0;
        grown = reallocarray(*data, more, item);
        if (!grown)
                return -ENOMEM;
        *data = grown;
        *room = more;
        return 0;
}

static int add(struct fs_mount *mount, struct listing *listing, const char *name, unsigned char kind)
{
        size_t size = strlen(name) + 2;
        int r = mount->listing_bytes + size > BYTES_MAX ? -ENOMEM : 0;

        if (r == 0)
                r = grow((void **)&listing->bytes, &listing->room, listing->size + size, 1);
        if (r == 0)
                r = grow((void **)&listing->at, &listing->at_room, listing->count + 1, sizeof(*listing->at));
        if (r < 0)
                return r;
        listing->at[listing->count++] = (uint32_t)listing->size;
        listing->bytes[listing->size] = (char)kind;
        memcpy(listing->bytes + listing->size + 1, name, size - 1);
        listing->size += size;
        mount->listing_bytes += size;
        return 0;
}

static int open_host(struct fs_mount *mount, struct node *directory)
{
        int fd = directory_find(&mount->directories, directory);

        if (fd >= 0)
                fd = lower_open_in(fd, "", O_RDONLY | O_DIRECTORY);

        /* The guest keeps its own entries of a directory that the host removed. */
        return fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR ? -ESTALE : fd;
}

struct merge {
        struct fs_mount *mount;
        struct node *directory;
        struct listing *listing;
};

static int merge_entry(void *argument, const char *text, unsigned char kind)
{
        struct merge *merge = argument;

        const struct name *name = tree_find(&merge->mount->tree, merge->directory, text);

        if (reserved_is(text, strlen(text)))
                return 0;
        /* Names changed by the guest are added separately. */
        return !name || (name->node && !node_is_changed(name->node)) ? add(merge->mount, merge->listing, text, kind)
                                                                     : 0;
}

int listing_read(struct fs_mount *mount, struct node *directory, struct listing *ret)
{
        struct merge merge = {mount, directory, ret};
        int r = 0;

        *ret = (struct listing){.dir_fd = -EBADF};
        if (directory->has_lower) {
                int fd = open_host(mount, directory);

                if (fd < 0 && fd != -ESTALE)
                        return fd;
                ret->dir_fd = fd < 0 ? -EBADF : fd;
                if (fd >= 0)
                        r = lower_each(fd, merge_entry, &merge);
        }
        for (const struct name *name = directory->entries; r == 0 && name; name = name->entry_next)
                if (name->node && node_is_changed(name->node))
                        r = add(mount, ret, name->bytes, (unsigned char)(name->node->kind >> 12));
        if (r < 0)
                listing_done(mount, ret);
        return r;
}

void listing_done(struct fs_mount *mount, struct listing *listing)
{
        mount->listing_bytes -= listing->size;
        free(listing->bytes);
        free(listing->at);
        fd_close(&listing->dir_fd);
        *listing = (struct listing){.dir_fd = -EBADF};
}

static int is_gone(void *argument, const char *text, unsigned char kind)
{
        const struct merge *merge = argument;
        const struct name *name = tree_find(&merge->mount->tree, merge->directory, text);

        (void)kind;
        return name && (name->removed || name->is_seed) ? 0 : -ENOTEMPTY;
}

int listing_check_empty(struct fs_mount *mount, struct node *directory)
{
        struct merge merge = {.mount = mount, .directory = directory};
        _cleanup_fd_ int fd = -EBADF;

        for (const struct name *name = directory->entries; name; name = name->entry_next)
                if ((name->node && node_is_changed(name->node)) || name->left_out)
                        return -ENOTEMPTY;
        if (!directory->has_lower)
                return 0;
        fd = open_host(mount, directory);
        if (fd < 0)
                return fd == -ESTALE ? 0 : fd;
        return lower_each(fd, is_gone, &merge);
}
