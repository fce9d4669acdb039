/* Capabilities: all sets emptied, regaining them made impossible, and both proven. capabilities(7). */
#ifndef CLOCHE_JAIL_CAPS_H
#define CLOCHE_JAIL_CAPS_H

#include <cloche/cloche.h>
#include <stddef.h>
#include <sys/types.h>

/* Empty the bounding, ambient, inheritable, permitted and effective sets, lock the secure bits, set no_new_privs,
 * then read everything back. Wants CAP_SETPCAP in the namespace. */
int caps_drop_all(struct cloche_err *e);

/* The same, but for CAP_SYS_ADMIN of the namespace, which a template needs to join the boxes beneath it. over_exec: it
 * passes exec(2) (ambient), for the init of a template's box. */
int caps_keep_admin(int over_exec, struct cloche_err *e);

/* For a program that was started without rights to take: no capability is left, none comes back, nobody traces it. 0 or -1. */
int caps_give_up(void);

/* Become an ordinary user, or root without any right, for good: these supplementary groups, all sets and the bounding set empty,
 * no_new_privs, all read back. Wants root. */
int caps_become(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count, struct cloche_err *e);

/* Open files as this user, without any capability, and stay somebody else: whoever has only his rights can neither signal this process nor slow it down. All are
 * read back. Wants root. */
int caps_open_as(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count, struct cloche_err *e);

#endif
