/* The cache of build results. Runs in: the engine, as the user who owns the directory. */
#include "artifact.h"

#include "base/array.h"
#include "base/fd.h"
#include "base/hex.h"

#include <dirent.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STORE_BYTES_MAX (256ll << 20)
#define STORE_BYTES_KEPT (STORE_BYTES_MAX / 4 * 3)

/* -- the directory -------------------------------------------------------------------------------------------- */

static int default_directory(uid_t owner, char *ret, size_t size)
{
        const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
        char base[3000];

        if (cache && cache[0] == '/')
                snprintf(base, sizeof(base), "%s", cache);
        else if (home && home[0] == '/')
                snprintf(base, sizeof(base), "%s/.cache", home);
        else
                return -ENOENT;
        return snprintf(ret, size, "%s/cloche/builds-%u", base, (unsigned)owner) < (int)size ? 0 : -ENAMETOOLONG;
}

static int make_directories(char *path)
{
        for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                if (mkdir(path, 0700) < 0 && errno != EEXIST)
                        return -errno;
                *slash = '/';
        }
        return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int belongs_to(const struct stat *st, uid_t owner)
{
        return st->st_uid == owner && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

int artifacts_open(const char *directory, uid_t owner)
{
        _cleanup_fd_ int fd = -EBADF;
        char path[4096];
        struct stat st;
        int r;

        if (directory && !directory[0])
                return -ENOENT;
        r = directory ? (snprintf(path, sizeof(path), "%s", directory) < (int)sizeof(path) ? 0 : -ENAMETOOLONG)
                      : default_directory(owner, path, sizeof(path));
        if (r == 0)
                r = make_directories(path);
        if (r < 0)
                return r;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid == geteuid() && st.st_uid != owner && (fchown(fd, owner, (gid_t)-1) < 0 || fstat(fd, &st) < 0))
                return -errno;
        return belongs_to(&st, owner) ? TAKE_FD(fd) : -EPERM;
}

/* -- keys ----------------------------------------------------------------------------------------------------- */

void artifact_key(const struct artifact_part *parts, size_t count, char ret[ARTIFACT_KEY_SIZE])
{
        uint8_t digest[SHA256_DIGEST_SIZE];
        struct sha256_ctx hash;

        sha256_init(&hash);
        for (size_t i = 0; i < count; i++) {
                uint64_t size = parts[i].size;

                sha256_update(&hash, sizeof(size), (const uint8_t *)&size);
                if (size)
                        sha256_update(&hash, parts[i].size, parts[i].data);
        }
        sha256_digest(&hash, sizeof(digest), digest);
        hex_write(ret, digest, sizeof(digest));
}

/* -- artifacts ------------------------------------------------------------------------------------------------ */

int artifact_load(int artifacts_fd, const char *key, struct buf *ret)
{
        _cleanup_fd_ int fd = artifacts_fd < 0 ? -EBADF : openat(artifacts_fd, key, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st, directory;
        char *room;

        if (fd < 0 || fstat(fd, &st) < 0 || fstat(artifacts_fd, &directory) < 0 || !S_ISREG(st.st_mode) ||
            !belongs_to(&st, directory.st_uid) || st.st_size > ARTIFACT_BYTES_MAX)
                return 0;
        room = buf_reserve(ret, (size_t)st.st_size);
        if (!room || fd_read_full(fd, room, (size_t)st.st_size) < 0)
                return 0;
        ret->size += (size_t)st.st_size;
        (void)futimens(fd, NULL); /* mark it as used */
        return 1;
}

struct row {
        char name[ARTIFACT_KEY_SIZE];
        off_t size;
        struct timespec used;
};

static int by_use(const void *a, const void *b)
{
        const struct timespec *left = &((const struct row *)a)->used, *right = &((const struct row *)b)->used;

        if (left->tv_sec != right->tv_sec)
                return left->tv_sec < right->tv_sec ? -1 : 1;
        return left->tv_nsec < right->tv_nsec ? -1 : left->tv_nsec > right->tv_nsec;
}

static int list(int artifacts_fd, struct row **ret, size_t *ret_count, long long *ret_bytes)
{
        int fd = openat(artifacts_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct row *rows = NULL;
        size_t count = 0, room = 0;
        struct stat st;
        int r = 0;

        if (!dir) {
                r = -errno;
                fd_close(&fd);
                return r;
        }
        *ret_bytes = 0;
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                if (strlen(entry->d_name) != ARTIFACT_KEY_SIZE - 1 ||
                    fstatat(artifacts_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                r = ARRAY_GROW(rows, count, room);
                if (r < 0)
                        break;
                memcpy(rows[count].name, entry->d_name, ARTIFACT_KEY_SIZE);
                rows[count].size = st.st_size;
                rows[count++].used = st.st_mtim;
                *ret_bytes += st.st_size;
        }
        closedir(dir);
        *ret = rows;
        *ret_count = count;
        return r;
}

static void tidy(int artifacts_fd)
{
        struct row *rows = NULL;
        long long bytes = 0;
        size_t count = 0;

        if (list(artifacts_fd, &rows, &count, &bytes) == 0 && bytes > STORE_BYTES_MAX) {
                qsort(rows, count, sizeof(*rows), by_use);
                for (size_t i = 0; i < count && bytes > STORE_BYTES_KEPT; i++)
                        if (unlinkat(artifacts_fd, rows[i].name, 0) == 0)
                                bytes -= rows[i].size;
        }
        free(rows);
}

int artifact_save(int artifacts_fd, const char *key, const void *data, size_t size)
{
        _cleanup_fd_ int fd = -EBADF;
        char unfinished[ARTIFACT_KEY_SIZE + 16];
        int r;

        if (artifacts_fd < 0 || size > ARTIFACT_BYTES_MAX)
                return artifacts_fd < 0 ? -ENOENT : -EFBIG;
        snprintf(unfinished, sizeof(unfinished), "%s.%d", key, getpid());
        fd = openat(artifacts_fd, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = fd_write_full(fd, data, size);
        /* Rename it into place: another process may look for it, and must find all of it or
         * nothing. */
        if (r == 0 && renameat(artifacts_fd, unfinished, artifacts_fd, key) < 0)
                r = -errno;
        if (r < 0)
                unlinkat(artifacts_fd, unfinished, 0);
        else
                tidy(artifacts_fd);
        return r;
}
