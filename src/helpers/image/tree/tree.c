/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "tree.h"

#include "base/array.h"
#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/read/stream.h"
#include "helpers/sync/crash.h"
#include "jail/root/accounts.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#define NAMES_BYTES (64u << 10) /* of all extended attributes of a file: listxattr(2) */

void image_tree_init(struct image_tree *tree, int top_fd, bool keeps_ids, struct work *work)
{
        memset(tree, 0, sizeof(*tree));
        tree->top_fd = top_fd;
        tree->dir_fd = -EBADF;
        tree->keeps_ids = keeps_ids;
        tree->work = work;
}

void image_tree_done(struct image_tree *tree)
{
        image_tree_leave(tree);
        path_set_done(&tree->fresh);
        while (tree->directory_count > 0)
                free(tree->directories[--tree->directory_count].path);
        free(tree->directories);
        tree->directories = NULL;
}

int image_tree_failed(int number, const char *path, struct cloche_err *e)
{
        if (number == EOPNOTSUPP)
                return err_set(e, CLOCHE_E_RESOURCE,
                               "%.120s: the store's file system keeps no extended attributes: use another one", path);
        return err_os(e, CLOCHE_E_RESOURCE, number, "write %.120s", *path ? path : "the top of the tree");
}

static int refuse(const struct layer_member *m, struct cloche_err *e, const char *why)
{
        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the member %.120s %s", m->path, why);
}

/* -- directories ---------------------------------------------------------------------------------------------- */

