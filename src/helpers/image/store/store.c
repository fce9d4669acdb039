/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "store.h"

#include "base/err.h"
#include "base/fd.h"
#include "box/files/tree/walk.h"
#include "helpers/sync/crash.h"
#include "wire/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#define RECORD_BYTES_MAX (16u << 20)
#define BEGIN_ATTEMPTS 16

static int fail(struct cloche_err *e, const char *name)
{
        return err_os(e, CLOCHE_E_RESOURCE, errno, "the image store: %s", name);
}

/* -- open ----------------------------------------------------------------------------------------------------- */

static int open_folder(const struct store *store, const char *name, bool is_reader, int *ret, struct cloche_err *e)
{
        if (!is_reader && mkdirat(store->fd, name, 0700) < 0 && errno != EEXIST)
                return fail(e, name);
        *ret = openat(store->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (*ret < 0 && is_reader && errno == ENOENT)
                return 0; /* a store without images */
        return *ret < 0 ? fail(e, name) : 0;
}

int store_open(struct store *ret, int fd, bool keeps_ids, bool is_reader, struct cloche_err *e)
{
        struct stat status;
        int r;

        *ret = (struct store){fd, -EBADF, -EBADF, -EBADF, keeps_ids};
        if (fstat(fd, &status) < 0 || !S_ISDIR(status.st_mode))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the image store is no directory");
        if (status.st_uid != geteuid() || (status.st_mode & 077))
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "the image store must be its user's alone: chown and chmod 0700 the directory");
        r = open_folder(ret, "trees", is_reader, &ret->trees_fd, e);
        if (r == 0)
                r = open_folder(ret, "images", is_reader, &ret->images_fd, e);
        if (r == 0)
                r = open_folder(ret, "incoming", is_reader, &ret->incoming_fd, e);
        return r;
}

int store_refresh(struct store *store, struct cloche_err *e)
{
        int r = store->trees_fd >= 0 ? 0 : open_folder(store, "trees", true, &store->trees_fd, e);

        if (r == 0 && store->images_fd < 0)
                r = open_folder(store, "images", true, &store->images_fd, e);
        return r;
}

void store_close(struct store *store)
{
        fd_close(&store->trees_fd);
        fd_close(&store->images_fd);
        fd_close(&store->incoming_fd);
}

/* -- locks ---------------------------------------------------------------------------------------------------- */

