/* Runs in: cloche-files, within a box, with its user's rights. Archives come from anyone. */
#include "pack.h"
#include "unpack.h"

#include "base/array.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/files/request.h"
#include "box/files/tree/path.h"
#include "box/files/tree/tree.h"
#include "box/files/tree/walk.h"
#include "jail/ids.h"
#include "jail/root/plan.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define NOBODY 65534

/* Attributes to set on a directory after all its contents are written. */
struct later {
        char *path;
        mode_t mode;
        uid_t uid;
        gid_t gid;
        struct timespec time;
};

struct unpack {
        int top_fd;
        int dir_fd; /* directory of the last member; owned */
        char dir_path[MEMBER_PATH_MAX + 1];
        struct later *later;
        size_t later_count, later_room;
        uint64_t files, bytes;
        int is_restored; /* into directories, some of which belong to other users */
        int keeps_ids;   /* we are root of the box, which has more than one user */
        dev_t device;    /* of a new root, if a whole one is restored; else 0 */
};

/* Drops set-user-id and set-group-id. A file without a mode, as in some zip archives, gets a
 * default. */
static mode_t mode_of(const struct member *m)
{
        mode_t mode = archive_entry_perm(m->entry) & (m->is_own ? 07777 : 0777);

        return mode || m->is_own ? mode : m->kind == MEMBER_DIRECTORY ? 0755 : 0644;
}

/* An id that the box has not is nobody's there. */
static uint32_t id_of(int64_t id)
{
        return id >= 0 && id < IDS_IN_RANGE ? (uint32_t)id : NOBODY;
}

/* Before the mode: a change of the owner takes set-user-id away. */
static int give(const struct unpack *u, const struct member *m, int fd)
{
        return u->keeps_ids && fchown(fd, id_of(archive_entry_uid(m->entry)), id_of(archive_entry_gid(m->entry))) < 0
                       ? -1
                       : 0;
}

static struct timespec time_of(const struct member *m)
{
        return archive_entry_mtime_is_set(m->entry)
                       ? (struct timespec){archive_entry_mtime(m->entry), archive_entry_mtime_nsec(m->entry)}
                       : (struct timespec){.tv_nsec = UTIME_NOW};
}

/* -- directories ---------------------------------------------------------------------------------------------- */

/* Open the directory at path; create it and its parents as needed. */
static int make_below(int top_fd, const char *path)
{
        char part[MEMBER_PATH_MAX + 1];
        int fd = unpack_open_below(top_fd, path);

        if (fd != -ENOENT)
                return fd;
        strcpy(part, path);
        for (char *at = part;; at++) {
                _cleanup_fd_ int parent_fd = -EBADF;
                char end, *name;

                at = strchrnul(at, '/');
                end = *at;
                *at = '\0';
                name = strrchr(part, '/');
                if (name)
                        *name = '\0';
                parent_fd = unpack_open_below(top_fd, name ? part : "");
                if (parent_fd < 0)
                        return parent_fd;
                if (mkdirat(parent_fd, name ? name + 1 : part, 0755) < 0 && errno != EEXIST)
                        return -errno;
                if (name)
                        *name = '/';
                if (!end)
                        break;
                *at = end;
        }
        return unpack_open_below(top_fd, path);
}

/* Programs of the saved sandbox may have renamed the directories above a mount, and put
 * something else in its place. That is passed over: the new root has the mount there, and the
 * other files must come back. */
static int leads_into_mount(const struct unpack *u, const char *path)
{
        char part[MEMBER_PATH_MAX + 1];
        _cleanup_fd_ int fd = -EBADF;
        struct stat status;

        strcpy(part, path);
        while ((fd = unpack_open_below(u->top_fd, part)) == -ENOENT && *part) {
                char *slash = strrchr(part, '/');

                *(slash ? slash : part) = '\0';
        }
        return fd == -ENOTDIR || (fd >= 0 && fstat(fd, &status) == 0 && status.st_dev != u->device);
}

/* True for a mount, and for a directory above one: all others of a new root are
 * removed before (clear_root). */
static int is_mount(const struct unpack *u, int dir_fd, const char *name)
{
        struct stat status;

        return fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
               (S_ISDIR(status.st_mode) || status.st_dev != u->device);
}

/* Set u->dir_fd to the member's directory and *ret_name to its name there. 1: the member is
 * passed over. */
