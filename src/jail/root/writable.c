/* The writable places of a box on one quota. Runs in: the child the keeper cloned, in its own mount
 * namespace. */
#include "writable.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "mount.h"
#include "root.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* MS_NOSUID, MS_NODEV, MS_NOATIME: of <sys/mount.h>, which clashes with <linux/mount.h>. */
#define MS_FLAGS_QUOTA (2 | 4 | 1024)
#define ATTRIBUTES (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

enum { ROOT, WORKSPACE, TMP, SHM, HOME }; /* ROOT: only in sandboxes, whose home directory is in it */

const char *const root_places[JAIL_PLACES] =
        {[ROOT] = ".", [WORKSPACE] = "workspace", [TMP] = "tmp", [SHM] = "dev/shm", [HOME] = "home/cloche"};

/* The place at which the tmpfs is mounted. One of its directories covers it there in the end:
 * taking the mount away instead would wait for a grace period of the kernel in each box
 * (umount(2)). No program of a box can uncover it: neither a guest nor a template may call
 * umount(2) or move_mount(2). */
#define QUOTA "workspace"

/* Directories of the tmpfs. */
static const struct {
        const char *name;
        mode_t mode;
} sources[JAIL_PLACES] = {
        [ROOT] = {"root", 0755}, [WORKSPACE] = {"workspace", 0755}, [TMP] = {"tmp", 01777},
        [SHM] = {"shm", 01777},  [HOME] = {"home", 0755},
};

/* Directories at the top of a sandbox's root, unless the image has them: programs expect such
 * paths. */
static const struct {
        const char *name;
        int needs_root; /* only in a box with a root of its own */
} tops[] = {{"app", 0}, {"boot", 1}, {"data", 0}, {"home", 0}, {"mnt", 0},
            {"opt", 0}, {"root", 0}, {"src", 0},  {"srv", 0},  {"var", 0}};

#define HOMES "home"
#define HOME_OF_USER HOMES "/user" /* of the second user in a box with a root of its own */

