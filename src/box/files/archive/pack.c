/* Runs in: cloche-files, within a box, with its user's rights. Archives come from anyone. */
#include "pack.h"

#include "archive.h"
#include "base/array.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/files/operations.h"
#include "box/files/search/path-filter.h"
#include "box/files/tree/atomic-file.h"
#include "box/files/tree/path.h"
#include "box/files/tree/walk.h"
#include "helpers/fs/rules/link.h"
#include "jail/root/plan.h"
#include "proto/image.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PART_BYTES (256u << 10)

/* Modes of directories on the way down, to be put back on the way up; 0: unchanged. */
struct modes {
        mode_t *rows;
        size_t count, room;
        mode_t found; /* of the directory found last */
};

struct pack {
        struct archive *archive;
        struct archive_entry_linkresolver *links; /* for tar: a file with several names is stored once */
        struct path_filter filter;
        int is_zip;
        int refuses_links;   /* refuse links that lead out of the tree */
        int is_change;       /* in the layers of a writable root, which are read-only here */
        int is_saving;       /* give the owner, who packs, the rights to read */
        int is_system;       /* leave out the directories of the box at the top */
        struct modes opened; /* of the directories on the way */
        dev_t saved_device;  /* of the first saved directory; 0: none yet */
        const char *prefix;  /* prefix of members' names: "" or ends in a slash */
        dev_t device[2];     /* the archive file itself: the new one and the one it replaces */
        ino_t inode[2];
        uint64_t files, bytes;
        char part[PART_BYTES];
};

/* Report libarchive's error; most often the disk is full. */
static int fail(struct pack *p, const char *path, struct cloche_err *e)
{
        int reason = archive_errno(p->archive);
        const char *text = archive_error_string(p->archive);

        if (reason > 0)
                return files_os(e, reason, "pack %s", path);
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "pack %s: %s", path, text ? text : "it does not fit the format");
}

static int is_itself(const struct pack *p, const struct stat *status)
{
        for (int i = 0; i < 2; i++)
                if (p->inode[i] == status->st_ino && p->device[i] == status->st_dev)
                        return 1;
        return 0;
}

/* -- one member ----------------------------------------------------------------------------------------------- */

/* Record the data ranges, so that unpacking restores holes. */
static void describe_holes(struct archive_entry *entry, int fd, const struct stat *status)
{
        off_t data = 0, hole = 0;

        if ((uint64_t)status->st_blocks * 512 >= (uint64_t)status->st_size)
                return;
        while (hole < status->st_size && (data = lseek(fd, hole, SEEK_DATA)) >= 0 &&
               (hole = lseek(fd, data, SEEK_HOLE)) > data)
                archive_entry_sparse_add_entry(entry, data, hole - data);
        if (archive_entry_sparse_count(entry) == 0)
                archive_entry_sparse_add_entry(entry, status->st_size, 0);
}

