/* User namespace: one user and one group inside, mapped to one of each outside. user_namespaces(7). */
#ifndef CLOCHE_JAIL_USERNS_H
#define CLOCHE_JAIL_USERNS_H

#include <cloche/cloche.h>
#include <sys/types.h>

/* Map JAIL_UID and JAIL_GID of the namespace of process pid to host_uid and host_gid. Called by the parent.
 * own_groups 0: the kernel wants setgroups(2) denied first (unprivileged parent, Linux 3.19, CVE-2014-8989). */
int userns_map(pid_t pid, uid_t host_uid, gid_t host_gid, int own_groups, struct cloche_err *e);

/* Become JAIL_UID in all three ids, without supplementary groups where the kernel permits dropping them. The
 * capabilities in the namespace stay: the old ids were never its root. */
int userns_become_user(int own_groups, struct cloche_err *e);

#endif
