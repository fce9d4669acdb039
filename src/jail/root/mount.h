/* The few mount calls of the jail. Their errors name the path or the file system. */
#ifndef CLOCHE_JAIL_ROOT_MOUNT_H
#define CLOCHE_JAIL_ROOT_MOUNT_H

#include <cloche/error.h>
#include <stdint.h>

/* A detached copy of the mount tree at name below dir_fd (no symbolic link followed), with these
 * MOUNT_ATTR_ flags set on every mount in it. *ret_fd is owned by the caller. */
int mount_clone(int dir_fd, const char *name, uint64_t attributes, int *ret_fd, struct cloche_err *e);

/* The same without the mounts below it, none of which may be locked (mount_namespaces(7)). */
int mount_clone_alone(int dir_fd, const char *name, uint64_t attributes, int *ret_fd, struct cloche_err *e);

/* The mount at source, alone and with its attributes, also at target; the cheapest of the ways.
 * Both are paths below the current directory in which no link can stand. */
int mount_bind(const char *source, const char *target, struct cloche_err *e);

/* Attach a detached tree at target, a path below the current directory. */
int mount_attach(int tree_fd, const char *target, struct cloche_err *e);

/* A file system of this kind that is attached nowhere. options: name, value, …, NULL; a value of
 * NULL is for a flag. The descriptor of its root, owned by the caller, or -errno. */
int mount_make(const char *type, const char *const *options, uint64_t attributes);

/* Show the owners of this copy's files as the user namespace maps them; nothing has used the
 * copy yet (Linux 5.12). It is no peer of the mount it was taken from any more. user_fd: -EBADF
 * keeps the owners. Returns 0 or -errno: EINVAL if the file system's owners cannot be mapped. */
int mount_map_users(int tree_fd, int user_fd);

/* In a mount namespace that is a copy: nothing that is mounted in either reaches the other. */
int mount_part(struct cloche_err *e);

/* Attach it at an open file or directory; the error names it /name. */
int mount_attach_to(int tree_fd, int place_fd, const char *name, struct cloche_err *e);

/* mount(2) of a file system without a device. */
int mount_new(const char *type, const char *target, unsigned long flags, const char *options, struct cloche_err *e);

/* Set MOUNT_ATTR_ flags on the one mount at target. */
int mount_restrict(const char *target, uint64_t attributes, struct cloche_err *e);

/* Make the mount in the current directory the root, and leave the old root. */
int mount_turn(struct cloche_err *e);

#endif