int store_lock(const struct store *store, int *ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(store->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
                return fail(e, "lock");
        while (flock(fd, LOCK_EX) < 0)
                if (errno != EINTR)
                        return fail(e, "lock");
        *ret = TAKE_FD(fd);
        return 0;
}

static bool is_at(int dir_fd, const char *name, int fd)
{
        struct stat locked, now;

        return fstat(fd, &locked) == 0 && fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
               locked.st_ino == now.st_ino && locked.st_dev == now.st_dev;
}

int store_lock_tree(const struct store *store, const char *hex, bool for_removal, int *ret, struct cloche_err *e)
{
        char name[STORE_TREE_NAME_SIZE];
        _cleanup_fd_ int fd = -EBADF;

        store_tree_name(name, hex, "");
        fd = openat(store->trees_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? err_set(e, CLOCHE_E_NOT_FOUND, "the image store has no tree %s", name)
                                       : fail(e, name);
        if (flock(fd, (for_removal ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? err_set(e, CLOCHE_E_STATE, "the image's tree %s is in use", name)
                                            : fail(e, name);
        /* It may have been removed before it was locked. */
        if (!is_at(store->trees_fd, name, fd))
                return err_set(e, CLOCHE_E_NOT_FOUND, "the image store has no tree %s", name);
        *ret = TAKE_FD(fd);
        return 0;
}

struct timespec store_tree_used(const struct store *store, const char *hex)
{
        char name[STORE_TREE_NAME_SIZE];
        struct stat status;

        store_tree_name(name, hex, STORE_LISTING);
        if (fstatat(store->trees_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return (struct timespec){0};
        return status.st_mtim;
}

/* -- files ---------------------------------------------------------------------------------------------------- */

/* A killed writer leaves `.new`, which the next one replaces. */
int store_write(int dir_fd, const char *name, const char *text, size_t size, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        char beside[256];
        int r;

        snprintf(beside, sizeof(beside), "%s.new", name);
        fd = openat(dir_fd, beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return fail(e, name);
        crash_point();
        r = fd_write_full(fd, text, size);
        if (r == 0 && fsync(fd) < 0)
                r = -errno;
        crash_point();
        if (r == 0 && renameat(dir_fd, beside, dir_fd, name) < 0)
                r = -errno;
        crash_point();
        if (r == 0 && fsync(dir_fd) < 0)
                r = -errno;
        if (r == 0)
                return 0;
        unlinkat(dir_fd, beside, 0);
        errno = -r;
        return fail(e, name);
}

int store_write_json(int dir_fd, const char *name, const json_t *json, struct cloche_err *e)
{
        char *text = json_dump_text(json, JSON_INDENT(1) | JSON_SORT_KEYS);
        int r = text ? store_write(dir_fd, name, text, strlen(text), e) : work_no_memory(e);

        free(text);
        return r;
}

int store_read_json(int dir_fd, const char *name, json_t **ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_buf_ struct buf text = BUF_INIT(RECORD_BYTES_MAX);
        struct stat status;

        *ret = NULL;
        if (fd < 0)
                return errno == ENOENT ? 0 : fail(e, name);
        if (fstat(fd, &status) < 0)
                return fail(e, name);
        if (status.st_size > 0) {
                char *at = buf_reserve(&text, (size_t)status.st_size);

                if (!at)
                        return work_no_memory(e);
                if (fd_read_full(fd, at, (size_t)status.st_size) < 0)
                        return fail(e, name);
        }
        return json_load_text(text.data, (size_t)status.st_size, ret, e) < 0 ? err_wrap(e, "the image store: %s", name)
                                                                             : 0;
}

DIR *store_list(int dir_fd)
{
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir && fd >= 0) {
                close(fd);
                errno = ENOMEM;
        }
        return dir;
}

/* -- removal -------------------------------------------------------------------------------------------------- */

/* A directory without rights for its owner, in a store of an ordinary user. */
static void open_up(int dir_fd, const char *name, const struct stat *status)
{
        if ((status->st_mode & 0700) != 0700 && fchmodat(dir_fd, name, 0700, 0) < 0)
                return; /* opening it reports the error */
}

static int remove_found(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        bool is_directory = S_ISDIR(entry->status->st_mode);

        (void)data;
        if (event == WALK_ENTER)
                return WALK_ON;
        if (event == WALK_FOUND && is_directory) {
                open_up(entry->dir_fd, entry->name, entry->status);
                return WALK_ON;
        }
        if (unlinkat(entry->dir_fd, entry->name, is_directory ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "remove %.120s", entry->path);
        return WALK_ON;
}

int store_remove_tree(int dir_fd, const char *name, struct cloche_err *e)
{
        const struct walk_options walk = {.visit = remove_found};
        struct stat status;
        _cleanup_fd_ int fd = -EBADF;
        int r;

        if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : fail(e, name);
        if (!S_ISDIR(status.st_mode))
                return unlinkat(dir_fd, name, 0) < 0 ? fail(e, name) : 0;
        open_up(dir_fd, name, &status);
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return fail(e, name);
        r = walk_tree(fd, &walk, e);
        return r < 0 || unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 ? r : fail(e, name);
}

/* -- imports -------------------------------------------------------------------------------------------------- */

/* A sweep may remove the directory before it is locked: then there is another attempt. */
static int begin(const struct store *store, struct incoming *ret)
{
        struct stat status;
        uint64_t number;

        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
                return -errno;
        hex_write(ret->name, &number, sizeof(number));
        if (mkdirat(store->incoming_fd, ret->name, 0700) < 0)
                return -errno;
        crash_point();
        ret->fd = openat(store->incoming_fd, ret->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (ret->fd < 0)
                return errno == ENOENT ? -EAGAIN : -errno;
        if (flock(ret->fd, LOCK_EX | LOCK_NB) == 0 && fstat(ret->fd, &status) == 0 && status.st_nlink > 0)
                return 0;
        fd_close(&ret->fd);
        return -EAGAIN;
}

int incoming_begin(const struct store *store, struct incoming *ret, struct cloche_err *e)
{
        int r = -EAGAIN;

        ret->fd = -EBADF;
        for (int i = 0; r == -EAGAIN && i < BEGIN_ATTEMPTS; i++)
                r = begin(store, ret);
        errno = -r;
        return r < 0 ? fail(e, "begin an import") : 0;
}

void incoming_end(const struct store *store, struct incoming *incoming)
{
        if (incoming->fd < 0)
                return;
        crash_point();
        (void)!store_remove_tree(store->incoming_fd, incoming->name, NULL); /* prune finds it otherwise */
        fd_close(&incoming->fd);
}

static int sweep_one(const struct store *store, const char *name, uint64_t *ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(store->incoming_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
                return 0;
        ++*ret;
        return store_remove_tree(store->incoming_fd, name, e);
}

int incoming_sweep(const struct store *store, uint64_t *ret, struct cloche_err *e)
{
        DIR *dir = store_list(store->incoming_fd);
        int r = 0;

        if (!dir)
                return fail(e, "incoming");
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
                if (entry->d_name[0] != '.')
                        r = sweep_one(store, entry->d_name, ret, e);
        closedir(dir);
        return r;
}