/* Write as many bytes as the header states, even if the file changes meanwhile. */
static int write_contents(struct pack *p, int fd, const char *path, uint64_t size, struct cloche_err *e)
{
        for (uint64_t done = 0; done < size;) {
                size_t wanted = size - done < PART_BYTES ? (size_t)(size - done) : PART_BYTES;
                ssize_t n = pread(fd, p->part, wanted, (off_t)done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return files_os(e, errno, "read %s", path);
                if (n == 0) {
                        memset(p->part, 0, wanted);
                        n = (ssize_t)wanted;
                }
                if (archive_write_data(p->archive, p->part, (size_t)n) != n)
                        return fail(p, path, e);
                done += (uint64_t)n;
        }
        p->bytes += size;
        return 0;
}

static int write_member(struct pack *p, struct archive_entry *entry, int fd, const char *path, struct cloche_err *e)
{
        struct archive_entry *rest = NULL;
        int r;

        if (!p->is_zip)
                archive_entry_linkify(p->links, &entry, &rest);
        if (p->is_zip)
                archive_name(archive_entry_pathname(entry));
        r = archive_write_header(p->archive, entry);
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
                return fail(p, path, e);
        p->files += archive_entry_filetype(entry) != AE_IFDIR || archive_entry_hardlink(entry);
        if (archive_entry_hardlink(entry) || archive_entry_size(entry) <= 0)
                return 0;
        return write_contents(p, fd, path, (uint64_t)archive_entry_size(entry), e);
}

/* Overlayfs shows a removed file as this device. */
static int is_whiteout(const struct pack *p, const struct stat *status)
{
        return p->is_change && S_ISCHR(status->st_mode) && status->st_rdev == 0;
}

static void describe_layer(struct archive_entry *entry, int dir_fd, const char *name, const struct stat *status)
{
        _cleanup_fd_ int fd = S_ISDIR(status->st_mode)
                                      ? openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                      : -EBADF;
        char value;

        if (fd >= 0 && fgetxattr(fd, PACK_OPAQUE, &value, 1) == 1 && value == 'y')
                archive_entry_xattr_add_entry(entry, PACK_OPAQUE, "y", 1);
}

static int describe(struct archive_entry *entry, int dir_fd, const char *name, const char *path,
                    const struct stat *status)
{
        char target[PATH_MAX];
        ssize_t size;

        archive_entry_copy_stat(entry, status);
        archive_entry_copy_pathname(entry, path);
        if (!S_ISREG(status->st_mode))
                archive_entry_set_size(entry, 0);
        if (!S_ISLNK(status->st_mode))
                return 0;
        size = readlinkat(dir_fd, name, target, sizeof(target) - 1);
        if (size < 0)
                return -errno;
        target[size] = '\0';
        archive_entry_copy_symlink(entry, target);
        return 0;
}

/* True if the entry has vanished or, when saving a box, its user may not read it. */
static int is_passed_over(const struct pack *p, int reason)
{
        return reason == ENOENT || (p->is_saving && (reason == EACCES || reason == EPERM || reason == ELOOP));
}

static int write_described(struct pack *p, struct archive_entry *entry, int dir_fd, const char *name, const char *path,
                           int fd, const struct stat *status, struct cloche_err *e)
{
        int r = describe(entry, dir_fd, name, path, status);

        if (r < 0)
                return is_passed_over(p, -r) ? 0 : files_os(e, -r, "read the link %s", path);
        if (p->refuses_links && S_ISLNK(status->st_mode)) {
                const char *fault = link_fault(path, archive_entry_symlink(entry));

                if (fault)
                        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.200s %s, which \"links\": \"inside\" refuses", path,
                                       fault);
        }
        if (p->is_change)
                describe_layer(entry, dir_fd, name, status);
        if (fd >= 0 && !p->is_zip)
                describe_holes(entry, fd, status);
        return write_member(p, entry, fd, path, e);
}

/* Layers are read-only; the same file is in the directory of the image. */
static int set_mode(const struct pack *p, int dir_fd, const char *name, const char *path, mode_t mode)
{
        char place[PATH_MAX];

        if (!p->is_change)
                return fchmodat(dir_fd, name, mode & 07777, 0);
        return snprintf(place, sizeof(place), "/%s", path) >= (int)sizeof(place) ? -1 : chmod(place, mode & 07777);
}

/* The entry is the guest's, and may be gone meanwhile. */
static void put_mode_back(const struct pack *p, int dir_fd, const char *name, const char *path, mode_t mode)
{
        int ignored = set_mode(p, dir_fd, name, path, mode);

        (void)ignored;
}

/* The descriptor, or -1 with errno. The box's user may take the right to read from its own
 * files: when saving it is given for as long as the file is opened. A link in the place of the
 * file meanwhile leads to another file of the same user at most. */
static int open_readable(const struct pack *p, int dir_fd, const char *name, const char *path,
                         const struct stat *status)
{
        const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
        int fd = openat(dir_fd, name, flags);

        if (fd >= 0 || errno != EACCES || !p->is_saving ||
            set_mode(p, dir_fd, name, path, status->st_mode | S_IRUSR) < 0)
                return fd;
        fd = openat(dir_fd, name, flags);
        put_mode_back(p, dir_fd, name, path, status->st_mode);
        return fd;
}

static int pack_one(struct pack *p, int dir_fd, const char *name, const char *path, struct cloche_err *e)
{
        struct archive_entry *entry = NULL;
        _cleanup_fd_ int fd = -EBADF;
        struct stat status;
        mode_t mode;
        int r;

        if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return is_passed_over(p, errno) ? 0 : files_os(e, errno, "look at %s", path);
        mode = status.st_mode;
        if (S_ISREG(mode)) {
                fd = open_readable(p, dir_fd, name, path + strlen(p->is_change ? p->prefix : ""), &status);
                if (fd < 0)
                        return is_passed_over(p, errno) ? 0 : files_os(e, errno, "read %s", path);
                if (fstat(fd, &status) < 0)
                        return files_os(e, errno, "look at %s", path);
                status.st_mode = mode; /* as it was before */
        }
        entry = archive_entry_new();
        if (!entry)
                return request_no_memory(e);
        r = write_described(p, entry, dir_fd, name, path, fd, &status, e);
        archive_entry_free(entry);
        return r;
}

