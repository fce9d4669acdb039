/* The host's side of a mount: a directory that is read and never written. Paths resolve beneath it
 * or fail, even if the host's tree changes meanwhile: no symbolic link is followed, no other file
 * system entered, no call blocks. */
#ifndef CLOCHE_HELPERS_FS_TREE_LOWER_H
#define CLOCHE_HELPERS_FS_TREE_LOWER_H

#include <stdint.h>
#include <sys/stat.h>

struct lower {
        int root_fd;
};

/* Identity and version of a file. */
struct lower_identity {
        uint64_t dev, ino, size;
        int64_t mtime_ns, ctime_ns;
};

/* path: relative, "" the directory itself. The descriptor or -errno. openat2(2), always with
 * O_NOFOLLOW and O_NONBLOCK. */
int lower_open(const struct lower *lower, const char *path, int flags);
/* lstat(2) for a path; 0 or -errno. */
int lower_stat(const struct lower *lower, const char *path, struct stat *ret);
/* Open a regular file for reading; -ESTALE if it is no longer one. */
int lower_open_file(const struct lower *lower, const char *path, struct stat *ret);

/* The same for one name in an open directory, which may be O_PATH. name: one part, neither "."
 * nor "..". */
int lower_open_in(int dir_fd, const char *name, int flags);
int lower_stat_in(int dir_fd, const char *name, struct stat *ret);
int lower_open_file_in(int dir_fd, const char *name, struct stat *ret);
int lower_read_link_in(int dir_fd, const char *name, char *ret, int size);

typedef int (*lower_visit)(void *argument, const char *name, unsigned char kind);
/* Visit the entries of a directory, without "." and "..", until visit returns nonzero. Returns that
 * value, 0, or -errno. */
int lower_each(int fd, lower_visit visit, void *argument);

void lower_identify(const struct stat *st, struct lower_identity *ret);
int lower_same(const struct lower_identity *a, const struct lower_identity *b);

#endif
