/* Mounts that lie in other mounts, and mounts of one file. The place of an inner mount is a name
 * that the outer mount's server has to look up, and that server starts only after the box. So a
 * child of PID 1 opens each place, which waits in the kernel until the server replies, attaches
 * the mount there and exits. box-init waits for it before it handles its first request, so no
 * guest program runs earlier. The child also reads the attributes of each mount's root: before
 * that the kernel takes the root of a FUSE mount for an inode of uid 0, which the box does not
 * map, and refuses to write to it (inode_permission() in fs/namei.c). Runs in: a child of PID 1,
 * with the rights of the box. It reads no bytes of guest or host. */
#include "mount.h"
#include "root.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Open a place below the current directory, which is the root. Links are not
 * followed: they may be the host's. */
static int open_place(const char *place)
{
        struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
        int fd = (int)syscall(SYS_openat2, AT_FDCWD, place, &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

static int read_attributes(const struct jail_plan *plan)
{
        for (size_t i = 0; i < plan->mount_count; i++) {
                _cleanup_fd_ int fd = open_place(plan->mounts[i] + 1);
                struct stat st;

                if (fd < 0 || fstat(fd, &st) < 0)
                        return fd < 0 ? fd : -errno;
        }
        return 0;
}

static int attach(int tree_fd, const char *place)
{
        _cleanup_fd_ int place_fd = open_place(place);
        struct cloche_err e = {0};

        if (place_fd < 0)
                return place_fd;
        return mount_attach_to(tree_fd, place_fd, place, &e) < 0 ? -e.os_errno : 0;
}

/* Close all other descriptors, which belong to the box, the keeper and the engine. These move to
 * 0, 1, … */
static int keep_alone(int tree_fds[JAIL_MOUNTS_MAX])
{
        int next = 0;

        for (size_t i = 0; i < JAIL_MOUNTS_MAX; i++)
                if (tree_fds[i] >= 0 && (tree_fds[i] = fcntl(tree_fds[i], F_DUPFD_CLOEXEC, 64)) < 0)
                        return -errno;
        for (size_t i = 0; i < JAIL_MOUNTS_MAX; i++)
                if (tree_fds[i] >= 0) {
                        if (dup3(tree_fds[i], next, O_CLOEXEC) < 0)
                                return -errno;
                        tree_fds[i] = next++;
                }
        return close_range((unsigned)next, ~0u, 0) < 0 ? -errno : 0;
}

/* The next mount to attach: the one with the shortest place, so that outer mounts come before
 * inner ones. */
static int next_of(const struct jail_plan *plan, const int tree_fds[JAIL_MOUNTS_MAX])
{
        int best = -1;

        for (int i = 0; i < JAIL_MOUNTS_MAX; i++)
                if (tree_fds[i] >= 0 && (best < 0 || strlen(plan->mounts[i]) < strlen(plan->mounts[best])))
                        best = i;
        return best;
}

static int attach_all(const struct jail_plan *plan, int tree_fds[JAIL_MOUNTS_MAX])
{
        int r = keep_alone(tree_fds), i;

        /* No program of the box traces it or reads its memory, which is a copy of the keeper's. */
        if (r == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                r = -errno;
        while (r == 0 && (i = next_of(plan, tree_fds)) >= 0) {
                r = attach(tree_fds[i], plan->mounts[i] + 1);
                tree_fds[i] = -EBADF;
        }
        return r < 0 ? r : read_attributes(plan);
}

/* The flag keeps the kernel from requesting attributes of the server, which its user may have
 * stopped. */
static int is_mount(int fd)
{
        struct statx found = {0};

        return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &found) == 0 &&
               (found.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

int root_take_mount(const char *target, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int place_fd = open_place(target + 1);

        if (place_fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, -place_fd,
                              "open the mount %s of the sandbox, whose programs may have renamed a directory above it",
                              target);
        if (!is_mount(place_fd))
                return err_set(e, CLOCHE_E_MOUNT,
                               "%s is no mount any more: programs of the sandbox renamed a directory above it", target);
        return mount_clone(place_fd, "", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, ret_fd, e);
}

int root_attach_taken(const struct jail_plan *plan, struct cloche_err *e)
{
        for (size_t i = 0; i < plan->mount_count; i++) {
                _cleanup_fd_ int place_fd = open_place(plan->mounts[i] + 1);
                int r = place_fd < 0 ? err_os(e, CLOCHE_E_MOUNT, -place_fd, "open the place of the mount %s",
                                              plan->mounts[i])
                                     : mount_attach_to(plan->mount_fds[i], place_fd, plan->mounts[i] + 1, e);

                if (r < 0)
                        return r;
        }
        return 0;
}

int root_attach_inner(const struct jail_plan *plan, int tree_fds[JAIL_MOUNTS_MAX], struct cloche_err *e)
{
        pid_t pid = plan->mount_count == 0 ? 1 : fork();

        if (pid == 0)
                _exit(-attach_all(plan, tree_fds)); /* box-init has the number from its end */
        if (pid < 0)
                err_os(e, CLOCHE_E_RESOURCE, errno, "start the process that attaches mounts");
        for (size_t i = 0; i < JAIL_MOUNTS_MAX; i++)
                fd_close(&tree_fds[i]);
        return pid < 0 ? -CLOCHE_E_RESOURCE : 0;
}
