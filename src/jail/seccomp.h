/* The system call filter: an allowlist for the native ABI. seccomp(2), libseccomp.
 * Allowed calls are rows of seccomp-calls.def; known and refused ones answer EPERM, unknown ones ENOSYS so that
 * C libraries fall back; a call through another ABI (i386, x32) kills the process. */
#ifndef CLOCHE_JAIL_SECCOMP_H
#define CLOCHE_JAIL_SECCOMP_H

#include <cloche/cloche.h>

/* Install it on the calling process for ever. no_new_privs must be set. The program was compiled with Cloche
 * (seccomp-compile.c); loading costs 0.14 ms. */
int jail_seccomp_load(struct cloche_err *e);

/* A template's: setns(2) and further filters (seccomp(2)) are allowed, to what capabilities are left in its own user
 * namespace; no mount, no chroot, no new namespace. Its forked children take both back (src/guest).
 * makes_cookies: a child makes the cookie of core scheduling of its box. */
int jail_seccomp_load_template(int makes_cookies, struct cloche_err *e);

#endif
