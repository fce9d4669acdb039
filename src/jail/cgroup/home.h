/* The group in which version 2 lets this process make groups for boxes.
 *
 * A version 2 group has either processes of its own or controllers for the groups beneath it ("no
 * internal processes", cgroups(7)). On a host with systemd each group has one owner (systemd's
 * "Control Group APIs and Delegation"). So the home of our groups is, in this order:
 *   1. the caller's group, if it is delegated: the caller owns it, and systemd has marked it
 *      (Delegate=yes of a unit; attribute trusted.delegate, since systemd 251 also user.delegate);
 *   2. a delegated scope that the service manager makes for this process;
 *   3. for root where no service manager runs: the topmost group, the only one that may have both
 *      processes and controllers;
 *   4. the caller's group, if the caller owns it: in a container, or where an administrator has set
 *      it up by hand.
 * The processes of a home (the caller and its later children) move into one group beneath it,
 * CGROUP_CALLERS. */
#ifndef CLOCHE_JAIL_CGROUP_HOME_H
#define CLOCHE_JAIL_CGROUP_HOME_H

#include "cgroup.h"

#define CGROUP_CALLERS "cloche-callers"

/* Choose the home, and enable controllers for the groups beneath it.
 * ret     an absolute directory of CGROUP_PATH_MAX bytes.
 * Errors  CLOCHE_E_CGROUP: no group is usable; the message names the way out. */
int cgroup_home_open(const struct cgroup_unified *unified, cgroup_request_scope request_scope, const void *data,
                     char *ret, struct cloche_err *e);

#endif
