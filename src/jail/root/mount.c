/* Mount calls with errors that name the path. Runs in: the child the keeper cloned, in its own
 * mount namespace, and helpers of the keeper. */
#include "mount.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* glibc 2.36 declares these in <sys/mount.h>, which clashes with <linux/mount.h> there. */
extern int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
extern int umount2(const char *target, int flags);
#define MNT_DETACH_FLAG 2
#define MS_BIND_FLAG 4096
#define MS_PRIVATE_FLAG (1u << 18)

static int clone_tree(int dir_fd, const char *name, unsigned recursive, uint64_t attributes, int *ret_fd,
                      struct cloche_err *e)
{
        struct mount_attr attr = {.attr_set = attributes};
        _cleanup_fd_ int fd = -EBADF;

        fd = (int)syscall(SYS_open_tree, dir_fd, name,
                          OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive | AT_SYMLINK_NOFOLLOW |
                                  (name[0] ? 0 : AT_EMPTY_PATH));
        if (fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "take %s", name);
        if (attributes && syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "restrict %s", name);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* Recursive: in a less privileged mount namespace the children are locked to their parent and a
 * copy without them is refused, as it would show what they cover. */
int mount_clone(int dir_fd, const char *name, uint64_t attributes, int *ret_fd, struct cloche_err *e)
{
        return clone_tree(dir_fd, name, AT_RECURSIVE, attributes, ret_fd, e);
}

int mount_clone_alone(int dir_fd, const char *name, uint64_t attributes, int *ret_fd, struct cloche_err *e)
{
        return clone_tree(dir_fd, name, 0, attributes, ret_fd, e);
}

int mount_bind(const char *source, const char *target, struct cloche_err *e)
{
        if (mount(source, target, NULL, MS_BIND_FLAG, NULL) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "attach /%s", target);
        return 0;
}

int mount_attach(int tree_fd, const char *target, struct cloche_err *e)
{
        if (syscall(SYS_move_mount, tree_fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "attach /%s", target);
        return 0;
}

int mount_make(const char *type, const char *const *options, uint64_t attributes)
{
        _cleanup_fd_ int fs_fd = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
        int fd;

        if (fs_fd < 0)
                return -errno;
        for (; options[0]; options += 2)
                if (syscall(SYS_fsconfig, fs_fd, options[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, options[0],
                            options[1], 0) < 0)
                        return -errno;
        if (syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        fd = (int)syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, attributes);
        return fd < 0 ? -errno : fd;
}

int mount_map_users(int tree_fd, int user_fd)
{
        /* Where the host's mounts are shared, as systemd makes them, a copy is of their peer
         * group: without the second, mounts of a box would appear on the host. */
        struct mount_attr attr = {.attr_set = user_fd < 0 ? 0 : MOUNT_ATTR_IDMAP,
                                  .propagation = MS_PRIVATE_FLAG,
                                  .userns_fd = user_fd < 0 ? 0 : (uint64_t)user_fd};

        return syscall(SYS_mount_setattr, tree_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

int mount_part(struct cloche_err *e)
{
        struct mount_attr attr = {.propagation = MS_PRIVATE_FLAG};

        if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "part with the mounts of the host");
        return 0;
}

int mount_attach_to(int tree_fd, int place_fd, const char *name, struct cloche_err *e)
{
        if (syscall(SYS_move_mount, tree_fd, "", place_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "attach /%s", name);
        return 0;
}

int mount_new(const char *type, const char *target, unsigned long flags, const char *options, struct cloche_err *e)
{
        if (mount(type, target, type, flags, options) == 0)
                return 0;
        if (errno == EPERM && type[0] == 'p')
                /* The kernel returns no more than EPERM if a container covers parts of /proc. */
                return err_set(e, CLOCHE_E_MOUNT,
                               "a new /proc is refused, as in containers that cover parts of /proc: "
                               "podman and docker uncover them with --security-opt unmask=ALL or "
                               "systempaths=unconfined, bwrap with --dev-bind /proc /proc and without --unshare-pid");
        return err_os(e, CLOCHE_E_MOUNT, errno, "mount %s on /%s", type, target);
}

int mount_restrict(const char *target, uint64_t attributes, struct cloche_err *e)
{
        struct mount_attr attr = {.attr_set = attributes};

        if (syscall(SYS_mount_setattr, AT_FDCWD, target, 0, &attr, sizeof(attr)) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "restrict /%s", target);
        return 0;
}

int mount_turn(struct cloche_err *e)
{
        /* The old root is stacked on the new one and taken away from there; no
         * put_old directory is needed. */
        if (syscall(SYS_pivot_root, ".", ".") < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "change the root");
        if (umount2(".", MNT_DETACH_FLAG) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "leave the old root");
        if (chdir("/") < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "enter the new root");
        return 0;
}