static int go_to(struct unpack *u, const struct member *m, const char **ret_name, struct cloche_err *e)
{
        const char *name = path_name(m->path);
        size_t size = name > m->path ? (size_t)(name - m->path) - 1 : 0;

        *ret_name = name;
        if (u->dir_fd >= 0 && strncmp(u->dir_path, m->path, size) == 0 && u->dir_path[size] == '\0')
                return 0;
        fd_close(&u->dir_fd);
        memcpy(u->dir_path, m->path, size);
        u->dir_path[size] = '\0';
        if (u->device && !m->is_change && leads_into_mount(u, u->dir_path))
                return 1;
        u->dir_fd = make_below(u->top_fd, u->dir_path);
        return u->dir_fd < 0 ? files_os(e, -u->dir_fd, "unpack %s", m->path) : 0;
}

static int remember(struct unpack *u, const struct member *m, struct cloche_err *e)
{
        if (ARRAY_GROW(u->later, u->later_count, u->later_room) < 0)
                return request_no_memory(e);
        u->later[u->later_count] = (struct later){.path = strdup(m->path),
                                                  .mode = mode_of(m),
                                                  .uid = id_of(archive_entry_uid(m->entry)),
                                                  .gid = id_of(archive_entry_gid(m->entry)),
                                                  .time = time_of(m)};
        return u->later[u->later_count].path ? (u->later_count++, 0) : request_no_memory(e);
}

/* True for a directory such as /proc in the archive of a root file system: it is there, and is none
 * that the box may change. */
static int is_mount_of_box(const struct unpack *u, int fd, int error)
{
        struct stat top, status;

        return fd >= 0 && (error == EROFS || error == EPERM) && fstat(u->top_fd, &top) == 0 &&
               fstat(fd, &status) == 0 && top.st_dev != status.st_dev;
}

/* From last to first: a directory precedes its contents. */
static int finish_directories(struct unpack *u, struct cloche_err *e)
{
        while (u->later_count > 0) {
                struct later *later = &u->later[--u->later_count];
                _cleanup_text_ char *path = later->path;
                struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, later->time};
                int error;
                _cleanup_fd_ int at_fd = unpack_open_below(u->top_fd, path),
                                 fd = at_fd < 0 ? at_fd : openat(at_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                if (fd >= 0 && (!u->keeps_ids || fchown(fd, later->uid, later->gid) == 0) &&
                    fchmod(fd, later->mode) == 0 && futimens(fd, times) == 0)
                        continue;
                error = at_fd < 0 ? -at_fd : errno;
                if (!(u->is_restored && error == EPERM) && !is_mount_of_box(u, fd, error))
                        return files_os(e, error, "finish the directory %s", path);
        }
        return 0;
}

/* -- members -------------------------------------------------------------------------------------------------- */

static int write_contents(struct unpack *u, struct archive *archive, const struct member *m, int fd,
                          struct cloche_err *e)
{
        const void *data;
        size_t size;
        int64_t at, end = 0;
        int r;

        while ((r = archive_piece(archive, m->path, &data, &size, &at, e)) > 0) {
                r = fd_pwrite_full(fd, data, size, at);
                if (r < 0)
                        return files_os(e, -r, "write %s", m->path);
                u->bytes += size;
                end = at + (int64_t)size > end ? at + (int64_t)size : end;
        }
        if (r == 0 && archive_entry_size_is_set(m->entry) && archive_entry_size(m->entry) > end &&
            ftruncate(fd, archive_entry_size(m->entry)) < 0)
                return files_os(e, errno, "write %s", m->path);
        return r;
}

static int write_file(struct unpack *u, struct archive *archive, const struct member *m, const char *name,
                      struct cloche_err *e)
{
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, time_of(m)};
        _cleanup_fd_ int fd = openat(u->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        int r;

        if (fd < 0)
                return files_os(e, errno, "write %s", m->path);
        r = write_contents(u, archive, m, fd, e);
        if (r == 0 && (give(u, m, fd) < 0 || fchmod(fd, mode_of(m)) < 0 || futimens(fd, times) < 0))
                return files_os(e, errno, "set owner, mode and time of %s", m->path);
        return r;
}

static int write_link(struct unpack *u, const struct member *m, const char *name, struct cloche_err *e)
{
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, time_of(m)};

        if (symlinkat(m->link, u->dir_fd, name) < 0)
                return files_os(e, errno, "make the link %s", m->path);
        if (u->keeps_ids && fchownat(u->dir_fd, name, id_of(archive_entry_uid(m->entry)),
                                     id_of(archive_entry_gid(m->entry)), AT_SYMLINK_NOFOLLOW) < 0)
                return files_os(e, errno, "set the owner of the link %s", m->path);
        utimensat(u->dir_fd, name, times, AT_SYMLINK_NOFOLLOW); /* some file systems do not keep times of links */
        return 0;
}

