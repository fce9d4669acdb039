#include "listing.h"

#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define BYTES_MAX (256u << 20) /* of all listings that are open at once */
#define READ_SIZE 65536

struct entry { /* linux_dirent64 */
        uint64_t ino;
        int64_t offset;
        unsigned short size;
        unsigned char kind;
        char name[];
};

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

static int add(struct mount *mount, struct listing *listing, const char *name, unsigned char kind)
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

typedef int (*visit_entry)(void *argument, const char *name, unsigned char kind);

static int each_of_host(int fd, visit_entry visit, void *argument)
{
        _Alignas(struct entry) char buffer[READ_SIZE];
        long n;

        while ((n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0)
                for (long at = 0; at < n;) {
                        const struct entry *entry = (const struct entry *)(buffer + at);
                        int r = strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0 ? 0 : visit(argument, entry->name, entry->kind);

                        if (r < 0)
                                return r;
                        at += entry->size;
                }
        return n < 0 ? -errno : 0;
}

static int open_host(struct mount *mount, const struct node *directory)
{
        const char *path = node_lower_path(directory, mount->lower_path);
        int fd = path ? lower_open(&mount->lower, path, O_RDONLY | O_DIRECTORY) : -ENAMETOOLONG;

        /* The guest goes on in what is left of a directory that the host took away. */
        return fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR ? -ESTALE : fd;
}

struct merge {
        struct mount *mount;
        struct node *directory;
        struct listing *listing;
};

static int merge_entry(void *argument, const char *text, unsigned char kind)
{
        struct merge *merge = argument;

        const struct name *name = tree_find(&merge->mount->tree, merge->directory, text);

        /* What the guest has changed is added by itself. */
        return !name || (name->node && !node_is_changed(name->node)) ? add(merge->mount, merge->listing, text, kind) : 0;
}

int listing_read(struct mount *mount, struct node *directory, struct listing *ret)
{
        struct merge merge = {mount, directory, ret};
        struct stat st;
        int r = 0;

        *ret = (struct listing){.dir_fd = -EBADF};
        if (directory->has_lower) {
                int fd = open_host(mount, directory);

                if (fd < 0 && fd != -ESTALE)
                        return fd;
                if (fd >= 0 && fstat(fd, &st) == 0)
                        ret->dev = st.st_dev;
                ret->dir_fd = fd < 0 ? -EBADF : fd;
                if (fd >= 0)
                        r = each_of_host(fd, merge_entry, &merge);
        }
        for (const struct name *name = directory->entries; r == 0 && name; name = name->entry_next)
                if (name->node && node_is_changed(name->node))
                        r = add(mount, ret, name->bytes, (unsigned char)(name->node->kind >> 12));
        if (r < 0)
                listing_done(mount, ret);
        return r;
}

void listing_done(struct mount *mount, struct listing *listing)
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
        return name && name->gone ? 0 : -ENOTEMPTY;
}

int listing_check_empty(struct mount *mount, struct node *directory)
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
        return each_of_host(fd, is_gone, &merge);
}
