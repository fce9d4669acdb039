/* The directories that a box may be made of: its image and its runtime. The engine, which
 * names them, parses hostile bytes, and the keeper may open more files than the engine may
 * read. Runs in: the keeper. */
#include "base/err.h"
#include "base/fd.h"
#include "box.h"
#include "helper.h"
#include "jail/root/mount.h"
#include "jail/userns.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* True if path is a plain name in the directory of runtimes. */
static int is_runtime(const struct keeper_state *keeper, const char *path)
{
        size_t size = keeper->runtimes ? strlen(keeper->runtimes) : 0;

        return size > 0 && strncmp(path, keeper->runtimes, size) == 0 && path[size] == '/' && path[size + 1] &&
               path[size + 1] != '.' && !strchr(path + size + 1, '/');
}

int sources_check(const struct keeper_state *keeper, const struct keeper_box_spec *spec, struct cloche_err *e)
{
        int has_root = spec->parent == KEEPER_NO_BOX && spec->shared_with == KEEPER_NO_BOX;

        if (has_root && !keeper_is_tree(spec->image) && strcmp(spec->image, keeper->image) != 0)
                return err_set(e, CLOCHE_E_FORBIDDEN, "'%.150s' is not the image that boxes are made of", spec->image);
        if (has_root && keeper_is_tree(spec->image) && !keeper->trees)
                return err_set(e, CLOCHE_E_FORBIDDEN, "boxes are made of no image from a store: none is named");
        if (spec->runtime_dir[0] && !is_runtime(keeper, spec->runtime_dir))
                return err_set(e, CLOCHE_E_FORBIDDEN, "'%.150s' is not in the directory of runtimes",
                               spec->runtime_dir);
        return 0;
}

/* A tree has the owners and modes of its image, and a volume's files those of guests, whatever
 * they are: nobody else may reach into it. */
int sources_check_private(int fd, const char *kind, const char *path, struct cloche_err *e)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "look at %s", path);
        if (st.st_uid != geteuid() || st.st_mode & 077)
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "the directory of %s %s must be its user's alone: chown and chmod 0700 it", kind, path);
        return 0;
}

/* The time of the tree's listing says when a box was last made of it. A store that cannot be
 * written, or that has no listing, is no reason to refuse one. */
static void note_use(int trees_fd, const char *tree)
{
        char listing[KEEPER_TREE_SIZE + sizeof(KEEPER_TREE_LISTING)];

        snprintf(listing, sizeof(listing), "%.*s" KEEPER_TREE_LISTING, (int)KEEPER_TREE_SIZE, tree);
        (void)utimensat(trees_fd, listing, NULL, AT_SYMLINK_NOFOLLOW);
}

int sources_open_tree(const struct keeper_state *keeper, const struct keeper_box_spec *spec, int *ret_fd,
                      struct cloche_err *e)
{
        const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                                     .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
        _cleanup_fd_ int trees_fd = -EBADF, tree_fd = -EBADF;
        struct stat locked, now;

