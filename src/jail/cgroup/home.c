/* Runs in: the keeper, at its start. */
#include "home.h"

#include "base/err.h"
#include "base/privilege.h"
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MOVE_ROUNDS 50 /* processes may fork while they are moved */

static int group_path(char *ret, const char *group, const char *file)
{
        int n = snprintf(ret, CGROUP_PATH_MAX, "%s/%s", group, file);

        return n < 0 || n >= CGROUP_PATH_MAX ? -ENAMETOOLONG : 0;
}

static int has_file(const char *group, const char *file, int mode)
{
        char path[CGROUP_PATH_MAX];

        return group_path(path, group, file) == 0 && faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

/* The topmost group of a hierarchy has no cgroup.events. The topmost visible group of a cgroup
 * namespace has one. */
static int is_topmost(const char *group)
{
        return !has_file(group, "cgroup.events", F_OK);
}

static int has_attribute(const char *group, const char *name)
{
        char value = 0;

        return getxattr(group, name, &value, 1) == 1 && value == '1';
}

static int is_owned(const char *group)
{
        struct stat st;

        return stat(group, &st) == 0 && st.st_uid == geteuid();
}

static int is_own(const char *group)
{
        return is_owned(group) && has_file(group, "cgroup.procs", W_OK) &&
               has_file(group, "cgroup.subtree_control", W_OK);
}

/* The owner of a group may set the attribute, and may move processes out of all groups beneath.
 * Root therefore takes no group of an ordinary user: "sudo cloche" in a terminal of that user
 * would give its boxes away. */
static int is_delegated(const char *group)
{
        return is_own(group) && (has_attribute(group, "user.delegate") || has_attribute(group, "trusted.delegate"));
}

/* The caller's group. A caller that was moved before is in CGROUP_CALLERS beneath its own group. */
static int own_group(const struct cgroup_unified *unified, char *ret)
{
        static const char suffix[] = "/" CGROUP_CALLERS;
        int n = snprintf(ret, CGROUP_PATH_MAX, "%s%s", unified->mount_point, unified->own);
        size_t size = strlen(ret), cut = sizeof(suffix) - 1;

        if (n < 0 || n >= CGROUP_PATH_MAX)
                return -ENAMETOOLONG;
        if (size > cut && strcmp(ret + size - cut, suffix) == 0)
                ret[size - cut] = '\0';
        return 0;
}

/* -- moving processes ----------------------------------------------------------------------------------------- */

/* Move each process of a list of pids, one a line. A process that ended meanwhile is no error. */
static int move_each(const char *pids, const char *entrance)
{
        char number[24];

        for (const char *at = pids, *end; (end = strchr(at, '\n')); at = end + 1) {
                int r;

                snprintf(number, sizeof(number), "%.*s", (int)(end - at), at);
                if (strcmp(number, "0") == 0)
                        return -EXDEV; /* a process of another pid namespace */
                r = cgroup_write_text(entrance, number);
                if (r < 0 && r != -ESRCH)
                        return r;
        }
        return 0;
}

static int move_processes(const char *group)
{
        char procs[CGROUP_PATH_MAX], callers[CGROUP_PATH_MAX], entrance[CGROUP_PATH_MAX], pids[1 << 16];
        int r = group_path(procs, group, "cgroup.procs");

        if (r < 0 || group_path(callers, group, CGROUP_CALLERS) < 0 ||
            group_path(entrance, callers, "cgroup.procs") < 0)
                return -ENAMETOOLONG;
        for (int round = 0; round < MOVE_ROUNDS; round++) {
                ssize_t n = cgroup_read_text(procs, pids, sizeof(pids));

                if (n <= 0)
                        return (int)n;
                if (mkdir(callers, 0755) < 0 && errno != EEXIST)
                        return -errno;
                r = move_each(pids, entrance);
                if (r < 0)
                        return r;
        }
        return -EBUSY;
}

/* systemd takes controllers back from groups that it does not manage. A container may see the
 * host's hierarchy without the host's /run. */
static int is_of_systemd(const char *topmost)
{
        return has_file(topmost, "init.scope", F_OK) || has_file(topmost, "system.slice", F_OK);
}

/* -- the choice ----------------------------------------------------------------------------------------------- */

static int take(const char *group, char *ret, struct cloche_err *e)
{
        int r = move_processes(group);

        snprintf(ret, CGROUP_PATH_MAX, "%s", group);
        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "move the processes of %s into its %s", group, CGROUP_CALLERS)
                     : 0;
}

/* The group that the service manager has put this process into. */
static int take_scope(char *ret, struct cloche_err *e)
{
        struct cgroup_unified moved;
        char group[CGROUP_PATH_MAX];

        if (cgroup_read_own(&moved) < 0 || own_group(&moved, group) < 0)
                return err_set(e, CLOCHE_E_CGROUP,
                               "read /proc/self/cgroup after the service manager has moved this process");
        if (!is_owned(group))
                return err_set(e, CLOCHE_E_CGROUP,
                               "systemd made a scope, but did not move this process into it: it stands in %.90s",
                               group);
        return take(group, ret, e);
}

static int refuse(const char *group, const struct cloche_err *scope_error, struct cloche_err *e)
{
        if (scope_error->code != CLOCHE_E_NOT_FOUND)
                return err_set(e, CLOCHE_E_CGROUP, "%s", scope_error->msg);
        if (!privilege_is_root())
                return err_set(e, CLOCHE_E_CGROUP,
                               "no group is delegated to user %u: log in through systemd, or use a unit with "
                               "Delegate=yes",
                               (unsigned)geteuid());
        return err_set(e, CLOCHE_E_CGROUP, "%.90s cannot be written: make it writable, or use a unit with Delegate=yes",
                       group);
}

int cgroup_home_open(const struct cgroup_unified *unified, cgroup_request_scope request_scope, const void *data,
                     char *ret, struct cloche_err *e)
{
        struct cloche_err scope_error = {0};
        char group[CGROUP_PATH_MAX];
        int r;

        if (own_group(unified, group) < 0)
                return err_set(e, CLOCHE_E_CGROUP, "the name of this process's group is too long");
        if (is_delegated(group))
                return take(group, ret, e);
        r = request_scope(data, &scope_error);
        if (r == 0)
                return take_scope(ret, e);
        if (scope_error.code == CLOCHE_E_NOT_FOUND && privilege_is_root() && is_topmost(unified->mount_point) &&
            is_own(unified->mount_point) && !is_of_systemd(unified->mount_point)) {
                snprintf(ret, CGROUP_PATH_MAX, "%s", unified->mount_point);
                return 0;
        }
        if ((scope_error.code == CLOCHE_E_NOT_FOUND || !privilege_is_root()) && is_own(group) && !is_topmost(group))
                return take(group, ret, e);
        return refuse(group, &scope_error, e);
}
