/* The accounts of a tree that a sandbox with root has changed. Runs in: cloche-image, as its user,
 * confined to the store and the source. */
#include "tree.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/read/accounts.h"
#include "jail/root/accounts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

size_t image_tree_cut_rows(char *text, size_t size, const char *row)
{
        const size_t bytes = strlen(row);
        size_t kept = 0;

        for (size_t at = 0, next; at < size; at = next) {
                const char *end = memchr(text + at, '\n', size - at);

                next = end ? (size_t)(end + 1 - text) : size;
                if (next - at == bytes && memcmp(text + at, row, bytes) == 0)
                        continue;
                memmove(text + kept, text + at, next - at);
                kept += next - at;
        }
        return kept;
}

/* A file with other names is that of the tree below, or one that the guest has linked: it stays. */
static int cut_file(int dir_fd, const char *path, const char *row, struct cloche_err *e)
{
        const char *name = strrchr(path, '/') + 1;
        _cleanup_fd_ int fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat status;
        size_t size, kept = 0;
        char *text;
        int r;

        if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1 ||
            status.st_size > ACCOUNTS_BYTES_MAX)
                return 0; /* a link, or no file that a box would read */
        size = (size_t)status.st_size;
        text = malloc(size + 1);
        if (!text)
                return work_no_memory(e);
        r = fd_read_full(fd, text, size) < 0 ? image_tree_failed(errno, path, e) : 0;
        if (r == 0)
                kept = image_tree_cut_rows(text, size, row);
        if (r == 0 && kept < size) {
                const struct timespec times[2] = {status.st_mtim, status.st_mtim};

                if (fd_pwrite_full(fd, text, kept, 0) < 0 || ftruncate(fd, (off_t)kept) < 0 || futimens(fd, times) < 0)
                        r = image_tree_failed(errno, path, e);
        }
        free(text);
        return r;
}

/* Each box makes them, and /home for them if its image has none. */
static void remove_empty_homes(const struct image_tree *tree, int base_fd)
{
        _cleanup_fd_ int dir_fd = image_tree_open_below(tree->top_fd, "home", O_RDONLY);

        for (size_t i = 0; dir_fd >= 0 && i < JAIL_HOME_NAMES; i++)
                (void)unlinkat(dir_fd, jail_homes[i], AT_REMOVEDIR); /* fails for one that has files */
        if (faccessat(base_fd, "home", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                (void)unlinkat(tree->top_fd, "home", AT_REMOVEDIR);
}

int image_tree_cut_accounts(const struct image_tree *tree, int base_fd, struct cloche_err *e)
{
        _cleanup_fd_ int dir_fd = image_tree_open_below(tree->top_fd, "etc", O_RDONLY);
        int r = 0;

        remove_empty_homes(tree, base_fd);
        if (dir_fd < 0) /* there is no such directory */
                return 0;
        for (size_t i = 0; r == 0 && i < JAIL_ACCOUNTS; i++)
                r = cut_file(dir_fd, jail_accounts[i].path, jail_accounts[i].row, e);
        return r;
}
