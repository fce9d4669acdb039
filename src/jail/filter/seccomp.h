/* The system call filter: an allowlist for the native ABI. seccomp(2), libseccomp.
 * seccomp-calls.def has the allowed calls. Known but refused calls fail with EPERM,
 * unknown ones with ENOSYS so that C libraries fall back; a call through another ABI
 * (i386, x32) kills the process. */
#ifndef CLOCHE_JAIL_FILTER_SECCOMP_H
#define CLOCHE_JAIL_FILTER_SECCOMP_H

#include <cloche/error.h>
#include <sys/types.h>

/* In place of the numbers of a box's user in the compiled filter: no call has such a value
 * otherwise. */
#define SECCOMP_USER 0xc10c0001u
#define SECCOMP_GROUP 0xc10c0002u

/* Install the filter on the calling process for good. no_new_privs must be set. The program was
 * compiled during the build (seccomp-compile.c); loading costs 0.14 ms. */
int jail_seccomp_load(struct cloche_err *e);

/* Install the filter of a box with a root of its own: the box's, and setgroups(2). */
int jail_seccomp_load_root(struct cloche_err *e);

/* Install a template's filter: setns(2) and further filters (seccomp(2)) are allowed, within the
 * capabilities left in its own user namespace; no mount, no chroot, no new namespace. Its forked
 * children give both up (src/box/join).
 * uid, gid: of the box's user.
 * makes_cookies: a child makes the core scheduling cookie of its box. */
int jail_seccomp_load_template(uid_t uid, gid_t gid, int makes_cookies, struct cloche_err *e);

#endif
