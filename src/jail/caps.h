/* Capabilities: all sets emptied, regaining them made impossible, and both proven.
 * capabilities(7). */
#ifndef CLOCHE_JAIL_CAPS_H
#define CLOCHE_JAIL_CAPS_H

#include <cloche/error.h>
#include <stddef.h>
#include <sys/types.h>

/* Empty the bounding, ambient, inheritable, permitted and effective sets, lock the secure bits, set
 * no_new_privs, then read everything back. Needs CAP_SETPCAP in the namespace. */
int caps_drop_all(struct cloche_err *e);

/* The same, but keep CAP_SYS_ADMIN of the namespace, which a template needs to join the boxes
 * beneath it. over_exec: it survives exec(2) (ambient), for the init of a template's box. */
int caps_keep_admin(int over_exec, struct cloche_err *e);

/* The same, but keep the eight rights of root in a box that has one, for all programs that it
 * starts as root. They go with a change to another user, and no program gets them back. */
int caps_keep_root(struct cloche_err *e);

/* The same, but keep the three rights by which root unpacks an image with its owners: CAP_CHOWN,
 * CAP_FOWNER, CAP_DAC_OVERRIDE. */
int caps_keep_files(struct cloche_err *e);
/* Likewise, for one that only reads files of others: CAP_DAC_READ_SEARCH. */
int caps_keep_reading(struct cloche_err *e);

/* For a program that was started without privileges to drop: no capability is left or can come
 * back, and no process can trace it. Returns 0 or -1. */
int caps_give_up(void);

/* Become an ordinary user, or root without any capability, for good: set these
 * supplementary groups, empty all sets and the bounding set, set no_new_privs, and read
 * everything back. Needs root. */
int caps_become(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count, struct cloche_err *e);

/* Open files as this user, without any capability, and keep the other ids: a process of that user
 * can neither signal this process nor slow it down. Everything is read back. Needs root. */
int caps_open_as(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count, struct cloche_err *e);

#endif
