/* Operations that list.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "operations-internal.h"

#include "base/fd.h"
#include "helpers/fs/tree/overlay.h"
#include "listing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_MAX (1u << 17)

struct open_listing {
        struct fs_mount *mount;
        struct listing listing;
        struct node *directory;
        bool begun;
};

static struct open_listing *listing_of(const struct fuse_file_info *fi)
{
        return (struct open_listing *)(uintptr_t)fi->fh;
}

static void close_listing(struct open_listing *open)
{
        struct fs_mount *mount = open->mount;

        listing_done(mount, &open->listing);
        open->directory->handles--;
        mount->open_handles--;
        overlay_settle(mount, open->directory);
        free(open);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
        struct fs_mount *mount = mount_of(req);
        struct node *directory = node_of(req, ino);
        struct open_listing *open;
        int r = go_on(access_check_node(mount, directory, RULES_LIST));

        if (r > 0 && mount->open_handles >= mount->settings.open_files)
                r = -ENFILE;
        open = r > 0 ? calloc(1, sizeof(*open)) : NULL;
        if (r > 0)
                r = open ? listing_read(mount, directory, &open->listing) : -ENOMEM;
        if (r < 0) {
                free(open);
                fuse_reply_err(req, -r);
                return;
        }
        open->mount = mount;
        open->directory = directory;
        directory->handles++;
        mount->open_handles++;
        fi->fh = (uint64_t)(uintptr_t)open;
        if (fuse_reply_open(req, fi) == -ENOENT)
                close_listing(open);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
        (void)ino;
        close_listing(listing_of(fi));
        fuse_reply_err(req, 0);
}

/* Reading again from the start shows the present entries (rewinddir(3)). */
static int start(struct fs_mount *mount, struct open_listing *open, off_t offset)
{
        bool restarts = offset == 0 && open->begun;

        open->begun = true;
        if (!restarts)
                return 0;
        listing_done(mount, &open->listing);
        return listing_read(mount, open->directory, &open->listing);
}

/* "." and ".." are at 0 and 1; callers use only the kind of the inode number and mode. */
static const char *name_at(const struct open_listing *open, size_t at, struct stat *ret)
{
        *ret = (struct stat){.st_ino = open->directory->ino, .st_mode = S_IFDIR};
        if (at < 2)
                return at ? ".." : ".";
        ret->st_ino = 1;
        ret->st_mode = (mode_t)listing_kind(&open->listing, at - 2) << 12;
        return listing_name(&open->listing, at - 2);
}

/* NULL: hidden, or removed meanwhile. */
static struct node *stat_listed(struct fs_mount *mount, const struct open_listing *open, const char *name)
{
        struct node *node;
        struct stat st;
        /* For another file system mounted there, the lookup records a warning. */
        bool known = open->listing.dir_fd >= 0 && lower_stat_in(open->listing.dir_fd, name, &st) == 0;

        if (overlay_lookup(mount, open->directory, name, known ? &st : NULL, &node) < 0)
                return NULL;
        if (access_veils(mount, node)) {
                overlay_settle(mount, node);
                return NULL;
        }
        return node;
}

/* For a plain listing: names that need no lookup are not looked up. */
static bool is_shown(struct fs_mount *mount, const struct open_listing *open, const char *name)
{
        struct node *node;

        if (!loading_needs_stat(mount->loading))
                return !access_veils_name(mount, open->directory, name);
        node = stat_listed(mount, open, name);
        if (node)
                overlay_settle(mount, node);
        return node;
}

static size_t add_plain(fuse_req_t req, const struct open_listing *open, size_t at, char *buffer, size_t room)
{
        struct stat st;
        const char *name = name_at(open, at, &st);

        if (at >= 2 && !is_shown(mount_of(req), open, name))
                return 0;
        return fuse_add_direntry(req, buffer, room, name, &st, (off_t)at + 1);
}

static size_t add_plus(fuse_req_t req, const struct open_listing *open, size_t at, char *buffer, size_t room)
{
        struct fs_mount *mount = mount_of(req);
        struct fuse_entry_param entry = {0};
        const char *name = name_at(open, at, &entry.attr);
        struct node *node = at < 2 ? NULL : stat_listed(mount, open, name);
        size_t size;

        if (at >= 2 && !node)
                return 0;
        if (node)
                fill_entry(mount, node, &entry);
        size = fuse_add_direntry_plus(req, buffer, room, name, &entry, (off_t)at + 1);
        if (node && size > room)
                forget(mount, node, 1);
        return size;
}

typedef size_t (*add_entry)(fuse_req_t req, const struct open_listing *open, size_t at, char *buffer, size_t room);

static void list(fuse_req_t req, size_t size, off_t offset, struct fuse_file_info *fi, add_entry add)
{
        struct open_listing *open = listing_of(fi);
        int r = start(mount_of(req), open, offset);
        size_t used = 0;
        char *buffer;

        if (size > REPLY_MAX)
                size = REPLY_MAX;
        buffer = r == 0 ? malloc(size) : NULL;
        if (!buffer) {
                fuse_reply_err(req, r < 0 ? -r : ENOMEM);
                return;
        }
        for (size_t at = (size_t)offset; at < open->listing.count + 2; at++) {
                size_t n = add(req, open, at, buffer + used, size - used);

                if (n > size - used)
                        break;
                used += n;
        }
        fuse_reply_buf(req, buffer, used);
        free(buffer);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
        (void)ino;
        list(req, size, offset, fi, add_plain);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
        (void)ino;
        list(req, size, offset, fi, add_plus);
}