int image_tree_open_below(int top_fd, const char *path, int flags)
{
        struct open_how how = {.flags = (unsigned)flags | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
        int fd = (int)syscall(SYS_openat2, top_fd, *path ? path : ".", &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

void image_tree_leave(struct image_tree *tree)
{
        fd_close(&tree->dir_fd);
}

int image_tree_remember(struct image_tree *tree, const char *path, const struct image_tree_directory *attributes,
                        struct cloche_err *e)
{
        struct image_tree_directory *row;

        if (ARRAY_GROW(tree->directories, tree->directory_count, tree->directory_room) < 0)
                return work_no_memory(e);
        row = &tree->directories[tree->directory_count];
        *row = *attributes;
        row->number = tree->directory_count;
        row->path = strdup(path);
        return row->path ? (tree->directory_count++, 0) : work_no_memory(e);
}

/* A directory of a member: the paths of archives have a bound. */
static int remember(struct image_tree *tree, const char *path, const struct image_tree_directory *attributes,
                    struct cloche_err *e)
{
        tree->path_bytes += strlen(path);
        if (tree->path_bytes > TREE_PATH_BYTES_MAX)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE,
                               "the paths of the image's directories have more than %llu MiB together",
                               (unsigned long long)(TREE_PATH_BYTES_MAX >> 20));
        return image_tree_remember(tree, path, attributes, e);
}

static int note_fresh(struct image_tree *tree, const char *path, struct cloche_err *e)
{
        int r = 1;

        if (!tree->has_lower)
                return 0;
        /* With the directories on the way, from the deepest on, until one is known. */
        for (size_t size = strlen(path); size > 0 && r == 1;) {
                r = path_set_add(&tree->fresh, path, size);
                while (size > 0 && path[--size] != '/')
                        ;
        }
        return r < 0 ? work_no_memory(e) : 0;
}

/* A directory that no layer describes. */
static int make_implied(struct image_tree *tree, int parent_fd, const char *name, const char *path,
                        struct cloche_err *e)
{
        const struct image_tree_directory implied = {.mode = 0755};

        if (mkdirat(parent_fd, name, 0700) < 0)
                return errno == EEXIST ? 0 : image_tree_failed(errno, path, e);
        return remember(tree, path, &implied, e);
}

/* Make the missing directories of a path, from the top on, by one step each. */
static int make_below(struct image_tree *tree, const struct layer_member *m, const char *path, struct cloche_err *e)
{
        char part[MEMBER_PATH_MAX + 1];
        _cleanup_fd_ int parent_fd = image_tree_open_below(tree->top_fd, "", O_PATH);

        snprintf(part, sizeof(part), "%s", path);
        for (char *name = part;;) {
                size_t size = strcspn(name, "/");
                bool is_last = name[size] == '\0';
                int r, fd;

                if (parent_fd < 0)
                        return parent_fd == -ELOOP || parent_fd == -ENOTDIR
                                       ? refuse(m, e, "is below a link or file of the image")
                                       : image_tree_failed(-parent_fd, path, e);
                name[size] = '\0';
                r = make_implied(tree, parent_fd, name, part, e);
                if (r < 0 || is_last)
                        return r;
                fd = image_tree_open_below(parent_fd, name, O_PATH);
                fd_close(&parent_fd);
                parent_fd = fd;
                name[size] = '/';
                name += size + 1;
        }
}

/* Set tree->dir_fd to the directory of the member's path. 1; 0: it is missing. */
static int go_to(struct image_tree *tree, const struct layer_member *m, const char **ret_name, struct cloche_err *e)
{
        const char *slash = strrchr(m->path, '/');
        size_t size = slash ? (size_t)(slash - m->path) : 0;

        *ret_name = slash ? slash + 1 : m->path;
        if (tree->dir_fd >= 0 && strncmp(tree->dir_path, m->path, size) == 0 && tree->dir_path[size] == '\0')
                return 1;
        image_tree_leave(tree);
        memcpy(tree->dir_path, m->path, size);
        tree->dir_path[size] = '\0';
        tree->dir_fd = image_tree_open_below(tree->top_fd, tree->dir_path, O_PATH);
        if (tree->dir_fd >= 0)
                return 1;
        if (tree->dir_fd == -ELOOP || tree->dir_fd == -ENOTDIR)
                return refuse(m, e, "is below a link or file of the image");
        return tree->dir_fd == -ENOENT ? 0 : image_tree_failed(-tree->dir_fd, m->path, e);
}

int image_tree_find(struct image_tree *tree, const struct layer_member *m, const char **ret_name, struct cloche_err *e)
{
        return go_to(tree, m, ret_name, e);
}

static int go_to_made(struct image_tree *tree, const struct layer_member *m, const char **ret_name,
                      struct cloche_err *e)
{
        int r = go_to(tree, m, ret_name, e);

        if (r != 0)
                return r < 0 ? r : 0;
        r = make_below(tree, m, tree->dir_path, e);
        if (r < 0)
                return r;
        r = go_to(tree, m, ret_name, e);
        return r == 1 ? 0 : r < 0 ? r : image_tree_failed(ENOENT, m->path, e);
}

/* -- attributes ----------------------------------------------------------------------------------------------- */

/* A user's store must stay readable for verify and removable for prune. */
mode_t image_tree_mode(bool keeps_ids, mode_t mode, bool is_directory)
{
        return keeps_ids ? mode : mode | (is_directory ? 0700 : 0400);
}

static int set_attributes(struct image_tree *tree, int fd, const struct layer_member *m, struct cloche_err *e)
{
        const void *value;
        const char *name;
        size_t size;

        archive_entry_xattr_reset(m->entry);
        while (layer_member_attribute(m, &tree->drops, &name, &value, &size))
                if (fsetxattr(fd, name, value, size, 0) < 0)
                        return image_tree_failed(errno, m->path, e);
        return 0;
}

/* Links have no attributes of a user. */
static void drop_attributes(struct image_tree *tree, const struct layer_member *m)
{
        const void *value;
        const char *name;
        size_t size;

        archive_entry_xattr_reset(m->entry);
        while (layer_member_attribute(m, &tree->drops, &name, &value, &size))
                tree->drops.attributes++;
}

/* A layer's directory replaces the attributes of the lower one. */
static int clear_attributes(int fd, const char *path, struct cloche_err *e)
{
        char *names = malloc(NAMES_BYTES);
        ssize_t size = names ? flistxattr(fd, names, NAMES_BYTES) : -1;
        int r = !names ? work_no_memory(e) : size < 0 && errno != EOPNOTSUPP ? image_tree_failed(errno, path, e) : 0;

        for (const char *at = names; r == 0 && size > 0 && at < names + size; at += strlen(at) + 1)
                if (strncmp(at, "user.", 5) == 0 && fremovexattr(fd, at) < 0)
                        r = image_tree_failed(errno, path, e);
        free(names);
        return r;
}

static int set_owner_and_mode(const struct image_tree *tree, int fd, const struct layer_member *m, struct cloche_err *e)
{
        const struct timespec times[2] = {m->time, m->time};

        if ((tree->keeps_ids && fchown(fd, m->uid, m->gid) < 0) ||
            fchmod(fd, image_tree_mode(tree->keeps_ids, m->mode, false)) < 0 || futimens(fd, times) < 0)
                return image_tree_failed(errno, m->path, e);
        return 0;
}

/* -- members -------------------------------------------------------------------------------------------------- */

static int count_bytes(struct image_tree *tree, const struct layer_member *m, uint64_t size, struct cloche_err *e)
{
        if (size > TREE_BYTES_MAX || tree->bytes + size > TREE_BYTES_MAX)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the image has more than %llu GiB of files",
                               (unsigned long long)(TREE_BYTES_MAX >> 30));
        if (tree->layer_bytes + size > tree->layer_bytes_max)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE,
                               "the member %.120s makes the archive too large: more than %d times its own size beyond "
                               "%llu MiB",
                               m->path, STREAM_RATIO_MAX, (unsigned long long)(STREAM_FREE_BYTES >> 20));
        tree->bytes += size;
        tree->layer_bytes += size;
        return 0;
}

