/* An archive of a sandbox that changes nothing of its image is found. Most steps of a build that
 * only look at something change nothing, and for these no tree is made. Runs in: cloche-image,
 * as its user, confined to the store and the source. */
#include "unchanged.h"
#include "tree.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/read/accounts.h"
#include "helpers/image/read/stream.h"
#include "jail/root/accounts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

struct look {
        int base_fd;
        bool keeps_ids;
        const struct changes *changes;
        struct layer_member member;
        char own[ACCOUNTS_BYTES_MAX], below[ACCOUNTS_BYTES_MAX];
};

static bool has_root(const struct look *l)
{
        return l->changes->owner == 0;
}

/* A directory that every box with a root has, and no image: image_tree_cut_accounts() removes
 * it. */
static bool is_added_by_box(const struct look *l)
{
        const char *path = l->member.path;

        return has_root(l) && (strcmp(path, "home") == 0 || jail_path_is_home(path)) &&
               faccessat(l->base_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static bool has_attributes(int fd)
{
        char name[1];

        return flistxattr(fd, name, 0) != 0;
}

static bool are_facts_equal(const struct look *l, const struct stat *status)
{
        const struct layer_member *m = &l->member;
        const mode_t mode = image_tree_mode(l->keeps_ids, m->mode, m->kind == LAYER_DIRECTORY);

        return (status->st_mode & 07777) == mode &&
               (!l->keeps_ids || (status->st_uid == m->uid && status->st_gid == m->gid));
}

/* The directory that contains the member. */
static int open_parent(const struct look *l, const char **ret_name)
{
        const char *path = l->member.path, *slash = strrchr(path, '/');
        char parent[MEMBER_PATH_MAX + 1];

        *ret_name = slash ? slash + 1 : path;
        memcpy(parent, path, (size_t)(*ret_name - path));
        parent[slash ? slash - path : 0] = '\0';
        return image_tree_open_below(l->base_fd, parent, O_PATH);
}

static int open_file(const struct look *l)
{
        const char *name;
        _cleanup_fd_ int fd = open_parent(l, &name);

        return fd < 0 ? fd : openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* The root of a box has the links of its image. */
static bool is_same_link(const struct look *l)
{
        const char *name;
        _cleanup_fd_ int fd = open_parent(l, &name);
        char target[MEMBER_PATH_MAX + 1];
        struct stat status;
        ssize_t size = fd < 0 ? -1 : readlinkat(fd, name, target, sizeof(target));

        return size >= 0 && (size_t)size == strlen(l->member.link) &&
               memcmp(target, l->member.link, (size_t)size) == 0 &&
               fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
               (!l->keeps_ids || (status.st_uid == l->member.uid && status.st_gid == l->member.gid));
}

static bool is_same_directory(const struct look *l)
{
        _cleanup_fd_ int fd = image_tree_open_below(l->base_fd, l->member.path, O_RDONLY);
        struct stat status;

        return fd >= 0 && fstat(fd, &status) == 0 && are_facts_equal(l, &status) && !has_attributes(fd) &&

               !(has_root(l) && jail_path_is_home(l->member.path)); /* an empty one would be removed */
}

/* Small files alone: programs write accounts and settings anew with the same bytes. */
static bool is_same_file(struct look *l, struct archive *archive)
{
        _cleanup_fd_ int fd = l->member.size > sizeof(l->own) ? -EBADF : open_file(l);
        struct stat status;
        ssize_t n;
        size_t size;

        if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
            (uint64_t)status.st_size > sizeof(l->below) || !are_facts_equal(l, &status) || has_attributes(fd))
                return false;
        n = archive_read_data(archive, l->own, l->member.size);
        if (n < 0 || (uint64_t)n != l->member.size || fd_read_full(fd, l->below, (size_t)status.st_size) < 0)
                return false;
        size = (size_t)n;
        for (size_t i = 0; has_root(l) && i < JAIL_ACCOUNTS; i++)
                if (strcmp(l->member.path, jail_accounts[i].path) == 0)
                        size = image_tree_cut_rows(l->own, size, jail_accounts[i].row);
        return size == (size_t)status.st_size && memcmp(l->own, l->below, size) == 0;
}

/* A member with something that is left out is told by the commit. */
static bool is_same(struct look *l, struct archive *archive, struct archive_entry *entry)
{
        static const struct layer_drops none;
        struct layer_drops drops = none;
        struct layer_member *m = &l->member;
        const void *value;
        const char *name;
        struct cloche_err told_later;
        size_t size;

        if (layer_change_read(entry, l->changes, m, &drops, &told_later) < 0)
                return false;
        if (memcmp(&drops, &none, sizeof(drops)) != 0)
                return false;
        if (m->kind == LAYER_LEFT_OUT)
                return true;
        if (m->kind == LAYER_HARD_LINK || m->kind == LAYER_WHITEOUT || m->is_opaque)
                return false;
        archive_entry_xattr_reset(m->entry);
        if (layer_member_attribute(m, &drops, &name, &value, &size) || memcmp(&drops, &none, sizeof(drops)) != 0)
                return false;
        if (m->kind == LAYER_FILE)
                return is_same_file(l, archive);
        if (m->kind == LAYER_LINK)
                return is_same_link(l);
        return is_added_by_box(l) || is_same_directory(l);
}

int image_tree_is_unchanged(struct archive *archive, int base_fd, bool keeps_ids, const struct changes *changes,
                            const char *name, struct cloche_err *e)
{
        struct look *l = malloc(sizeof(*l));
        struct archive_entry *entry;
        int r = l ? 1 : work_no_memory(e);

        if (l) {
                l->base_fd = base_fd;
                l->keeps_ids = keeps_ids;
                l->changes = changes;
        }
        while (r > 0 && (r = image_stream_next(archive, name, &entry, e)) > 0)
                if (!is_same(l, archive, entry)) {
                        free(l);
                        return 0;
                }
        free(l);
        return r < 0 ? r : 1;
}