/* Give the owner all rights to a directory that was packed, before it is walked. */
static void open_directory(struct pack *p, const struct walk_entry *entry)
{
        mode_t mode = entry->status->st_mode & 07777;

        p->opened.found = 0;
        if ((mode & S_IRWXU) != S_IRWXU && set_mode(p, entry->dir_fd, entry->name, entry->path, mode | S_IRWXU) == 0)
                p->opened.found = entry->status->st_mode;
}

static int keep_mode(struct pack *p, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        struct modes *opened = &p->opened;

        if (event == WALK_LEAVE) {
                mode_t mode = opened->rows[--opened->count];

                if (mode)
                        put_mode_back(p, entry->dir_fd, entry->name, entry->path, mode);
                return WALK_ON;
        }
        if (ARRAY_GROW(opened->rows, opened->count, opened->room) < 0)
                return request_no_memory(e);
        opened->rows[opened->count++] = opened->found;
        opened->found = 0;
        return WALK_ON;
}

/* True for a directory of the box that is none of its image. Only in a box with a root
 * of its own is the user 0. */
static int is_of_box(const char *path)
{
        const size_t size = strlen(path);

        return image_top_is_box(path, size) && !(geteuid() == 0 && image_top_is_roots(path, size));
}

/* Pipes, sockets and devices cannot be unpacked, so they are skipped. */
static int pack_found(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        mode_t mode = entry->status->st_mode;
        _cleanup_text_ char *path = NULL;
        struct pack *p = data;
        int r;

        if (event != WALK_FOUND)
                return p->is_saving ? keep_mode(p, event, entry, e) : WALK_ON;
        if (is_itself(p, entry->status) || path_is_temporary(entry->name) ||
            path_filter_excludes(&p->filter, entry->path))
                return WALK_PASS_OVER;
        if (p->is_saving && entry->status->st_dev != p->saved_device)
                return WALK_PASS_OVER; /* a mount of the box */
        if (p->is_system && is_of_box(entry->path))
                return WALK_PASS_OVER;
        if (!S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode) && !is_whiteout(p, entry->status))
                return WALK_ON;
        path = *p->prefix ? path_join(p->prefix, entry->path) : strdup(entry->path);
        r = path ? pack_one(p, entry->dir_fd, entry->name, path, e) : request_no_memory(e);
        if (r == 0 && p->is_saving && S_ISDIR(mode))
                open_directory(p, entry);
        return r < 0 ? r : WALK_ON;
}

/* -- the operation -------------------------------------------------------------------------------------------- */

static int pack_path(struct pack *p, const char *path, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct walk_options walk = {.visit = pack_found, .data = p};
        _cleanup_text_ char *target = NULL;
        int r;

        if (fd >= 0)
                return walk_tree(fd, &walk, e);
        if (errno != ENOTDIR)
                return files_os(e, errno, "open %s", path);
        target = strdup(path);
        if (!target)
                return request_no_memory(e);
        r = place_follow(&target, e);
        return r < 0 ? r : pack_one(p, AT_FDCWD, target, path_name(path), e);
}

static void remember_itself(struct pack *p, int i, int r, const struct stat *status)
{
        p->device[i] = r == 0 ? status->st_dev : 0;
        p->inode[i] = r == 0 ? status->st_ino : 0;
}

static int pack(struct pack *p, struct files_request *q, const char *path, const char *to, int fd, struct cloche_err *e)
{
        struct stat status;
        int r;

        remember_itself(p, 0, fstat(fd, &status), &status);
        remember_itself(p, 1, stat(to, &status), &status);
        r = archive_begin(fd, request_text(q, "format"), path_name(to), &p->archive, &p->is_zip, e);
        if (r < 0)
                return r;
        p->links = archive_entry_linkresolver_new();
        if (!p->links)
                return request_no_memory(e);
        archive_entry_linkresolver_set_strategy(p->links, ARCHIVE_FORMAT_TAR);
        r = pack_path(p, path, e);
        if (r == 0 && archive_write_close(p->archive) != ARCHIVE_OK)
                r = fail(p, to, e);
        return r;
}

static int read_links(struct pack *p, const struct files_request *q, struct cloche_err *e)
{
        const char *links = json_string_value(json_object_get(q->params, "links"));

        p->refuses_links = links && strcmp(links, "inside") == 0;
        if (links && !p->refuses_links && strcmp(links, "any") != 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"links\" is \"%.40s\", expected inside or any", links);
        return 0;
}