static int write_contents(struct image_tree *tree, struct archive *archive, const struct layer_member *m,
                          const char *name, int fd, struct cloche_err *e)
{
        uint64_t end = 0, done = tree->bytes;
        const void *data;
        la_int64_t at;
        size_t size;
        int got = ARCHIVE_EOF, r = count_bytes(tree, m, m->size, e);

        while (r == 0 && (got = archive_read_data_block(archive, &data, &size, &at)) == ARCHIVE_OK) {
                uint64_t after = (uint64_t)at + size;

                if (at < 0 || after < size || after > m->size)
                        return refuse(m, e, "has more bytes than it says");
                r = fd_pwrite_full(fd, data, size, at);
                if (r < 0)
                        return image_tree_failed(-r, m->path, e);
                end = after > end ? after : end;
                r = work_go_on(tree->work, tree->phase, done + end, 0, e);
        }
        if (r < 0)
                return r;
        if (got != ARCHIVE_EOF)
                return image_stream_failed(archive, name, e);
        return end < m->size && ftruncate(fd, (off_t)m->size) < 0 ? image_tree_failed(errno, m->path, e) : 0;
}

static int write_file(struct image_tree *tree, struct archive *archive, const struct layer_member *m, const char *name,
                      const char *archive_name, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(tree->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        int r;

        if (fd < 0)
                return image_tree_failed(errno, m->path, e);
        r = write_contents(tree, archive, m, archive_name, fd, e);
        if (r == 0)
                r = set_attributes(tree, fd, m, e);
        return r == 0 ? set_owner_and_mode(tree, fd, m, e) : r;
}

static int write_link(struct image_tree *tree, const struct layer_member *m, const char *name, struct cloche_err *e)
{
        const struct timespec times[2] = {m->time, m->time};

        drop_attributes(tree, m);
        if (symlinkat(m->link, tree->dir_fd, name) < 0 ||
            (tree->keeps_ids && fchownat(tree->dir_fd, name, m->uid, m->gid, AT_SYMLINK_NOFOLLOW) < 0) ||
            utimensat(tree->dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
                return image_tree_failed(errno, m->path, e);
        return 0;
}

static int write_hard_link(struct image_tree *tree, const struct layer_member *m, const char *name,
                           struct cloche_err *e)
{
        char parent[MEMBER_PATH_MAX + 1];
        const char *slash = strrchr(m->link, '/'), *target = slash ? slash + 1 : m->link;
        _cleanup_fd_ int parent_fd = -EBADF;
        struct stat status;

        memcpy(parent, m->link, (size_t)(target - m->link));
        parent[slash ? slash - m->link : 0] = '\0';
        parent_fd = image_tree_open_below(tree->top_fd, parent, O_PATH);
        if (parent_fd < 0 || fstatat(parent_fd, target, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return refuse(m, e, "is a hard link to no member before it");
        if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
                return refuse(m, e, "is a hard link to a directory");
        return linkat(parent_fd, target, tree->dir_fd, name, 0) < 0 ? image_tree_failed(errno, m->path, e) : 0;
}

static int write_directory(struct image_tree *tree, const struct layer_member *m, const char *name,
                           struct cloche_err *e)
{
        const struct image_tree_directory attributes = {.mode = m->mode, .uid = m->uid, .gid = m->gid, .time = m->time};
        _cleanup_fd_ int fd = -EBADF;
        bool is_new = *m->path && mkdirat(tree->dir_fd, name, 0700) == 0;
        int r;

        if (*m->path && !is_new && errno != EEXIST)
                return image_tree_failed(errno, m->path, e);
        fd = *m->path ? openat(tree->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                      : image_tree_open_below(tree->top_fd, "", O_RDONLY);
        if (fd < 0)
                return image_tree_failed(errno, m->path, e);
        r = is_new ? 0 : clear_attributes(fd, m->path, e);
        if (r == 0)
                r = set_attributes(tree, fd, m, e);
        return r == 0 ? remember(tree, m->path, &attributes, e) : r;
}

/* Remove an entry that a member replaces. A directory stays for a directory. */
static int clear(struct image_tree *tree, const struct layer_member *m, const char **name, struct cloche_err *e)
{
        struct stat status;
        int r;

        if (fstatat(tree->dir_fd, *name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : image_tree_failed(errno, m->path, e);
        if (S_ISDIR(status.st_mode) && m->kind == LAYER_DIRECTORY)
                return 0;
        if (!S_ISDIR(status.st_mode))
                return unlinkat(tree->dir_fd, *name, 0) < 0 ? image_tree_failed(errno, m->path, e) : 0;
        r = image_tree_remove_at(tree, *name, m->path, false, e);
        return r == 0 ? go_to_made(tree, m, name, e) : r;
}

static int write_member(struct image_tree *tree, struct archive *archive, const struct layer_member *m,
                        const char *archive_name, struct cloche_err *e)
{
        const char *name = "";
        int r = 0;

        if (*m->path) {
                r = go_to_made(tree, m, &name, e);
                if (r == 0)
                        r = clear(tree, m, &name, e);
                if (r == 0)
                        r = note_fresh(tree, m->path, e);
                if (r < 0)
                        return r;
        }
        switch (m->kind) {
        case LAYER_FILE:
                return write_file(tree, archive, m, name, archive_name, e);
        case LAYER_LINK:
                return write_link(tree, m, name, e);
        case LAYER_HARD_LINK:
                return write_hard_link(tree, m, name, e);
        case LAYER_DIRECTORY:
                return write_directory(tree, m, name, e);
        case LAYER_WHITEOUT:
        case LAYER_OPAQUE:
        case LAYER_LEFT_OUT:
                break;
        }
        return 0;
}

static int apply_member(struct image_tree *tree, struct archive *archive, struct archive_entry *entry, const char *name,
                        struct cloche_err *e)
{
        struct layer_member *m = &tree->member;
        int r = tree->changes ? layer_change_read(entry, tree->changes, m, &tree->drops, e)
                              : layer_member_read(entry, m, &tree->drops, e);

        if (r == 0 && m->is_opaque)
                r = image_tree_hide_below(tree, m->path, e);
        if (r < 0)
                return r;
        if (++tree->entries > TREE_ENTRIES_MAX)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the image has more than %llu members",
                               (unsigned long long)TREE_ENTRIES_MAX);
        if (tree->entries % 64 == 0) {
                crash_point();
                r = work_go_on(tree->work, tree->phase, tree->bytes, 0, e);
        }
        if (r < 0)
                return r;
        if (m->kind == LAYER_LEFT_OUT)
                return 0;
        if (tree->changes && !tree->keeps_ids && m->kind <= LAYER_LINK && !jail_path_is_home(m->path))
                tree->drops.owners += m->uid != 0 || m->gid != 0;
        return m->kind == LAYER_WHITEOUT || m->kind == LAYER_OPAQUE ? image_tree_hide(tree, m, e)
                                                                    : write_member(tree, archive, m, name, e);
}

/* Join the names of a file of the host, and enter directories. */
static void prepare(const struct image_tree *tree, struct archive *archive, struct archive_entry **entry)
{
        struct archive_entry *later = NULL;

        archive_entry_linkify(tree->links, entry, &later); /* for tar there is no later one */
        if (archive_read_disk_can_descend(archive) && !(archive_entry_dev(*entry) == tree->store_device &&
                                                        (ino_t)archive_entry_ino64(*entry) == tree->store_inode))
                archive_read_disk_descend(archive);
}

int image_tree_apply(struct image_tree *tree, struct archive *archive, struct archive_entry *const *read,
                     const char *name, uint64_t bytes_max, struct cloche_err *e)
{
        const struct image_tree_directory top = {.mode = 0755};
        struct archive_entry *entry;
        int r = tree->has_lower ? 0 : remember(tree, "", &top, e); /* layers may have a row of their own */

        tree->layer_bytes = 0;
        tree->layer_bytes_max = bytes_max;
        for (; r == 0 && read && *read; read++)
                r = apply_member(tree, archive, *read, name, e);
        while (r == 0 && (r = image_stream_next(archive, name, &entry, e)) > 0) {
                if (tree->links)
                        prepare(tree, archive, &entry);
                r = apply_member(tree, archive, entry, name, e);
        }
        path_set_done(&tree->fresh);
        image_tree_leave(tree);
        tree->has_lower = true;
        return r;
}

/* -- the end -------------------------------------------------------------------------------------------------- */

/* Contents come before their directory, and of two rows of a path the last one. */
static int compare(const void *a, const void *b)
{
        const struct image_tree_directory *one = a, *other = b;
        int order = strcmp(other->path, one->path);

        return order ? order : one->number < other->number ? 1 : -1;
}

static int finish_directory(const struct image_tree *tree, const struct image_tree_directory *row, struct cloche_err *e)
{
        const struct timespec times[2] = {row->time, row->time};
        _cleanup_fd_ int fd = image_tree_open_below(tree->top_fd, row->path, O_RDONLY);

        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
                return 0; /* a later layer removed or replaced it */
        if (fd < 0)
                return image_tree_failed(-fd, row->path, e);
        if ((tree->keeps_ids && fchown(fd, row->uid, row->gid) < 0) ||
            fchmod(fd, image_tree_mode(tree->keeps_ids, row->mode, true)) < 0 || futimens(fd, times) < 0)
                return image_tree_failed(errno, row->path, e);
        return 0;
}

int image_tree_finish(struct image_tree *tree, struct cloche_err *e)
{
        int r = 0;

        qsort(tree->directories, tree->directory_count, sizeof(tree->directories[0]), compare);
        for (size_t i = 0; r == 0 && i < tree->directory_count; i++)
                if (i == 0 || strcmp(tree->directories[i].path, tree->directories[i - 1].path) != 0)
                        r = finish_directory(tree, &tree->directories[i], e);
        return r;
}
