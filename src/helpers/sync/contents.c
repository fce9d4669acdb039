/* Copy new contents into the stage.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "contents.h"

#include "base/fd.h"
#include "crash.h"
#include "helpers/fs/tree/upper.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define SMALL_SIZE 65536 /* read and written at once; larger files are searched for holes and shared blocks */
#define ATTRIBUTES_MAX 65536

bool contents_must_stage(const struct plan *plan, uint32_t row)
{
        const struct plan_row *p = &plan->rows[row];

        return p->verdict == VERDICT_DO && !p->staged && plan->list->rows[row].type != CHANGE_RENAMED &&
               (p->how == HOW_PUT || p->how == HOW_SWAP);
}

static struct timespec time_of(int64_t ns)
{
        int64_t rest = ns % 1000000000;

        return (struct timespec){.tv_sec = ns / 1000000000 - (rest < 0), .tv_nsec = rest + (rest < 0 ? 1000000000 : 0)};
}

/* -- bytes ---------------------------------------------------------------------------------------------------- */

/* -ESTALE: the size differs from the size in the change. */
static int open_contents(const struct sync_change *c, int contents_fd, struct stat *ret)
{
        struct upper upper = {.dir_fd = contents_fd};
        _cleanup_fd_ int fd = upper_open(&upper, c->contents, O_RDONLY | O_NONBLOCK);

        if (fd < 0)
                return fd;
        if (fstat(fd, ret) < 0)
                return -errno;
        return S_ISREG(ret->st_mode) && (!c->has_size || (uint64_t)ret->st_size == c->size) ? TAKE_FD(fd) : -ESTALE;
}

static int copy_small(int to_fd, int from_fd, size_t size)
{
        static char bytes[SMALL_SIZE]; /* static: the build zeroes stack variables at each call */
        int r = fd_read_full(from_fd, bytes, size);

        return r < 0 ? r : fd_write_full(to_fd, bytes, size);
}

/* All contents stand in one file; the number is the offset plus one. */
static int copy_piece(const struct sync_change *c, int to_fd, int contents_fd)
{
        off_t at = (off_t)(c->contents - 1);

        if (!c->has_size)
                return -ESTALE;
        for (uint64_t left = c->size; left > 0;) {
                ssize_t n = sendfile(to_fd, contents_fd, &at, left);

                if (n <= 0)
                        return n < 0 ? -errno : -ESTALE;
                left -= (uint64_t)n;
        }
        return 0;
}

static int copy(const struct sync_change *c, int to_fd, int contents_fd)
{
        struct upper unbounded = {0};
        _cleanup_fd_ int from_fd = -EBADF;
        struct stat st;

        if (!c->contents)
                return 0;
        if (fstat(contents_fd, &st) == 0 && S_ISREG(st.st_mode))
                return copy_piece(c, to_fd, contents_fd);
        from_fd = open_contents(c, contents_fd, &st);
        if (from_fd < 0)
                return from_fd == -ENOENT ? -ESTALE : from_fd;
        return st.st_size <= SMALL_SIZE ? copy_small(to_fd, from_fd, (size_t)st.st_size)
                                        : upper_copy(&unbounded, to_fd, from_fd, (uint64_t)st.st_size);
}

/* -- attributes of the host's file that a change does not mention ---------------------------------------------- */

static void copy_attributes(int to_fd, int from_fd)
{
        static char names[ATTRIBUTES_MAX], value[ATTRIBUTES_MAX];
        ssize_t size = flistxattr(from_fd, names, sizeof(names));

        for (char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
                ssize_t length = fgetxattr(from_fd, name, value, sizeof(value));

                /* The kernel refuses system attributes to us, as it would to any
                 * other writer of the file. */
                if (length >= 0)
                        (void)!fsetxattr(to_fd, name, value, (size_t)length, 0);
        }
}

/* A file that cannot be read, or is leased, keeps only its owner and mode. */
static void take_over(const struct plan *plan, uint32_t row, int to_fd)
{
        const struct plan_row *p = &plan->rows[row];
        struct stat st;
        int fd;

        if (p->how != HOW_SWAP || !S_ISREG(p->found.st_mode))
                return;
        fd = lower_open_file(&plan->root, p->found_host ? p->found_host : plan->list->rows[row].path, &st);
        if (fd >= 0 && st.st_ino == p->found.st_ino)
                copy_attributes(to_fd, fd);
        fd_close(&fd);
}

/* -- kinds ---------------------------------------------------------------------------------------------------- */

/* Create the file nameless in its future directory, so that the file system places its inode near
 * its neighbours, as if the guest had written there. Created in the stage, ten thousand files
 * shared one block group of ext4 and took five times as long. */
