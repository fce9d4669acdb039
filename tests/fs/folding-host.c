/* A file system that finds names whatever their case, as some hosts' do: DIRECTORY is shown at MOUNTPOINT. For tests;
 * runs until unmounted. */
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int root_fd;

/* One level is enough. */
static int spelled(const char *path, char ret[256])
{
        int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY);
        DIR *directory = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;
        int found = -ENOENT;

        strcpy(ret, ".");
        if (strcmp(path, "/") == 0)
                found = 0;
        while (directory && found < 0 && (entry = readdir(directory)))
                if (strcasecmp(entry->d_name, path + 1) == 0) {
                        snprintf(ret, 256, "%s", entry->d_name);
                        found = 0;
                }
        if (directory)
                closedir(directory);
        return found;
}

static int get_attributes(const char *path, struct stat *ret, struct fuse_file_info *fi)
{
        char name[256];
        int r = spelled(path, name);

        (void)fi;
        if (r == 0 && fstatat(root_fd, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        return r;
}

static int list(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *fi,
                enum fuse_readdir_flags flags)
{
        int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY);
        DIR *directory = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        (void)path;
        (void)offset;
        (void)fi;
        (void)flags;
        while (directory && (entry = readdir(directory)))
                fill(buffer, entry->d_name, NULL, 0, 0);
        if (directory)
                closedir(directory);
        return 0;
}

static int read_file(const char *path, char *data, size_t size, off_t offset, struct fuse_file_info *fi)
{
        char name[256];
        int r = spelled(path, name), fd = r < 0 ? -1 : openat(root_fd, name, O_RDONLY | O_NOFOLLOW);
        ssize_t n = fd < 0 ? -1 : pread(fd, data, size, offset);

        (void)fi;
        if (fd >= 0)
                close(fd);
        return r < 0 ? r : n < 0 ? -errno : (int)n;
}

static void *begin(struct fuse_conn_info *conn, struct fuse_config *config)
{
        (void)conn;
        config->use_ino = 1;
        return NULL;
}

int main(int argc, char **argv)
{
        static const struct fuse_operations folding = {.init = begin,
                                                       .getattr = get_attributes,
                                                       .readdir = list,
                                                       .read = read_file};
        char *arguments[] = {argv[0], "-f", "-s", "-oallow_other", argc > 2 ? argv[2] : NULL, NULL};

        if (argc != 3)
                return 2;
        root_fd = open(argv[1], O_RDONLY | O_DIRECTORY);
        return root_fd < 0 ? 1 : fuse_main(5, arguments, &folding, NULL);
}
