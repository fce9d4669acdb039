#include "root-writable.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "mount.h"
#include "root.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

extern int umount2(const char *target, int flags);
#define MS_FLAGS_QUOTA (2 | 4 | 1024) /* MS_NOSUID, MS_NODEV, MS_NOATIME: of <sys/mount.h>, which clashes with <linux/mount.h> */
#define MNT_DETACH_FLAG 2
#define ATTRIBUTES (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define TOPS_PLACE "run/tops" /* holds the directories of root_tops, each shown at the top */

enum { TOPS, WORKSPACE, TMP, HOME, SHM }; /* TOPS: only in sandboxes; first, because the home directory is shown in one of them */

const char *const root_places[JAIL_PLACES] = {[TOPS] = TOPS_PLACE, [WORKSPACE] = "workspace", [TMP] = "tmp", [HOME] = "home/cloche", [SHM] = "dev/shm"};

/* Directories of the tmpfs. */
static const struct {
        const char *name;
        mode_t mode;
} sources[JAIL_PLACES] = {
        [TOPS] = {"tops", 0755}, [WORKSPACE] = {"workspace", 0755}, [TMP] = {"tmp", 01777}, [HOME] = {"home", 0755}, [SHM] = {"shm", 01777},
};

#define NAME(name) name,
const char *const root_tops[ROOT_TOPS] = {ROOT_EACH_TOP(NAME)};
#undef NAME

/* Directories inside the tops. */
static const struct {
        const char *name;
        mode_t mode;
} below_tops[] = {{"home/cloche", 0755}, {"var/backups", 0755}, {"var/cache", 0755}, {"var/lib", 0755}, {"var/log", 0755}, {"var/tmp", 01777}};
#define BELOW_TOPS (sizeof(below_tops) / sizeof(below_tops[0]))

int root_is_writable(const char *path)
{
        for (size_t i = 0; i < JAIL_PLACES; i++)
                if (path_is_at_or_below(path, root_places[i]))
                        return 1;
        return 0;
}

static int show(size_t place, struct cloche_err *e)
{
        _cleanup_fd_ int tree_fd = -EBADF;
        char path[64];
        int r;

        snprintf(path, sizeof(path), ROOT_SCRATCH "/%s", sources[place].name);
        if (mkdir(path, 0700) < 0 || chmod(path, sources[place].mode) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", path);
        r = mount_clone(AT_FDCWD, path, ATTRIBUTES, &tree_fd, e);
        return r < 0 ? r : mount_attach(tree_fd, root_places[place], e);
}

static int make_top(const char *name, mode_t mode, struct cloche_err *e)
{
        char path[64];

        snprintf(path, sizeof(path), TOPS_PLACE "/%s", name);
        if (mkdir(path, 0700) < 0 || chmod(path, mode) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", path);
        return 0;
}

/* A top of the image is a mount, and so on another device. */
static int is_ours(const char *top)
{
        struct stat root, st;

        return stat(".", &root) == 0 && lstat(top, &st) == 0 && S_ISDIR(st.st_mode) && st.st_dev == root.st_dev;
}

/* The guest of a sandbox may replace that directory by anything, even while a box beside it is
 * made. mount_clone() follows no link, and only a directory is shown. */
static int show_top(const char *top, struct cloche_err *e)
{
        _cleanup_fd_ int tree_fd = -EBADF;
        struct stat st;
        char path[64];
        int r;

        snprintf(path, sizeof(path), TOPS_PLACE "/%s", top);
        if (!is_ours(top) || lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
                return 0;
        r = mount_clone(AT_FDCWD, path, ATTRIBUTES, &tree_fd, e);
        if (r < 0)
                return r;
        return fstat(tree_fd, &st) == 0 && S_ISDIR(st.st_mode) ? mount_attach(tree_fd, top, e) : 0;
}

static int make_tops(struct cloche_err *e)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < ROOT_TOPS; i++)
                r = make_top(root_tops[i], 0755, e);
        for (size_t i = 0; r == 0 && i < BELOW_TOPS; i++)
                r = make_top(below_tops[i].name, below_tops[i].mode, e);
        return r;
}

static int show_tops(struct cloche_err *e)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < ROOT_TOPS; i++)
                r = show_top(root_tops[i], e);
        return r;
}

int root_make_writable(const struct jail_plan *plan, struct cloche_err *e)
{
        unsigned long long inodes = 5 + (plan->is_sandbox ? 1 + ROOT_TOPS + BELOW_TOPS : 0); /* for the directories, and for the root of the tmpfs */
        char options[128];
        int r;

        /* 0 means no limit to tmpfs. */
        snprintf(options, sizeof(options), "mode=0755,size=%llu,nr_inodes=%llu",
                 plan->disk_bytes == UINT64_MAX ? 0ull : (unsigned long long)plan->disk_bytes,
                 plan->disk_inodes == UINT64_MAX ? 0ull : (unsigned long long)plan->disk_inodes + inodes);
        /* MS_NOATIME: a later run in the same box must not see when an earlier one read a file. */
        r = mount_new("tmpfs", ROOT_SCRATCH, MS_FLAGS_QUOTA, options, e);
        if (r == 0 && plan->is_sandbox)
                r = show(TOPS, e);
        if (r == 0 && plan->is_sandbox)
                r = make_tops(e);
        if (r == 0 && plan->is_sandbox)
                r = show_tops(e);
        for (size_t i = WORKSPACE; r == 0 && i < JAIL_PLACES; i++)
                r = show(i, e);
        if (r == 0 && umount2(ROOT_SCRATCH, MNT_DETACH_FLAG) < 0)
                r = err_os(e, CLOCHE_E_MOUNT, errno, "take the scratch mount away");
        return r;
}

int root_take_writable(int ret_fds[JAIL_PLACES], struct cloche_err *e)
{
        int r = chdir("/") < 0 ? err_os(e, CLOCHE_E_MOUNT, errno, "enter the sandbox's root") : 0;
        size_t i;

        for (i = 0; r == 0 && i < JAIL_PLACES; i++)
                r = mount_clone(AT_FDCWD, root_places[i], ATTRIBUTES, &ret_fds[i], e);
        if (r < 0 && i > 0) /* the last of them failed */
                for (i--; i > 0; i--)
                        fd_close(&ret_fds[i - 1]);
        return r;
}

int root_attach_writable(const int *places_fds, struct cloche_err *e)
{
        struct statvfs fs;
        int r = 0;

        for (size_t i = 0; r == 0 && i < JAIL_PLACES; i++) {
                r = mount_attach(places_fds[i], root_places[i], e);
                if (r == 0 && statvfs(root_places[i], &fs) < 0)
                        r = err_os(e, CLOCHE_E_MOUNT, errno, "look at /%s", root_places[i]);
                if (r == 0 && (fs.f_flag & (ST_NOSUID | ST_NODEV)) != (ST_NOSUID | ST_NODEV))
                        r = err_set(e, CLOCHE_E_MOUNT, "/%s came from the sandbox without nosuid or nodev", root_places[i]);
                if (r == 0 && i == TOPS)
                        r = show_tops(e);
        }
        return r;
}