        if (!keeper_is_tree(spec->image))
                return 0;
        trees_fd = open(keeper->trees, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (trees_fd < 0)
                return err_os(e, errno == ENOENT ? CLOCHE_E_NOT_FOUND : CLOCHE_E_UNREADABLE_FILE, errno,
                              "open the images in %s", keeper->trees);
        if (sources_check_private(trees_fd, "images", keeper->trees, e) < 0)
                return -(int)e->code;
        tree_fd = (int)syscall(SYS_openat2, trees_fd, spec->image, &how, sizeof(how));
        if (tree_fd < 0 && errno == ENOENT)
                return err_set(e, CLOCHE_E_NOT_FOUND, "there is no image %s in %s", spec->image, keeper->trees);
        if (tree_fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the image %s", spec->image);
        if (flock(tree_fd, LOCK_SH | LOCK_NB) < 0)
                return err_set(e, CLOCHE_E_STATE, "the image %s is being removed: import it again, or use another",
                               spec->image);
        /* It may have been removed, and imported again, before it was locked. */
        if (fstat(tree_fd, &locked) < 0 || fstatat(trees_fd, spec->image, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
            locked.st_ino != now.st_ino || locked.st_dev != now.st_dev)
                return err_set(e, CLOCHE_E_STATE,
                               "the image %s was removed just now: try again if it was imported again", spec->image);
        note_use(trees_fd, spec->image);
        *ret_fd = TAKE_FD(tree_fd);
        return 0;
}

#define MAP_TIMEOUT_S 5

#define IMAGE_ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

struct mapping {
        const struct keeper_state *keeper;
        int tree_fd; /* a copy of it is made; -EBADF: the namespace is */
        const struct userns_range *range;
};

static int not_mapped(int os_errno, struct cloche_err *e)
{
        return err_os(e, CLOCHE_E_MOUNT, os_errno,
                      "a writable root needs a file system of the image store whose owners can be mapped (ext4, xfs, "
                      "btrfs)");
}

/* Make a user namespace; the process in it only waits to be killed. */
static pid_t hold_namespace(void)
{
        pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

        if (pid != 0)
                return pid;
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;)
                pause();
}

static int map_owners(const struct mapping *m, pid_t holder, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int user_fd = -EBADF, fd = -EBADF;
        int r = userns_map_range(m->keeper->proc_fd, holder, m->range, e);

        if (r == 0)
                r = box_open_namespace(m->keeper, holder, "user", &user_fd, e);
        if (r == 0 && m->tree_fd < 0) {
                *ret_fd = TAKE_FD(user_fd);
                return 0;
        }
        if (r == 0)
                r = mount_clone_alone(m->tree_fd, "", IMAGE_ATTRIBUTES, &fd, e);
        if (r == 0 && (r = mount_map_users(fd, user_fd)) < 0)
                r = not_mapped(-r, e);
        if (r == 0)
                *ret_fd = TAKE_FD(fd);
        return r;
}

static int map_tree(const void *data, int *ret_fds, struct cloche_err *e)
{
        pid_t holder = hold_namespace();
        int r;

        if (holder < 0)
                return userns_refused(errno, e);
        r = map_owners(data, holder, ret_fds, e);
        kill(holder, SIGKILL);
        waitpid(holder, NULL, 0);
        return r;
}

int sources_map_tree(const struct keeper_state *keeper, int tree_fd, const struct userns_range *range, int *ret_fd,
                     struct cloche_err *e)
{
        const struct mapping mapping = {keeper, tree_fd, range};

        return helper_fetch(map_tree, &mapping, 1, MAP_TIMEOUT_S, ret_fd, e);
}

int sources_make_map(const struct keeper_state *keeper, const struct userns_range *range, int *ret_fd,
                     struct cloche_err *e)
{
        const struct mapping mapping = {keeper, -EBADF, range};

        return helper_fetch(map_tree, &mapping, 1, MAP_TIMEOUT_S, ret_fd, e);
}

int sources_map_user(const struct keeper_state *keeper, int tree_fd, pid_t pid, int is_writable, int *ret_fd,
                     struct cloche_err *e)
{
        _cleanup_fd_ int user_fd = -EBADF, fd = -EBADF;
        int r = box_open_namespace(keeper, pid, "user", &user_fd, e);

        if (r == 0)
                r = mount_clone_alone(tree_fd, "", IMAGE_ATTRIBUTES, &fd, e);
        if (r < 0)
                return r;
        r = mount_map_users(fd, user_fd);
        if (r < 0 && is_writable)
                return not_mapped(-r, e);
        if (r == -EINVAL)
                r = mount_map_users(fd, -EBADF);
        if (r < 0)
                return err_os(e, CLOCHE_E_MOUNT, -r, "map the user of an image");
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int sources_open_store(const struct keeper_state *keeper, int *ret_fd, struct cloche_err *e)
{
        const char *slash = keeper->trees ? strrchr(keeper->trees, '/') : NULL;
        char path[KEEPER_PATH_MAX];
        _cleanup_fd_ int fd = -EBADF;

        if (!slash)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "there is no image store: start the daemon with cloched --images");
        if (snprintf(path, sizeof(path), "%.*s", (int)(slash - keeper->trees), keeper->trees) >= (int)sizeof(path))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path of the image store is too long");
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return err_set(e, CLOCHE_E_NOT_FOUND, "there is no image store %s: cloche image import makes it", path);
        if (fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the image store %s", path);
        if (sources_check_private(fd, "images", path, e) < 0)
                return -(int)e->code;
        *ret_fd = TAKE_FD(fd);
        return 0;
}
