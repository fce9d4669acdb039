/* The box's root file system. mount_namespaces(7), open_tree(2), mount_setattr(2) (Linux 5.12),
 * pivot_root(2).
 *
 *   /                    tmpfs, read-only once built; of a sandbox a directory of the tmpfs with the
 *                        quota, in which all below is shown
 *   /usr, /etc/…         the image, read-only, nosuid, nodev; /etc of a directory is an overlay of
 *                        our files and the image's. Of a sandbox with a writable root each directory
 *                        is the lower one of an overlay, whose upper one is in the quota (decision 0040)
 *   /workspace /tmp /home/cloche /dev/shm
 *                        one tmpfs with a byte and an inode quota, nosuid, nodev
 *   /app /data /home /mnt /opt /root /src /srv /var
 *                        of a sandbox: in its root, where the image has none
 *   /dev                 null zero full random urandom and the usual links; of a sandbox also ptmx
 *                        and pts, terminals of its own
 *   /proc                of the box's own pid namespace, masked; there is no /sys
 *   /run/cloche          the runtime's files, copied */
#ifndef CLOCHE_JAIL_ROOT_ROOT_H
#define CLOCHE_JAIL_ROOT_ROOT_H

#include "plan.h"

#include <cloche/error.h>

/* Mounts taken from the host while its paths can still be walked. Owned; released by
 * root_sources_done(). */
struct root_sources {
        struct root_source {
                char name[256];   /* below the new root */
                char target[256]; /* of a symbolic link; "" for a mount */
                int tree_fd;
        } rows[128];
        unsigned count;
        int has_etc;    /* the row "etc" is the image's directory, and our files go over it */
        int runtime_fd; /* directory, or -EBADF */
};

/* Runs as a user that may read image and runtime (before userns_become_user), inside the new mount
 * namespace. */
int root_sources_open(const struct jail_plan *plan, struct root_sources *ret, struct cloche_err *e);
void root_sources_done(struct root_sources *sources);

/* The next two run as the box's user with CAP_SYS_ADMIN in the box's user namespace, because files
 * on its tmpfs must belong to a mapped user. */
/* Build the read-only part from the sources, with a bare /proc, move into it and leave the host's
 * root. A template's mount namespace is copied at this point: the boxes beneath it start from that
 * copy (0.1 ms instead of 1 ms). */
int root_build(const struct jail_plan *plan, struct root_sources *sources, struct cloche_err *e);
/* Add the writable places under their quota, /proc of the box's own pid namespace, and the
 * masks. */
int root_furnish(const struct jail_plan *plan, struct cloche_err *e);
/* Make detached copies of a sandbox's writable places, for a box beneath a template. Runs in the
 * sandbox's mount namespace; owned by the caller. */
int root_take_writable(int ret_fds[JAIL_SHARED_PLACES], struct cloche_err *e);
/* Likewise a directory in which the overlays of its writable root are mounted by their names. It
 * makes a mount namespace of its own, for the box shows no such directory. */
int root_take_layers(int *ret_fd, struct cloche_err *e);
/* Prepare the root of a box that shares with a sandbox: in a copy of its mounts, replace /proc by
 * one of its own pid namespace, and mask it. With a runtime: make its place. */
int root_share(const struct jail_plan *plan, struct cloche_err *e);
/* Copy the runtime's files to that place, and close it to writes. Takes runtime_fd. Their memory
 * counts for the control groups of the caller. */
int root_fill_runtime(int runtime_fd, struct cloche_err *e);
/* identity.c: show the host name and the boot id of the plan, if it has one. */
#define ROOT_IDENTITY "run/.self"
int root_identify(const struct jail_plan *plan, struct cloche_err *e);
/* The same of the boot id alone, in a copy of a sandbox's root. */
int root_show_boot_id(const struct jail_plan *plan, struct cloche_err *e);
/* /etc/hosts */
const char *root_hosts_text(const struct jail_plan *plan, char ret[JAIL_HOSTS_SIZE]);
/* Mount the plan's file system of this number, a FUSE file system without a server yet.
 * *ret_fuse_fd is its connection, owned by the caller; closing the last copy ends the file system.
 * /dev/fuse must be opened in the user namespace of the mounter (fs/fuse/inode.c, fuse_fill_super),
 * so it is opened here, in the box. *ret_tree_fd is set for a mount that lies in another: it is not
 * attached yet; owned by the caller. */
int root_mount_fuse(const struct jail_plan *plan, size_t mount, int *ret_fuse_fd, int *ret_tree_fd,
                    struct cloche_err *e);
/* Make the file system alone; both are owned by the caller. Only processes in the caller's user
 * namespace and in those beneath it may use it (fs/fuse/dir.c, fuse_allow_current_process). */
int root_make_fuse(const struct jail_plan *plan, size_t mount, int *ret_fuse_fd, int *ret_tree_fd,
                   struct cloche_err *e);
/* Attach the plan's file systems that the keeper made. ret_tree_fds: as for root_mount_fuse, for
 * each mount that lies in another. */
int root_attach_made(const struct jail_plan *plan, int ret_tree_fds[JAIL_MOUNTS_MAX], struct cloche_err *e);
/* Make a detached copy of a sandbox's mount, with those in it. Runs in the sandbox's mount
 * namespace, with the root as current directory. */
int root_take_mount(const char *target, int *ret_fd, struct cloche_err *e);
/* Attach it in a box that has the sandbox's root. */
int root_attach_taken(const struct jail_plan *plan, struct cloche_err *e);
/* True if it lies in a writable place of a sandbox, whose copy brings it along. */
int root_is_in_shared_place(const char *target);
/* Start a process that attaches these and looks at files (inner.c), and close them here.
 * tree_fds: by the numbers of the mounts, -EBADF for the others. */
int root_attach_inner(const struct jail_plan *plan, int tree_fds[JAIL_MOUNTS_MAX], struct cloche_err *e);

#endif
