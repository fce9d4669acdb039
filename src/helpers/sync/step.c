/* Do, undo and check single steps.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "step.h"

#include "base/array.h"
#include "base/fd.h"
#include "crash.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6 */
#endif
#define CONFLICT_NAMES_MAX 1000
#define UNDO_TRIES 100

/* -- lists ---------------------------------------------------------------------------------------------------- */

struct step *steps_add(struct steps *steps, enum step_op op, uint32_t number, const char *path)
{
        struct step *row;

        if (ARRAY_GROW(steps->rows, steps->count, steps->room) < 0)
                return NULL;
        row = &steps->rows[steps->count];
        *row = (struct step){.op = op, .number = number, .path = strdup(path)};
        if (!row->path)
                return NULL;
        steps->count++;
        return row;
}

void steps_done(struct steps *steps)
{
        for (size_t i = 0; i < steps->count; i++)
                free(steps->rows[i].path);
        free(steps->rows);
        *steps = (struct steps){0};
}

static void kept_add(struct kept_list *list, const char *path, const char *as)
{
        struct kept *row;

        if (ARRAY_GROW(list->rows, list->count, list->room) < 0)
                return;
        row = &list->rows[list->count];
        *row = (struct kept){strdup(path), strdup(as)};
        if (row->path && row->as) {
                list->count++;
                return;
        }
        free(row->path);
        free(row->as);
}

void kept_done(struct kept_list *list)
{
        for (size_t i = 0; i < list->count; i++) {
                free(list->rows[i].path);
                free(list->rows[i].as);
        }
        free(list->rows);
        *list = (struct kept_list){0};
}

/* -- places --------------------------------------------------------------------------------------------------- */

int step_open_parent(int root_fd, const char *path, const char **ret_name)
{
        struct lower root = {root_fd};
        char parent[LIST_PATH_MAX + 1];
        const char *slash = strrchr(path, '/');
        size_t size = slash ? (size_t)(slash - path) : 0;

        *ret_name = slash ? slash + 1 : path;
        if (size > LIST_PATH_MAX)
                return -ENAMETOOLONG;
        memcpy(parent, path, size);
        parent[size] = '\0';
        return lower_open(&root, parent, O_PATH | O_DIRECTORY);
}

bool step_conflict_name(const char *name, unsigned number, char ret[LIST_NAME_MAX + 1])
{
        const char *dot = strrchr(name, '.');
        int size = dot && dot != name ? (int)(dot - name) : (int)strlen(name);

        return snprintf(ret, LIST_NAME_MAX + 1, "%.*s.cloche-conflict-%u%s", size, name, number, name + size) <=
               LIST_NAME_MAX;
}

static void step_slot(const struct step *step, char ret[STAGE_SLOT_SIZE])
{
        stage_slot(ret, step->op == STEP_TAKE || step->flags & STEP_FROM_OLD ? 'o' : 'n', step->number);
}