int archive_create(struct files_request *q, struct cloche_err *e)
{
        static struct pack p; /* large; one per process */
        _cleanup_text_ char *path = NULL, *to = NULL;
        _cleanup_place_ struct place place = PLACE_INIT;
        int r;

        p.prefix = "";
        r = read_links(&p, q, e);
        if (r == 0)
                r = request_path(q, "path", &path, e);
        if (r == 0)
                r = request_path(q, "to", &to, e);
        if (r == 0)
                r = path_filter_open(&p.filter, q, NULL, e);
        if (r == 0 && access(path, F_OK) < 0)
                r = files_os(e, errno, "look at %s", path);
        if (r == 0)
                r = place_follow(&to, e);
        if (r == 0)
                r = place_make_directories(to, 0, 0755, NULL, e);
        if (r == 0)
                r = files_place_open(&place, to, 0, e);
        if (r == 0)
                r = pack(&p, q, path, to, place.fd, e);
        if (p.links)
                archive_entry_linkresolver_free(p.links);
        archive_close(&p.archive);
        path_filter_done(&p.filter);
        if (r == 0)
                r = place_commit(&place, to, e);
        if (r < 0)
                return r;
        return request_answer(q,
                              json_pack("{s:s, s:s, s:I, s:I}", "path", path, "to", to, "files", (json_int_t)p.files,
                                        "bytes", (json_int_t)p.bytes),
                              e);
}

/* -- saving --------------------------------------------------------------------------------------------------- */

/* Pack the directory, then its contents. A directory that is missing or on another device than the
 * first belongs to the image or to no one. */
static int save_tree(struct pack *p, const char *path, struct cloche_err *e)
{
        struct walk_options walk = {.visit = pack_found, .data = p, .skips_denied = 1};
        _cleanup_text_ char *prefix = NULL;
        _cleanup_fd_ int fd = -EBADF;
        struct stat status;
        int r;

        if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & S_IRWXU) != S_IRWXU)
                (void)chmod(path, (status.st_mode & 07777) | S_IRWXU); /* open reports the error */
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT || is_passed_over(p, errno) ? 0
                                                                   : files_os(e, errno, "open the directory %s", path);
        if (fstat(fd, &status) < 0)
                return files_os(e, errno, "look at the directory %s", path);
        p->saved_device = p->saved_device ? p->saved_device : status.st_dev;
        if (status.st_dev != p->saved_device)
                return 0;
        walk.device = p->saved_device;
        path += strspn(path, "/");
        prefix = *path ? path_join(path, "") : strdup("");
        if (!prefix)
                return request_no_memory(e);
        p->prefix = prefix;
        r = pack_one(p, fd, ".", *path ? prefix : "./", e); /* that of the root has unpack clear a new one */
        return r < 0 ? r : walk_tree(fd, &walk, e);
}

/* The changes of a writable root, if there is one; after the root, whose members they do not
 * depend on. */
static int save_changes(struct pack *p, struct cloche_err *e)
{
        struct walk_options walk = {.visit = pack_found, .data = p, .skips_denied = 1, .device = p->saved_device};
        _cleanup_fd_ int fd = open("/" JAIL_CHANGES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return errno == ENOENT ? 0 : files_os(e, errno, "open the changes of the root");
        p->is_change = 1;
        p->prefix = JAIL_CHANGES "/";
        return walk_tree(fd, &walk, e);
}

static int save(int fd, char *const *paths, int is_system, struct cloche_err *e)
{
        static struct pack p;
        int r;

        p.is_saving = 1;
        p.is_system = is_system;
        r = archive_begin(fd, "tar.zst", "", &p.archive, &p.is_zip, e);
        if (r < 0)
                return r;
        p.links = archive_entry_linkresolver_new();
        if (p.links)
                archive_entry_linkresolver_set_strategy(p.links, ARCHIVE_FORMAT_TAR);
        else
                r = request_no_memory(e);
        for (; r == 0 && *paths; paths++)
                r = save_tree(&p, *paths, e);
        if (r == 0 && p.saved_device)
                r = save_changes(&p, e);
        if (r == 0 && archive_write_close(p.archive) != ARCHIVE_OK)
                r = fail(&p, "all of it", e);
        if (p.links)
                archive_entry_linkresolver_free(p.links);
        archive_close(&p.archive);
        return r;
}

int pack_save(int fd, char *const *paths, struct cloche_err *e)
{
        return save(fd, paths, 0, e);
}

int pack_system(int fd, struct cloche_err *e)
{
        char root[] = "/";

        return save(fd, (char *const[]){root, NULL}, 1, e);
}