static int open_nameless(struct plan *plan, uint32_t row, unsigned mode)
{
        char parent[LIST_PATH_MAX + 1];
        const struct directory *d;
        int fd;

        plan_parent(plan->list->rows[row].path, parent);
        d = plan_find_directory(plan, parent);
        if (d->error < 0 || !d->on_host)
                return -ENOENT;
        fd = openat(d->fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
        return fd < 0 ? -errno : fd;
}

static int open_new(struct plan *plan, uint32_t row, const struct stage *stage, const char *slot, unsigned mode)
{
        _cleanup_fd_ int fd = open_nameless(plan, row, mode);

        /* Needs Linux 6.10, or CAP_DAC_READ_SEARCH before. */
        if (fd >= 0 && linkat(fd, "", stage->dir_fd, slot, AT_EMPTY_PATH) == 0)
                return TAKE_FD(fd);
        fd_close(&fd);
        fd = openat(stage->dir_fd, slot, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        return fd < 0 ? -errno : TAKE_FD(fd);
}

static int make_file(struct plan *plan, uint32_t row, const struct stage *stage, const char *slot, int contents_fd)
{
        const struct sync_change *c = &plan->list->rows[row];
        const struct plan_row *p = &plan->rows[row];
        unsigned mode = c->has_mode ? c->mode : p->how == HOW_SWAP ? p->found.st_mode & 0777 : 0644;
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(c->mtime_ns)};
        _cleanup_fd_ int fd = open_new(plan, row, stage, slot, mode);
        struct stat st;
        int r;

        if (fd < 0)
                return fd;
        crash_point();
        r = copy(c, fd, contents_fd);
        if (r < 0)
                return r;
        take_over(plan, row, fd);
        if (fstat(fd, &st) < 0)
                return -errno;
        if (p->gid != (gid_t)-1 && p->gid != st.st_gid)
                (void)!fchown(fd, (uid_t)-1, p->gid); /* a user outside the group keeps the default group */
        if ((st.st_mode & 07777) != mode && fchmod(fd, mode) < 0)
                return -errno;
        plan->rows[row].ino = st.st_ino;
        return c->has_mtime && futimens(fd, times) < 0 ? -errno : 0;
}

static int make_directory(struct plan *plan, uint32_t row, const struct stage *stage, const char *slot)
{
        const struct plan_row *p = &plan->rows[row];

        if (mkdirat(stage->dir_fd, slot, 0700) < 0)
                return -errno;
        if (p->gid != (gid_t)-1)
                (void)!fchownat(stage->dir_fd, slot, (uid_t)-1, p->gid, AT_SYMLINK_NOFOLLOW);
        return 0;
}

static int make_symlink(struct plan *plan, uint32_t row, const struct stage *stage, const char *slot)
{
        const struct sync_change *c = &plan->list->rows[row];
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(c->mtime_ns)};

        if (symlinkat(c->target, stage->dir_fd, slot) < 0)
                return -errno;
        return c->has_mtime && utimensat(stage->dir_fd, slot, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int make_link(struct plan *plan, uint32_t row, const struct stage *stage, const char *slot)
{
        const struct plan_row *p = &plan->rows[row];
        _cleanup_fd_ int parent_fd = -EBADF;
        char other[STAGE_SLOT_SIZE];
        const char *name;

        if (!p->link_host) {
                stage_slot(other, 'n', p->link_row);
                return plan->rows[p->link_row].staged && linkat(stage->dir_fd, other, stage->dir_fd, slot, 0) == 0
                               ? 0
                               : -ENOENT;
        }
        parent_fd = step_open_parent(plan->root.root_fd, p->link_host, &name);
        if (parent_fd < 0)
                return parent_fd;
        return linkat(parent_fd, name, stage->dir_fd, slot, 0) < 0 ? -errno : 0;
}

static int make(struct plan *plan, uint32_t row, const struct stage *stage, const char *slot, int contents_fd)
{
        const struct sync_change *c = &plan->list->rows[row];

        if (c->link)
                return make_link(plan, row, stage, slot);
        if (c->kind == KIND_DIRECTORY)
                return make_directory(plan, row, stage, slot);
        if (c->kind == KIND_SYMLINK)
                return make_symlink(plan, row, stage, slot);
        return make_file(plan, row, stage, slot, contents_fd);
}

int contents_stage(struct plan *plan, uint32_t row, const struct stage *stage, int contents_fd)
{
        struct plan_row *p = &plan->rows[row];
        char slot[STAGE_SLOT_SIZE];
        struct stat st;
        int r;

        stage_slot(slot, 'n', row);
        crash_point();
        r = make(plan, row, stage, slot, contents_fd);
        if (r == 0 && !p->ino)
                r = fstatat(stage->dir_fd, slot, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : (int)(p->ino = st.st_ino, 0);
        if (r < 0) {
                unlinkat(stage->dir_fd, slot, 0);
                if (r == -ESTALE)
                        plan_fail(plan, row, "contents",
                                  "its contents are missing, or their size differs from the change's");
                else
                        plan_fail_errno(plan, row, -r, "make its contents");
                return -1;
        }
        p->staged = true;
        return 0;
}
