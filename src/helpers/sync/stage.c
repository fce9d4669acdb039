/* The stage directory: create, find, remove.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "stage.h"

#include "base/err.h"
#include "base/fd.h"
#include "crash.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_PAUSE_MS 20

static const char *const state_names[] = {"", "draft", "journal", "undo", "done", "undone"};
#define STATE_COUNT (sizeof(state_names) / sizeof(state_names[0]))

void stage_slot(char ret[STAGE_SLOT_SIZE], char letter, uint32_t number)
{
        snprintf(ret, STAGE_SLOT_SIZE, "%c%x", letter, number);
}

const char *stage_state_name(enum stage_state state)
{
        return state_names[state];
}

/* -- opening -------------------------------------------------------------------------------------------------- */

static int check_ours(const struct stat *st, struct cloche_err *e)
{
        if (!S_ISDIR(st->st_mode) || st->st_uid != geteuid() || st->st_mode & 077)
                return err_set(e, CLOCHE_E_STATE,
                               STAGE_NAME " is there and not ours: expected a directory of mode 0700 owned by user %u; "
                                          "move it elsewhere",
                               geteuid());
        return 0;
}

/* Syncs of one directory wait for each other, in no particular order. */
static int lock_within(int dir_fd, unsigned patience_ms)
{
        while (flock(dir_fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK)
                        return -errno;
                if (patience_ms == 0)
                        return -EBUSY;
                patience_ms -= patience_ms < LOCK_PAUSE_MS ? patience_ms : LOCK_PAUSE_MS;
                usleep(LOCK_PAUSE_MS * 1000);
        }
        return 0;
}

/* 1: locked; 0: the stage disappeared during the wait, try again. */
static int lock(struct stage *stage, unsigned patience_ms, struct cloche_err *e)
{
        struct lower root = {stage->root_fd};
        struct stat ours, named;
        int r;

        if (fstat(stage->dir_fd, &ours) < 0)
                return err_os(e, CLOCHE_E_STATE, errno, "read the attributes of " STAGE_NAME);
        r = check_ours(&ours, e);
        if (r < 0)
                return r;
        r = lock_within(stage->dir_fd, patience_ms);
        if (r < 0)
                return err_os(e, CLOCHE_E_STATE, -r, "another sync may be writing to this directory");
        return lower_stat(&root, STAGE_NAME, &named) == 0 && named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
}

int stage_open(struct stage *stage, bool make, unsigned patience_ms, struct cloche_err *e)
{
        struct lower root = {stage->root_fd};

        for (int i = 0; i < 100; i++) {
                int r;

                stage->dir_fd = lower_open(&root, STAGE_NAME, O_RDONLY | O_DIRECTORY);
                if (stage->dir_fd == -ENOENT && !make)
                        return 0;
                if (stage->dir_fd == -ENOENT && mkdirat(stage->root_fd, STAGE_NAME, 0700) < 0 && errno != EEXIST)
                        return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "make " STAGE_NAME " in the directory");
                if (stage->dir_fd == -ENOENT)
                        continue;
                if (stage->dir_fd < 0)
                        return err_os(e, CLOCHE_E_STATE, -stage->dir_fd, "open " STAGE_NAME);
                r = lock(stage, patience_ms, e);
                if (r > 0)
                        return 1;
                stage_close(stage);
                if (r < 0)
                        return r;
        }
        return err_os(e, CLOCHE_E_STATE, EBUSY, STAGE_NAME " comes and goes");
}

void stage_close(struct stage *stage)
{
        fd_close(&stage->dir_fd);
}

/* -- the state ------------------------------------------------------------------------------------------------ */

enum stage_state stage_find_state(const struct stage *stage)
{
        /* An undone transaction may leave its name until the next draft is complete; hence draft is
         * checked last. */
        static const enum stage_state order[] = {STAGE_DONE, STAGE_UNDONE, STAGE_UNDO, STAGE_JOURNAL};

        for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
                if (faccessat(stage->dir_fd, state_names[order[i]], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                        return order[i];
        return STAGE_DRAFT;
}

int stage_set_state(const struct stage *stage, enum stage_state from, enum stage_state to)
{
        crash_point();
        if (renameat(stage->dir_fd, state_names[from], stage->dir_fd, state_names[to]) < 0)
                return -errno;
        crash_point();
        return fsync(stage->dir_fd) < 0 && errno != EINVAL ? -errno : 0;
}

/* -- removing ------------------------------------------------------------------------------------------------- */

static bool is_slot(const char *name)
{
        size_t size = strlen(name);

        return (name[0] == 'n' || name[0] == 'o' || name[0] == 'p') && size > 1 && size < STAGE_SLOT_SIZE - 4 &&
               strspn(name + 1, "0123456789abcdef") == size - 1;
}

/* A process with the directory open created entries in it after the last check. */
static int keep_directory(const struct stage *stage, const char *slot)
{
        char as[32];

        for (unsigned i = 1; i < 1000; i++) {
                snprintf(as, sizeof(as), "cloche-conflict-%u", i);
                if (renameat2(stage->dir_fd, slot, stage->root_fd, as, RENAME_NOREPLACE) == 0)
                        return 0;
                if (errno != EEXIST)
                        break;
        }
        return -errno;
}

static int remove_slot(const struct stage *stage, const struct dirent *entry)
{
        if (unlinkat(stage->dir_fd, entry->d_name, entry->d_type == DT_DIR ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT)
                return 0;
        if (errno == EISDIR && unlinkat(stage->dir_fd, entry->d_name, AT_REMOVEDIR) == 0)
                return 0;
        return errno == ENOTEMPTY ? keep_directory(stage, entry->d_name) : -errno;
}

static DIR *list_slots(const struct stage *stage)
{
        int fd = openat(stage->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir)
                fd_close(&fd);
        return dir;
}

bool stage_has_displaced(const struct stage *stage)
{
        DIR *dir = list_slots(stage);
        bool found = !dir;

        for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
                found = is_slot(entry->d_name) && entry->d_name[0] == 'o';
        if (dir)
                closedir(dir);
        return found;
}

bool stage_is_empty(const struct stage *stage)
{
        DIR *dir = list_slots(stage);
        struct dirent *entry = NULL;

        while (dir && (entry = readdir(dir)) && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)) {
        }
        if (dir)
                closedir(dir);
        return dir && !entry;
}

static int remove_slots(const struct stage *stage)
{
        DIR *dir = list_slots(stage);
        struct dirent *entry;
        int r = 0;

        if (!dir)
                return -errno;
        while (r == 0 && (entry = readdir(dir)))
                if (is_slot(entry->d_name)) {
                        crash_point();
                        r = remove_slot(stage, entry);
                }
        closedir(dir);
        return r;
}

int stage_remove(struct stage *stage)
{
        int r = remove_slots(stage);

        if (r < 0)
                return r;
        /* Remove the names of finished transactions last: without one, remaining slots would count
         * as a draft. */
        for (size_t i = 1; i < STATE_COUNT; i++) {
                crash_point();
                if (unlinkat(stage->dir_fd, state_names[i], 0) < 0 && errno != ENOENT)
                        return -errno;
        }
        crash_point();
        if (unlinkat(stage->root_fd, STAGE_NAME, AT_REMOVEDIR) < 0 && errno != ENOENT)
                return -errno;
        stage_close(stage);
        return 0;
}