static int write_hard_link(struct unpack *u, const struct member *m, const char *name, struct cloche_err *e)
{
        _cleanup_text_ char *parent = NULL;
        _cleanup_fd_ int parent_fd = -EBADF;
        const char *target = path_name(m->link);
        int code;

        parent = strndup(m->link, target > m->link ? (size_t)(target - m->link) - 1 : 0);
        if (!parent)
                return request_no_memory(e);
        parent_fd = unpack_open_below(u->top_fd, parent);
        if (parent_fd >= 0 && linkat(parent_fd, target, u->dir_fd, name, 0) == 0)
                return 0;
        code = parent_fd < 0 ? -parent_fd : errno;
        if (u->device && (leads_into_mount(u, parent) || is_mount(u, parent_fd, target)))
                return 0;
        return files_os(e, code, "link %s to %s", m->path, m->link);
}

static int remove_directory(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        const dev_t *device = data;

        if (entry->status->st_dev != *device)
                return WALK_PASS_OVER;
        if (event == WALK_LEAVE && unlinkat(entry->dir_fd, entry->name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY)
                return files_os(e, errno, "remove the directory %s", entry->path);
        return WALK_ON;
}

/* Remove a link, or a directory with no more than directories in it. Mount points stay (EBUSY),
 * and so do the directories above them (ENOTEMPTY). */
static int remove_fresh(int dir_fd, const char *name, const struct stat *status, struct cloche_err *e)
{
        dev_t device = status->st_dev;
        const struct walk_options walk = {.visit = remove_directory, .data = &device};
        _cleanup_fd_ int fd = S_ISDIR(status->st_mode)
                                      ? openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                      : -EBADF;
        int r = fd < 0 ? 0 : walk_tree(fd, &walk, e);

        if (r == 0 && unlinkat(dir_fd, name, S_ISDIR(status->st_mode) ? AT_REMOVEDIR : 0) < 0 && errno != EBUSY &&
            errno != ENOTEMPTY)
                r = files_os(e, errno, "remove %s of a new root", name);
        return r;
}

/* Remove the entries that each new sandbox has in its root and that are not mounts: the archive
 * of a whole root has those that the saved one still had. Otherwise a removed one would come
 * back, and take an inode that the saved files need. */
static int clear_root(struct unpack *u, struct cloche_err *e)
{
        int fd = openat(u->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct stat root, status;

        if (!dir || fstat(fd, &root) < 0)
                r = files_os(e, errno, "list the new root");
        else
                u->device = root.st_dev;
        for (struct dirent *entry; r == 0 && (entry = readdir(dir)) != NULL;) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                    fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (status.st_dev == root.st_dev)
                        r = remove_fresh(fd, entry->d_name, &status, e);
        }
        if (dir)
                closedir(dir);
        return r;
}

static int write_directory(struct unpack *u, const struct member *m, const char *name, struct cloche_err *e)
{
        struct stat status;

        if (!*m->path)
                return u->is_restored ? clear_root(u, e) : 0;
        if (mkdirat(u->dir_fd, name, 0700) < 0) {
                if (errno != EEXIST)
                        return files_os(e, errno, "make the directory %s", m->path);
                if (u->device && !m->is_change && leads_into_mount(u, m->path))
                        return 0;
                if (fstatat(u->dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode))
                        return files_os(e, ENOTDIR, "make the directory %s", m->path);
                /* The image's mode may keep its owner out. The member's is set in the end. */
                if (m->is_change && (status.st_mode & S_IRWXU) != S_IRWXU &&
                    fchmodat(u->dir_fd, name, (status.st_mode & 07777) | S_IRWXU, 0) < 0)
                        return files_os(e, errno, "open the directory %s", m->path);
        }
        return remember(u, m, e);
}

/* Remove an existing entry first, so that nothing is written through a link. 1: the member is
 * passed over. */
static int clear(const struct unpack *u, const struct member *m, const char *name, struct cloche_err *e)
{
        int code;

        if (m->kind == MEMBER_DIRECTORY || unlinkat(u->dir_fd, name, 0) == 0 || errno == ENOENT)
                return 0;
        code = errno;
        return u->device && is_mount(u, u->dir_fd, name) ? 1 : files_os(e, code, "replace %s", m->path);
}

/* -- the layers of a writable root ---------------------------------------------------------------------------- */

/* True if the new root has a layer there: the image may lack the directory by now. */
static int has_layer(const struct unpack *u, const struct member *m)
{
        char path[sizeof(JAIL_CHANGES) + 256];
        struct stat status;

        return snprintf(path, sizeof(path), JAIL_CHANGES "/%.*s", (int)strcspn(m->path, "/"), m->path) <
                       (int)sizeof(path) &&
               fstatat(u->top_fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

/* Remove all that is there. The image may lack it, or the directories above it, by now. */
static int remove_lower(struct unpack *u, const struct member *m, struct cloche_err *e)
{
        _cleanup_text_ char *place = path_join("/", m->path);
        struct stat status;
        uint64_t removed = 0;

        fd_close(&u->dir_fd); /* it may be in what is removed */
        if (!place)
                return request_no_memory(e);
        if (lstat(place, &status) < 0)
                return errno == ENOENT || errno == ENOTDIR ? 0 : files_os(e, errno, "look at %s", place);
        return tree_remove(place, &removed, e);
}

/* Make room for a member of a layer: overlayfs keeps that in the new layer. 1: the member
 * is passed over, or done. */
static int clear_change(struct unpack *u, const struct member *m, struct cloche_err *e)
{
        struct stat status;
        int r;

        if (!has_layer(u, m) || (!strchr(m->path, '/') && m->kind != MEMBER_DIRECTORY))
                return 1;
        if (!strchr(m->path, '/'))
                return 0; /* the layer itself */
        if (m->kind == MEMBER_DIRECTORY && !m->is_opaque &&
            fstatat(u->top_fd, m->path, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode))
                return 0;
        r = remove_lower(u, m, e);
        return r < 0 ? r : m->kind == MEMBER_GONE;
}

static int is_link_to_itself(const struct member *m)
{
        return m->kind == MEMBER_HARD_LINK && strcmp(m->path, m->link) == 0;
}

static int write_member(struct unpack *u, struct archive *archive, const struct member *m, struct cloche_err *e)
{
        const char *name = NULL;
        int r;

        if (is_link_to_itself(m))
                return 0;
        r = m->is_change ? clear_change(u, m, e) : 0;
        if (r == 0)
                r = go_to(u, m, &name, e);
        if (r == 0)
                r = clear(u, m, name, e);
        if (r != 0)
                return r < 0 ? r : 0;
        u->files += m->kind != MEMBER_DIRECTORY;
        switch (m->kind) {
        case MEMBER_FILE:
                return write_file(u, archive, m, name, e);
        case MEMBER_LINK:
                return write_link(u, m, name, e);
        case MEMBER_HARD_LINK:
                return write_hard_link(u, m, name, e);
        case MEMBER_DIRECTORY:
        case MEMBER_GONE:
                break;
        }
        return write_directory(u, m, name, e);
}

static void replace_facts(const struct unpack_options *options, struct archive_entry *entry)
{
        if (options->uid >= 0)
                archive_entry_set_uid(entry, options->uid);
        if (options->gid >= 0)
                archive_entry_set_gid(entry, options->gid);
        if (options->has_mode && archive_entry_filetype(entry) != AE_IFLNK)
                archive_entry_set_perm(entry, options->mode);
}

/* options: NULL for a saved box. */
static int write_all(struct unpack *u, struct member *m, struct archive *archive, const char *path,
                     const struct unpack_options *options, struct cloche_err *e)
{
        struct archive_entry *entry;
        int r;

        while ((r = archive_next(archive, path, &entry, e)) > 0) {
                if (options)
                        replace_facts(options, entry);
                r = unpack_member(entry, m, e);
                if (r == 0)
                        r = write_member(u, archive, m, e);
                if (r < 0)
                        break;
        }
        if (r == 0)
                r = finish_directories(u, e);
        fd_close(&u->dir_fd);
        while (u->later_count > 0)
                free(u->later[--u->later_count].path);
        free(u->later);
        return r;
}

int unpack_write(int archive_fd, const char *path, int top_fd, const struct unpack_options *options, uint64_t *files,
                 uint64_t *bytes, struct cloche_err *e)
{
        static struct member m;
        static struct unpack u;
        _cleanup_archive_ struct archive *archive = NULL;
        int r = archive_open(archive_fd, path, &archive, e);

        m.is_own = 0;
        m.keeps_links = options->keeps_links;
        u = (struct unpack){.top_fd = top_fd, .dir_fd = -EBADF, .keeps_ids = geteuid() == 0};
        if (r == 0)
                r = write_all(&u, &m, archive, path, options, e);
        *files += u.files;
        *bytes += u.bytes;
        return r;
}

int unpack_restore(int fd, const char *directory, struct cloche_err *e)
{
        static struct member m;
        static struct unpack u;
        _cleanup_fd_ int top_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_archive_ struct archive *archive = NULL;
        int r;

        if (top_fd < 0)
                return files_os(e, errno, "open the directory %s", directory);
        m.is_own = 1;
        u = (struct unpack){.top_fd = top_fd, .dir_fd = -EBADF, .is_restored = 1, .keeps_ids = geteuid() == 0};
        r = archive_open_stream(fd, &archive, e);
        return r < 0 ? r : write_all(&u, &m, archive, "what was saved", NULL, e);
}
