/* Runs in: cloche-files, within a box, with its user's rights. */
#include "tree.h"

#include "base/err.h"
#include "base/fd.h"
#include "box/files/request.h"
#include "walk.h"

#include <fcntl.h>
#include <linux/stat.h>

/* Make our own unsearchable directory accessible first; otherwise removal would stop there, as rm
 * -r does in a module cache. */
static void open_up(int dir_fd, const char *name, const struct stat *status)
{
        if ((status->st_mode & 0700) != 0700 && fchmodat(dir_fd, name, 0700, 0) < 0)
                return; /* the following open reports the error */
}

static int remove_found(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        uint64_t *count = data;
        int is_directory = S_ISDIR(entry->status->st_mode);

        if (event == WALK_ENTER)
                return WALK_ON;
        if (event == WALK_FOUND && is_directory) {
                open_up(entry->dir_fd, entry->name, entry->status);
                return WALK_ON;
        }
        if (unlinkat(entry->dir_fd, entry->name, is_directory ? AT_REMOVEDIR : 0) < 0)
                return errno == ENOENT ? WALK_ON : files_os(e, errno, "remove %s", entry->path);
        ++*count;
        return WALK_ON;
}

int tree_empty(const char *path, uint64_t *count, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct walk_options walk = {.visit = remove_found, .data = count};

        if (fd < 0)
                return files_os(e, errno, "open the directory %s", path);
        return walk_tree(fd, &walk, e);
}

int tree_remove(const char *path, uint64_t *count, struct cloche_err *e)
{
        struct stat status;
        int r = 0;

        if (lstat(path, &status) < 0)
                return files_os(e, errno, "remove %s", path);
        if (S_ISDIR(status.st_mode)) {
                open_up(AT_FDCWD, path, &status);
                r = tree_empty(path, count, e);
        }
        if (r == 0 && (S_ISDIR(status.st_mode) ? rmdir(path) : unlink(path)) < 0)
                return files_os(e, errno, "remove %s", path);
        *count += r == 0;
        return r;
}

int tree_check_removable(const char *path, const char *directory, struct cloche_err *e)
{
        const char *const kept[] = {"/", directory, "/tmp", "/home"};
        struct stat status, other;
        struct statx more;

        if (lstat(path, &status) < 0)
                return files_os(e, errno, "look at %s", path);
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
                if (stat(kept[i], &other) == 0 && other.st_dev == status.st_dev && other.st_ino == status.st_ino)
                        return err_set(e, CLOCHE_E_FILE_DENIED,
                                       "%s stays where it is: only what is in it can be moved or removed", path);
        if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &more) == 0 &&
            (more.stx_attributes & more.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
                return err_set(e, CLOCHE_E_FILE_DENIED, "%s is mounted: only what is in it can be moved or removed",
                               path);
        return 0;
}