static int stat_entry(int dir_fd, const char *name, struct stat *ret)
{
        return fstatat(dir_fd, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Move a slot's contents beside their old place, or to the root if that directory is gone. 0 or
 * -errno. */
static int keep_beside(const struct steps_run *run, const char *slot, const char *path)
{
        char as[LIST_PATH_MAX + LIST_NAME_MAX + 2], other[LIST_NAME_MAX + 1];
        const char *name;
        _cleanup_fd_ int parent_fd = step_open_parent(run->stage->root_fd, path, &name);
        int front = parent_fd < 0 ? 0 : (int)(name - path), dir_fd = parent_fd < 0 ? run->stage->root_fd : parent_fd;

        for (unsigned i = 1; i <= CONFLICT_NAMES_MAX; i++) {
                if (!step_conflict_name(name, i, other))
                        snprintf(other, sizeof(other), "cloche-conflict-%u", i);
                if (renameat2(run->stage->dir_fd, slot, dir_fd, other, RENAME_NOREPLACE) == 0) {
                        snprintf(as, sizeof(as), "%.*s%s", front, path, other);
                        kept_add(run->kept, path, as);
                        return 0;
                }
                if (errno != EEXIST && dir_fd == run->stage->root_fd)
                        return -errno;
                if (errno != EEXIST) {
                        dir_fd = run->stage->root_fd;
                        front = 0;
                        i = 0;
                }
        }
        return -EEXIST;
}

static bool is_expected(const struct step *step, const struct stat *st)
{
        struct lower_identity found;

        lower_identify(st, &found);
        if ((step->displaced_mode & S_IFMT) != (st->st_mode & S_IFMT))
                return false;
        if (step->flags & STEP_ANY)
                return true;
        /* Entries change a directory's size and time, also by our own steps. */
        return S_ISDIR(st->st_mode) ? found.dev == step->displaced.dev && found.ino == step->displaced.ino
                                    : lower_same(&found, &step->displaced);
}

static bool is_empty(int dir_fd, const char *name)
{
        int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry = NULL;

        if (!dir) {
                fd_close(&fd);
                return false;
        }
        while ((entry = readdir(dir)) && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)) {
        }
        closedir(dir);
        return !entry;
}

/* True if the displaced entry is the expected one. It will be deleted, so a directory must be
 * empty. */
static bool is_slot_expected(const struct steps_run *run, const struct step *step, const char *slot)
{
        bool is_removed = step->op == STEP_SWAP || !(step->flags & STEP_FROM_OLD);
        struct stat st;

        if (stat_entry(run->stage->dir_fd, slot, &st) < 0 || !is_expected(step, &st))
                return false;
        return !is_removed || !S_ISDIR(st.st_mode) || is_empty(run->stage->dir_fd, slot);
}

static bool has_inode(int dir_fd, const char *name, uint64_t ino)
{
        struct stat st;

        return stat_entry(dir_fd, name, &st) == 0 && st.st_ino == ino;
}

/* -- taking --------------------------------------------------------------------------------------------------- */

static int take_back(const struct steps_run *run, const struct step *step, const char *slot)
{
        const char *name;
        _cleanup_fd_ int parent_fd = step_open_parent(run->stage->root_fd, step->path, &name);

        if (parent_fd >= 0 && renameat2(run->stage->dir_fd, slot, parent_fd, name, RENAME_NOREPLACE) == 0)
                return 0;
        return keep_beside(run, slot, step->path);
}

static int is_taken(const struct steps_run *run, const struct step *step)
{
        char slot[STAGE_SLOT_SIZE], put[STAGE_SLOT_SIZE];
        struct stat st;
        int r;

        step_slot(step, slot);
        stage_slot(put, 'p', step->number);
        r = stat_entry(run->stage->dir_fd, slot, &st);
        if (r == -ENOENT)
                r = stat_entry(run->stage->dir_fd, put, &st);
        return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static int undo_take(const struct steps_run *run, const struct step *step)
{
        char slot[STAGE_SLOT_SIZE];
        struct stat st;
        int r;

        step_slot(step, slot);
        r = stat_entry(run->stage->dir_fd, slot, &st);
        return r == -ENOENT ? 0 : r < 0 ? r : take_back(run, step, slot);
}

/* -- putting -------------------------------------------------------------------------------------------------- */

static int do_put(const struct steps_run *run, const struct step *step)
{
        const char *name;
        _cleanup_fd_ int parent_fd = step_open_parent(run->stage->root_fd, step->path, &name);
        char slot[STAGE_SLOT_SIZE], mark[STAGE_SLOT_SIZE];

        if (parent_fd < 0)
                return parent_fd;
        step_slot(step, slot);
        stage_slot(mark, 'p', step->number);
        /* Without the mark, a missing o<N> could mean that it was never taken. */
        if (step->flags & STEP_FROM_OLD && mknodat(run->stage->dir_fd, mark, S_IFREG | 0600, 0) < 0 && errno != EEXIST)
                return -errno;
        crash_point();
        if (renameat2(run->stage->dir_fd, slot, parent_fd, name, RENAME_NOREPLACE) < 0)
                return errno == EEXIST ? STEP_CONFLICT : -errno;
        return 0;
}

static int is_put(const struct steps_run *run, const struct step *step)
{
        char slot[STAGE_SLOT_SIZE], mark[STAGE_SLOT_SIZE];
        struct stat st;
        int r;

        step_slot(step, slot);
        stage_slot(mark, 'p', step->number);
        r = stat_entry(run->stage->dir_fd, slot, &st);
        if (r == 0)
                return 0;
        if (r != -ENOENT)
                return r;
        return step->flags & STEP_FROM_OLD ? stat_entry(run->stage->dir_fd, mark, &st) == 0 : 1;
}

/* Take our entry out if it is still there; a directory in which the host has created something
 * stays. */
static int take_ours(const struct steps_run *run, const struct step *step, const char *slot)
{
        const char *name;
        _cleanup_fd_ int parent_fd = step_open_parent(run->stage->root_fd, step->path, &name);
        struct stat st;

        if (parent_fd < 0 || !has_inode(parent_fd, name, step->moved))
                return 0;
        if (renameat2(parent_fd, name, run->stage->dir_fd, slot, RENAME_NOREPLACE) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (stat_entry(run->stage->dir_fd, slot, &st) < 0)
                return -errno;
        if (st.st_ino == step->moved &&
            (step->flags & STEP_FROM_OLD || !S_ISDIR(st.st_mode) || is_empty(run->stage->dir_fd, slot)))
                return 0;
        return take_back(run, step, slot);
}

static int undo_put(const struct steps_run *run, const struct step *step)
{
        char slot[STAGE_SLOT_SIZE], mark[STAGE_SLOT_SIZE];
        struct stat st;
        int r;

        step_slot(step, slot);
        stage_slot(mark, 'p', step->number);
        r = stat_entry(run->stage->dir_fd, slot, &st);
        if (r == -ENOENT)
                r = take_ours(run, step, slot);
        if (r < 0)
                return r;
        crash_point();
        if (step->flags & STEP_FROM_OLD && unlinkat(run->stage->dir_fd, mark, 0) < 0 && errno != ENOENT)
                return -errno;
        return 0;
}

/* -- exchanging ----------------------------------------------------------------------------------------------- */

/* Exchange the two again; an entry that came in between is kept beside. */
static int swap_back(const struct steps_run *run, const struct step *step, int parent_fd, const char *name,
                     const char *slot)
{
        if (renameat2(run->stage->dir_fd, slot, parent_fd, name, RENAME_EXCHANGE) < 0) {
                if (errno != ENOENT)
                        return -errno;
                return renameat2(run->stage->dir_fd, slot, parent_fd, name, RENAME_NOREPLACE) < 0 ? -errno : 0;
        }
        return has_inode(run->stage->dir_fd, slot, step->moved) ? 0 : keep_beside(run, slot, step->path);
}

/* Exchange the entry of the directory with the slot, or move it into the empty slot. */
static int do_move(const struct steps_run *run, const struct step *step, unsigned flags)
{
        const char *name;
        _cleanup_fd_ int parent_fd = step_open_parent(run->stage->root_fd, step->path, &name);
        char slot[STAGE_SLOT_SIZE];
        struct stat st;
        int r;

        if (parent_fd < 0)
                return parent_fd;
        r = stat_entry(parent_fd, name, &st);
        if (r < 0 || !is_expected(step, &st))
                return r < 0 && r != -ENOENT ? r : STEP_CONFLICT;
        step_slot(step, slot);
        if (renameat2(parent_fd, name, run->stage->dir_fd, slot, flags) < 0)
                return errno == ENOENT ? STEP_CONFLICT : -errno;
        crash_point();
        if (is_slot_expected(run, step, slot))
                return 0;
        r = flags == RENAME_EXCHANGE ? swap_back(run, step, parent_fd, name, slot) : take_back(run, step, slot);
        return r < 0 ? r : STEP_CONFLICT;
}

static int do_take(const struct steps_run *run, const struct step *step)
{
        return do_move(run, step, RENAME_NOREPLACE);
}

static int do_swap(const struct steps_run *run, const struct step *step)
{
        return do_move(run, step, RENAME_EXCHANGE);
}

static int is_swapped(const struct steps_run *run, const struct step *step)
{
        char slot[STAGE_SLOT_SIZE];
        struct stat st;
        int r;

        step_slot(step, slot);
        r = stat_entry(run->stage->dir_fd, slot, &st);
        return r == -ENOENT ? 0 : r < 0 ? r : st.st_ino != step->moved;
}

static int undo_swap(const struct steps_run *run, const struct step *step)
{
        const char *name;
        _cleanup_fd_ int parent_fd = -EBADF;
        char slot[STAGE_SLOT_SIZE];
        int r = is_swapped(run, step);

        if (r <= 0)
                return r;
        step_slot(step, slot);
        parent_fd = step_open_parent(run->stage->root_fd, step->path, &name);
        if (parent_fd >= 0 && has_inode(parent_fd, name, step->moved))
                return swap_back(run, step, parent_fd, name, slot);
        return take_back(run, step, slot);
}

/* Keep the displaced entry beside its place, which cannot be reached. */
static int keep_swapped(const struct steps_run *run, const struct step *step)
{
        char slot[STAGE_SLOT_SIZE];

        step_slot(step, slot);
        return is_swapped(run, step) > 0 ? keep_beside(run, slot, step->path) : 0;
}

/* -- mode and time -------------------------------------------------------------------------------------------- */

/* A journal may be forged, so it never sets setuid, setgid or sticky bits of a file. */
static unsigned settable(const struct stat *st)
{
        return S_ISDIR(st->st_mode) ? 07777 : 0777;
}

static int set_mode(int fd, unsigned mode)
{
        char path[32];

        if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0)
                return 0;
        if (errno != ENOSYS)
                return -errno;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return chmod(path, mode) < 0 ? -errno : 0;
}

static int set_time(int fd, int64_t mtime_ns)
{
        int64_t rest = mtime_ns % 1000000000;
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = mtime_ns / 1000000000, .tv_nsec = (long)rest}};

        if (rest < 0) {
                times[1].tv_sec--;
                times[1].tv_nsec += 1000000000;
        }
        return utimensat(fd, "", times, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* O_PATH of the step's entry; -ESTALE if it is another one or missing. */
static int open_same(const struct steps_run *run, const struct step *step, struct stat *ret)
{
        struct lower root = {run->stage->root_fd};
        _cleanup_fd_ int fd = lower_open(&root, step->path, O_PATH);

        if (fd < 0)
                return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -ESTALE : fd;
        if (fstat(fd, ret) < 0)
                return -errno;
        return ret->st_ino == step->displaced.ino && ret->st_dev == step->displaced.dev ? TAKE_FD(fd) : -ESTALE;
}

static int do_set(const struct steps_run *run, const struct step *step)
{
        _cleanup_fd_ int fd = -EBADF;
        struct lower_identity found;
        struct stat st;
        int r = 0;

        if (!(step->flags & (STEP_SET_MODE | STEP_SET_TIME)))
                return 0; /* exists only for its undo */
        fd = open_same(run, step, &st);
        if (fd == -ESTALE)
                return STEP_CONFLICT;
        if (fd < 0)
                return fd;
        lower_identify(&st, &found);
        if (S_ISREG(st.st_mode) && !(step->flags & STEP_ANY) && found.mtime_ns != step->mtime_ns &&
            !lower_same(&found, &step->displaced))
                return STEP_CONFLICT;
        if (step->flags & STEP_SET_MODE && !S_ISLNK(st.st_mode) && (st.st_mode & 07777) != step->mode)
                r = set_mode(fd, step->mode & settable(&st));
        crash_point();
        if (r == 0 && step->flags & STEP_SET_TIME)
                r = set_time(fd, step->mtime_ns);
        return r;
}

static int is_set(const struct steps_run *run, const struct step *step)
{
        (void)run;
        (void)step;
        return 0;
}

static int undo_set(const struct steps_run *run, const struct step *step)
{
        struct stat st;
        _cleanup_fd_ int fd = open_same(run, step, &st);
        struct lower_identity found;
        int r = 0;

        if (fd < 0)
                return fd == -ESTALE ? 0 : fd;
        lower_identify(&st, &found);
        /* Undo only an attribute that still has the value the step set; otherwise the step was not
         * done, or the host has changed it since. Directories have new times because of their new
         * entries. */
        if (step->flags & STEP_SET_MODE && !S_ISLNK(st.st_mode) && (st.st_mode & 07777) == step->mode)
                r = set_mode(fd, step->displaced_mode & settable(&st));
        if (r == 0 && (S_ISDIR(st.st_mode) || (step->flags & STEP_SET_TIME && found.mtime_ns == step->mtime_ns)))
                r = set_time(fd, step->displaced.mtime_ns);
        return r == -EPERM ? 0 : r; /* a directory of another owner, which the step has not changed either */
}

/* -- all steps ------------------------------------------------------------------------------------------------ */

static const struct {
        int (*perform)(const struct steps_run *run, const struct step *step);
        int (*is_done)(const struct steps_run *run, const struct step *step);
        int (*undo)(const struct steps_run *run, const struct step *step);
} ops[STEP_OP_COUNT] = {
        [STEP_TAKE] = {do_take, is_taken, undo_take},
        [STEP_PUT] = {do_put, is_put, undo_put},
        [STEP_SWAP] = {do_swap, is_swapped, undo_swap},
        [STEP_SET] = {do_set, is_set, undo_set},
};

int step_do(const struct steps_run *run, const struct step *step)
{
        if (crash_failure())
                return -EIO;
        crash_point();
        return ops[step->op].perform(run, step);
}

int step_is_done(const struct steps_run *run, const struct step *step)
{
        return ops[step->op].is_done(run, step);
}

int step_check(const struct steps_run *run, const struct step *step)
{
        char slot[STAGE_SLOT_SIZE];

        if (step->op != STEP_TAKE && step->op != STEP_SWAP)
                return 0;
        step_slot(step, slot);
        return is_slot_expected(run, step, slot) ? 0 : STEP_CONFLICT;
}

int step_undo(const struct steps_run *run, const struct step *step)
{
        int r = -EXDEV;

        crash_point();
        /* A directory moved out of the root is unreachable (EXDEV from Landlock and openat2). Its
         * owner may move it back. */
        for (int i = 0; i < UNDO_TRIES && (r == -EXDEV || r == -EAGAIN); i++) {
                if (i)
                        sched_yield();
                r = ops[step->op].undo(run, step);
        }
        if (r != -EXDEV && r != -EAGAIN)
                return r;
        return step->op == STEP_SWAP ? keep_swapped(run, step) : 0;
}

void step_keep_late(const struct steps_run *run, const struct step *step)
{
        char slot[STAGE_SLOT_SIZE];
        struct stat st;

        if (step->op != STEP_SWAP && (step->op != STEP_TAKE || step->flags & STEP_FROM_OLD))
                return;
        step_slot(step, slot);
        if (stat_entry(run->stage->dir_fd, slot, &st) == 0 && !is_slot_expected(run, step, slot))
                keep_beside(run, slot, step->path);
}
