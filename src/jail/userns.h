/* User namespace: one user and one group inside, mapped to one of each outside. A template's
 * holds, beside its own, the ids of the boxes beneath it; that of a box with a root of its own,
 * a whole range. user_namespaces(7). */
#ifndef CLOCHE_JAIL_USERNS_H
#define CLOCHE_JAIL_USERNS_H

#include <cloche/error.h>
#include <sys/types.h>

struct userns_ids {
        uid_t inside_uid, uid; /* the user in the namespace, and its value in the parent namespace */
        gid_t inside_gid, gid;
        int own_groups; /* 0: the kernel requires that setgroups(2) is denied first (unprivileged parent, Linux 3.19,
                           CVE-2014-8989) */
        struct {
                uint32_t first, count;
        } beneath; /* users and groups to map unchanged, except taken; count 0: none */
        const uint32_t *taken;
        size_t taken_count;
};

/* Set the error of a failed clone(2) with new namespaces: name the setting of this host that
 * forbids it, if one does. Returns -CLOCHE_E_NAMESPACE. */
int userns_refused(int os_errno, struct cloche_err *e);

/* Map the ids of the namespace of process pid. Called in the parent namespace. proc_fd: a /proc
 * where pid is its number; borrowed. */
int userns_map(int proc_fd, pid_t pid, const struct userns_ids *ids, struct cloche_err *e);

struct userns_range {
        uint32_t inside; /* the first number in the namespace */
        uint32_t first;  /* that of the host */
        uint32_t count;
};

/* Map a range of users, and of groups with the same numbers. */
int userns_map_range(int proc_fd, pid_t pid, const struct userns_range *range, struct cloche_err *e);

/* Become the box's user in all three ids, without supplementary groups if the kernel permits
 * dropping them. The capabilities in the namespace stay: the old ids were never its root. */
int userns_become_user(uid_t uid, gid_t gid, int own_groups, struct cloche_err *e);

#endif