/* Directories inside the tops. */
static const struct {
        const char *name;
        mode_t mode;
} below_tops[] = {{"home/cloche", 0755}, {"var/backups", 0755}, {"var/cache", 0755},
                  {"var/lib", 0755},     {"var/log", 0755},     {"var/tmp", 01777}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int root_is_writable(const char *path)
{
        for (size_t i = WORKSPACE; i < JAIL_PLACES; i++)
                if (path_is_at_or_below(path, root_places[i]))
                        return 1;
        return 0;
}

int root_is_in_shared_place(const char *target)
{
        for (size_t i = WORKSPACE; i < JAIL_SHARED_PLACES; i++)
                if (path_is_at_or_below(target + 1, root_places[i]))
                        return 1;
        return 0;
}

static int show(size_t place, struct cloche_err *e)
{
        _cleanup_fd_ int tree_fd = -EBADF;
        char path[64];
        int r;

        snprintf(path, sizeof(path), QUOTA "/%s", sources[place].name);
        if (mkdir(path, 0700) < 0 || chmod(path, sources[place].mode) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", path);
        r = mount_clone(AT_FDCWD, path, ATTRIBUTES, &tree_fd, e);
        return r < 0 ? r : mount_attach(tree_fd, root_places[place], e);
}

/* -- the root of a sandbox; the current directory is the root that root_build made ------------------------------- */

/* Return whether the sandbox's root shows this entry of the built root. A top is the sandbox's own,
 * unless the image has it: as a link, or as a mount, on another device. */
static int is_shown(const char *name)
{
        struct stat root, st;

        if (name[0] == '.' && (!name[1] || strcmp(name, "..") == 0))
                return 0;
        for (size_t i = 0; i < COUNT(tops); i++)
                if (strcmp(name, tops[i].name) == 0)
                        return stat(".", &root) == 0 && lstat(name, &st) == 0 &&
                               (st.st_dev != root.st_dev || S_ISLNK(st.st_mode));
        return 1;
}

/* Return whether this path is below a top that the image does not have. */
static int is_own_top(const char *path)
{
        char top[64];

        snprintf(top, sizeof(top), "%.*s", (int)strcspn(path, "/"), path);
        return faccessat(AT_FDCWD, top, F_OK, AT_SYMLINK_NOFOLLOW) < 0 || !is_shown(top);
}

static int has_top(const struct jail_plan *plan, size_t top)
{
        return !tops[top].needs_root || plan->has_root;
}

/* Call visit for each entry that is shown, until a call fails. Return the number of entries. */
static int each_shown(int (*visit)(void *data, const char *name, struct cloche_err *e), void *data,
                      struct cloche_err *e)
{
        DIR *dir = opendir(".");
        int r = dir ? 0 : err_os(e, CLOCHE_E_RESOURCE, errno, "list the box's root"), count = 0;

        for (struct dirent *entry; r == 0 && dir && (entry = readdir(dir));)
                if (is_shown(entry->d_name)) {
                        r = visit ? visit(data, entry->d_name, e) : 0;
                        count++;
                }
        if (dir)
                closedir(dir);
        return r < 0 ? r : count;
}

/* -- the layers of a writable root ------------------------------------------------------------------------------- */

/* Inodes of each: its upper and work directory, overlayfs's own in that, and one that
 * stands for all whiteouts. */
#define INODES_EACH 4
#define INODES_OF_ALL 2
#define LAYER_SIZE 300     /* of a path */
#define LAYER_NAME_MAX 239 /* fsconfig(2) takes 255 bytes, of which "workspace/upper/" needs 16 */

/* Return whether this entry of the built root is a directory of the image. */
static int is_layered(const char *name)
{
        static const char *const others[] = {"dev", "proc", "run", "tmp", "workspace"};
        struct stat root, st;

        for (size_t i = 0; i < COUNT(others); i++)
                if (strcmp(name, others[i]) == 0)
                        return 0;
        return stat(".", &root) == 0 && lstat(name, &st) == 0 && S_ISDIR(st.st_mode) && st.st_dev != root.st_dev;
}

static int count_layer(void *data, const char *name, struct cloche_err *e)
{
        (void)e;
        *(int *)data += is_layered(name);
        return 0;
}

static int count_layers(struct cloche_err *e)
{
        int count = 0, r = each_shown(count_layer, &count, e);

        return r < 0 ? r : count;
}

/* Without these attributes overlayfs could not say that a new directory hides one of the image. */
static int check_attributes(const char *path, struct cloche_err *e)
{
        if (setxattr(path, "user.cloche", "", 0, 0) == 0 && removexattr(path, "user.cloche") == 0)
                return 0;
        return err_set(e, CLOCHE_E_MOUNT,
                       "a writable root needs a kernel whose tmpfs keeps user attributes (Linux 6.6): %s",
                       strerror(errno));
}

/* overlayfs makes each fsync(2) a write to the disk, but these files end with the box:
 * their saves are on the disk. */
static const char *volatile_flag(const struct jail_plan *plan)
{
        return plan->files_fd >= 0 ? "volatile" : NULL;
}

/* The upper directory's attributes are those of the merged one. No path leads to it in the
 * end: the place /workspace covers the tmpfs. So the guest can set no attribute there that has
 * a meaning for overlayfs. */
static int make_upper(const char *name, int has_root, char upper[LAYER_SIZE], char work[LAYER_SIZE],
                      struct cloche_err *e)
{
        struct stat st;

        if (strlen(name) > LAYER_NAME_MAX)
                return err_set(e, CLOCHE_E_MOUNT,
                               "the image's directory /%.40s… has a name of %zu bytes, and a layer one of at most %d: "
                               "rename it",
                               name, strlen(name), LAYER_NAME_MAX);
        snprintf(upper, LAYER_SIZE, QUOTA "/upper/%s", name);
        snprintf(work, LAYER_SIZE, QUOTA "/work/%s", name);
        if (lstat(name, &st) < 0 || mkdir(upper, 0700) < 0 || (has_root && chown(upper, st.st_uid, st.st_gid) < 0) ||
            chmod(upper, st.st_mode & 07777) < 0 || mkdir(work, 0700) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make the layer of /%s", name);
        return check_attributes(upper, e);
}

/* It covers the mount of the image's directory in the built root, and is shown in its place. */
static int lay_over(void *data, const char *name, struct cloche_err *e)
{
        char upper[LAYER_SIZE], work[LAYER_SIZE];
        const char *const options[] = {"lowerdir",  name, "upperdir",          upper, "workdir", work,
                                       "userxattr", NULL, volatile_flag(data), NULL,  NULL};
        const struct jail_plan *plan = data;
        _cleanup_fd_ int tree_fd = -EBADF;
        int r;

        if (!is_layered(name))
                return 0;
        if (strpbrk(name, ":,\\"))
                return err_set(e, CLOCHE_E_MOUNT, "the image's directory /%s cannot be a layer: rename it", name);
        r = make_upper(name, plan->has_root, upper, work, e);
        if (r < 0)
                return r;
        tree_fd = mount_make("overlay", options, ATTRIBUTES);
        return tree_fd < 0 ? err_os(e, CLOCHE_E_MOUNT, -tree_fd, "mount an overlay on /%s", name)
                           : mount_attach(tree_fd, name, e);
}

/* Our entries of /run, which stay mounts of their own over the layer: masks of /proc are copied
 * from two of them, also later for boxes that share, and no guest can replace a mount point. */
static const char *const kept_in_run[] = {ROOT_MASK_DIRECTORY, ROOT_MASK_FILE, JAIL_BIN, ROOT_RUNTIME};

/* Services write to /run; each start finds it as new, so its upper directory is none of the
 * changes. */
static int lay_over_run(const struct jail_plan *plan, struct cloche_err *e)
{
        const char *const options[] = {"lowerdir",   "run",     "upperdir",
                                       QUOTA "/run", "workdir", QUOTA "/run-work",
                                       "userxattr",  NULL,      volatile_flag(plan),
                                       NULL,         NULL};
        _cleanup_fd_ int tree_fd = -EBADF;
        int kept_fds[COUNT(kept_in_run)], r = 0;

        for (size_t i = 0; i < COUNT(kept_in_run); i++)
                kept_fds[i] = -EBADF;
        for (size_t i = 0; r == 0 && i < COUNT(kept_in_run); i++)
                r = mount_clone(AT_FDCWD, kept_in_run[i], MOUNT_ATTR_RDONLY, &kept_fds[i], e);
        if (r == 0 && (mkdir(QUOTA "/run", 0755) < 0 || mkdir(QUOTA "/run-work", 0700) < 0))
                r = err_os(e, CLOCHE_E_MOUNT, errno, "make the layer of /run");
        if (r == 0 && (tree_fd = mount_make("overlay", options, ATTRIBUTES)) < 0)
                r = err_os(e, CLOCHE_E_MOUNT, -tree_fd, "mount an overlay on /run");
        if (r == 0)
                r = mount_attach(tree_fd, "run", e);
        for (size_t i = 0; i < COUNT(kept_in_run); i++) {
                if (r == 0)
                        r = mount_attach(kept_fds[i], kept_in_run[i], e);
                fd_close(&kept_fds[i]);
        }
        return r;
}

static int lay_over_all(const struct jail_plan *plan, struct cloche_err *e)
{
        _cleanup_fd_ int changes_fd = -EBADF;
        int r;

        if (mkdir(QUOTA "/upper", 0700) < 0 || mkdir(QUOTA "/work", 0700) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make the layers of the sandbox's root");
        r = each_shown(lay_over, (void *)plan, e);
        if (r >= 0 && plan->has_root)
                r = lay_over_run(plan, e);
        if (r >= 0) /* for the program that saves the sandbox; read-only, so that a guest forges nothing */
                r = mount_clone(AT_FDCWD, QUOTA "/upper", ATTRIBUTES | MOUNT_ATTR_RDONLY, &changes_fd, e);
        return r < 0 ? r : mount_attach(changes_fd, JAIL_CHANGES, e);
}

/* -- the directories of the tmpfs ---------------------------------------------------------------------------- */

/* Count the inodes that no guest makes: the root of the tmpfs, the places, and all entries that a
 * sandbox's root has before its guest runs. */
static int count_inodes(const struct jail_plan *plan, struct cloche_err *e)
{
        int count = plan->is_sandbox ? each_shown(NULL, NULL, e) : 0;

        if (count < 0)
                return count;
        if (plan->has_writable_root) {
                int layers = count_layers(e);

                if (layers < 0)
                        return layers;
                count += INODES_OF_ALL + INODES_EACH * (layers + plan->has_root);
        }
        for (size_t i = 0; plan->is_sandbox && i < COUNT(tops); i++)
                count += has_top(plan, i) && is_own_top(tops[i].name);
        for (size_t i = 0; plan->is_sandbox && i < COUNT(below_tops); i++)
                count += is_own_top(below_tops[i].name);
        count += plan->is_sandbox && strcmp(plan->user.home, JAIL_HOME) != 0;
        count += plan->has_root;                       /* HOME_OF_USER */
        count += plan->has_root && !is_own_top(HOMES); /* JAIL_HOME in its layer */
        /* The root of the tmpfs, and the places: others have no ROOT, and of a sandbox the
         * home directory was counted.
         * */
        return JAIL_PLACES + count;
}

static int make_top(int root_fd, const char *name, mode_t mode, struct cloche_err *e)
{
        if (!is_own_top(name))
                return 0;
        if (mkdirat(root_fd, name, 0700) < 0 || fchmodat(root_fd, name, mode, 0) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", name);
        return 0;
}

/* Make the place in which an entry of the built root will be shown; links are copied. */
static int make_entry(void *data, const char *name, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        char target[PATH_MAX];
        int root_fd = *(const int *)data, r;
        struct stat st;
        ssize_t n;

        if (lstat(name, &st) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "look at /%s", name);
        if (S_ISLNK(st.st_mode)) {
                n = readlink(name, target, sizeof(target) - 1);
                target[n < 0 ? 0 : n] = '\0';
                r = n < 0 ? -1 : symlinkat(target, root_fd, name);
        } else if (S_ISDIR(st.st_mode)) {
                r = mkdirat(root_fd, name, 0755);
        } else {
                r = fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        }
        return r < 0 ? err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", name) : 0;
}

int root_link_home(const struct jail_plan *plan, int root_fd, struct cloche_err *e)
{
        const char *path = plan->user.home + 1;

        if (strcmp(plan->user.home, JAIL_HOME) == 0 || symlinkat(JAIL_NAME, root_fd, path) == 0)
                return 0;
        return err_os(e, CLOCHE_E_MOUNT, errno, "link /%s", path);
}

/* The image may have it, whatever it is there. *ret_new: it has not. */
static int make_home(int dir_fd, const char *path, int *ret_new, struct cloche_err *e)
{
        *ret_new = mkdirat(dir_fd, path, 0755) == 0;
        return *ret_new || errno == EEXIST ? 0 : err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", path);
}

/* In a box with a root of its own. The image's /home is a layer by now. */
static int make_homes(int root_fd, struct cloche_err *e)
{
        const int dir_fd = is_own_top(HOMES) ? root_fd : AT_FDCWD;
        int is_new, r = make_home(dir_fd, &JAIL_HOME[1], &is_new, e);

        if (r == 0)
                r = make_home(dir_fd, HOME_OF_USER, &is_new, e);
        if (r == 0 && is_new && fchownat(dir_fd, HOME_OF_USER, JAIL_UID, JAIL_UID, AT_SYMLINK_NOFOLLOW) < 0)
                r = err_os(e, CLOCHE_E_MOUNT, errno, "give /" HOME_OF_USER " away");
        return r;
}

/* Make the directory that becomes the root of a sandbox. */
static int make_root(const struct jail_plan *plan, int *ret_fd, struct cloche_err *e)
{
        char path[64];
        int r;

        snprintf(path, sizeof(path), QUOTA "/%s", sources[ROOT].name);
        if (mkdir(path, 0700) < 0 || chmod(path, sources[ROOT].mode) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make the sandbox's root");
        r = mount_clone(AT_FDCWD, path, ATTRIBUTES, ret_fd, e);
        if (r == 0 && (r = each_shown(make_entry, ret_fd, e)) > 0)
                r = 0;
        for (size_t i = 0; r == 0 && i < COUNT(tops); i++)
                r = has_top(plan, i) ? make_top(*ret_fd, tops[i].name, 0755, e) : 0;
        for (size_t i = 0; r == 0 && i < COUNT(below_tops); i++)
                r = make_top(*ret_fd, below_tops[i].name, below_tops[i].mode, e);
        return r < 0 ? r : root_link_home(plan, *ret_fd, e);
}

static int mount_quota(const struct jail_plan *plan, struct cloche_err *e)
{
        int inodes = count_inodes(plan, e);
        char options[128];

        if (inodes < 0)
                return inodes;
        /* tmpfs takes 0 for no limit. */
        snprintf(options, sizeof(options), "mode=0755,size=%llu,nr_inodes=%llu",
                 plan->disk_bytes == UINT64_MAX ? 0ull : (unsigned long long)plan->disk_bytes,
                 plan->disk_inodes == UINT64_MAX ? 0ull : (unsigned long long)plan->disk_inodes + (unsigned)inodes);
        /* MS_NOATIME: a later run in the same box must not see when an earlier one read a file. */
        return mount_new("tmpfs", QUOTA, MS_FLAGS_QUOTA, options, e);
}

int root_make_writable(const struct jail_plan *plan, int *ret_root_fd, struct cloche_err *e)
{
        int r = plan->files_fd >= 0 ? mount_attach(plan->files_fd, QUOTA, e) : mount_quota(plan, e);

        if (r == 0 && plan->is_sandbox)
                r = make_root(plan, ret_root_fd, e);
        if (r == 0 && plan->has_writable_root)
                r = lay_over_all(plan, e);
        if (r == 0 && plan->has_root)
                r = make_homes(*ret_root_fd, e);
        for (size_t i = TMP; r == 0 && i < (plan->is_sandbox ? HOME : JAIL_PLACES); i++)
                r = show(i, e);
        return r < 0 ? r : show(WORKSPACE, e); /* last: it covers the whole tmpfs */
}

int root_take_writable(int ret_fds[JAIL_SHARED_PLACES], struct cloche_err *e)
{
        int r = chdir("/") < 0 ? err_os(e, CLOCHE_E_MOUNT, errno, "enter the sandbox's root") : 0;
        size_t i;

        if (r == 0) /* without the mounts in it: the box shows its own there */
                r = mount_clone_alone(AT_FDCWD, ".", ATTRIBUTES, &ret_fds[ROOT], e);
        for (i = WORKSPACE; r == 0 && i < JAIL_SHARED_PLACES; i++)
                r = mount_clone(AT_FDCWD, root_places[i], ATTRIBUTES, &ret_fds[i], e);
        return r; /* the process ends when it failed, and its descriptors with it */
}

/* The names come from the upper directories, and no guest can change those. Each name is a mount
 * point in the sandbox's root, and no guest can rename or remove it. The mounts made here are
 * visible to this process alone. */
static int gather_layer(const char *name, struct cloche_err *e)
{
        _cleanup_fd_ int tree_fd = -EBADF;
        char place[LAYER_SIZE];
        int r = mount_clone(AT_FDCWD, name, ATTRIBUTES, &tree_fd, e);

        snprintf(place, sizeof(place), JAIL_CHANGES "/%s", name);
        return r < 0 ? r : mount_attach(tree_fd, place, e);
}

int root_take_layers(int *ret_fd, struct cloche_err *e)
{
        DIR *dir;
        int r = 0;

        if (unshare(CLONE_NEWNS) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "copy the sandbox's mount namespace");
        if (chdir("/") < 0 || !(dir = opendir(JAIL_CHANGES)))
                return err_os(e, CLOCHE_E_MOUNT, errno, "list the layers of the sandbox's root");
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
                if (entry->d_name[0] != '.')
                        r = gather_layer(entry->d_name, e);
        closedir(dir);
        return r < 0 ? r : mount_clone(AT_FDCWD, JAIL_CHANGES, ATTRIBUTES, ret_fd, e);
}

static int check_restricted(int fd, const char *path, struct cloche_err *e)
{
        struct statvfs fs;

        if (fstatvfs(fd, &fs) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "look at /%s", path);
        if ((fs.f_flag & (ST_NOSUID | ST_NODEV)) != (ST_NOSUID | ST_NODEV))
                return err_set(e, CLOCHE_E_MOUNT, "/%s came from the sandbox without nosuid or nodev", path);
        return 0;
}

int root_attach_writable(const int *places_fds, int *ret_root_fd, struct cloche_err *e)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < JAIL_SHARED_PLACES; i++) {
                r = check_restricted(places_fds[i], root_places[i], e);
                if (r == 0 && i != ROOT)
                        r = mount_attach(places_fds[i], root_places[i], e);
        }
        if (r == 0 && (*ret_root_fd = fcntl(places_fds[ROOT], F_DUPFD_CLOEXEC, 3)) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "copy a descriptor");
        return r;
}

struct turn {
        int root_fd, run_fd, layers_fd;
};

/* A copy of the entry's mounts: of the sandbox's overlay where it has one. */
static int take_entry(const struct turn *turn, const char *name, int *ret_fd, struct cloche_err *e)
{
        struct stat st;

        if (turn->layers_fd >= 0 && fstatat(turn->layers_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return mount_clone(turn->layers_fd, name, 0, ret_fd, e);
        return mount_clone(AT_FDCWD, name, 0, ret_fd, e);
}

/* The guest of a sandbox may replace a link of the image by anything, and the sandbox may lack an
 * entry that the host's root has by now: nothing is shown there then. No link is followed, and the
 * mount is attached to the descriptor of the place that was checked. */
static int show_entry(void *data, const char *name, struct cloche_err *e)
{
        struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
        _cleanup_fd_ int tree_fd = -EBADF, place_fd = -EBADF;
        struct stat entry, place;
        struct turn *turn = data;
        int r;

        if (lstat(name, &entry) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "look at /%s", name);
        if (S_ISLNK(entry.st_mode))
                return 0;
        place_fd = (int)syscall(SYS_openat2, turn->root_fd, name, &how, sizeof(how));
        if (place_fd < 0 && errno != ENOENT && errno != ELOOP)
                return err_os(e, CLOCHE_E_MOUNT, errno, "open the place of /%s", name);
        if (place_fd < 0 || fstat(place_fd, &place) < 0 || (place.st_mode & S_IFMT) != (entry.st_mode & S_IFMT))
                return 0;
        if (strcmp(name, "run") == 0)
                return mount_attach_to(turn->run_fd, place_fd, name, e);
        r = take_entry(turn, name, &tree_fd, e);
        return r < 0 ? r : mount_attach_to(tree_fd, place_fd, name, e);
}

int root_turn(int root_fd, int layers_fd, struct cloche_err *e)
{
        struct turn turn = {.root_fd = root_fd, .run_fd = -EBADF, .layers_fd = layers_fd};
        int r = mount_clone(AT_FDCWD, "run", 0, &turn.run_fd, e); /* before the new root stands in it */

        if (r == 0 && layers_fd >= 0) /* mounts are copied only where they are attached; the root covers them there */
                r = mount_attach(layers_fd, ROOT_SCRATCH, e);
        if (r == 0)
                r = mount_attach(root_fd, ROOT_SCRATCH, e);
        if (r == 0 && (r = each_shown(show_entry, &turn, e)) > 0)
                r = 0;
        fd_close(&turn.run_fd);
        if (r == 0 && fchdir(root_fd) < 0)
                r = err_os(e, CLOCHE_E_MOUNT, errno, "enter the sandbox's root");
        return r < 0 ? r : mount_turn(e);
}
