#include "userns.h"

#include "base/err.h"
#include "base/fd.h"
#include "plan.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>

static int write_proc(pid_t pid, const char *file, const char *text, struct cloche_err *e)
{
        char path[64];
        _cleanup_fd_ int fd = -EBADF;
        int r;

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open %s of the box", file);
        r = fd_write_full(fd, text, strlen(text));
        return r < 0 ? err_os(e, CLOCHE_E_NAMESPACE, -r, "write %s of the box", file) : 0;
}

static int write_map(pid_t pid, const char *file, unsigned outside, struct cloche_err *e)
{
        char line[48];

        snprintf(line, sizeof(line), "%u %u 1\n", JAIL_UID, outside);
        return write_proc(pid, file, line, e);
}

int userns_map(pid_t pid, uid_t host_uid, gid_t host_gid, int own_groups, struct cloche_err *e)
{
        int r = own_groups ? 0 : write_proc(pid, "setgroups", "deny", e);

        if (r == 0)
                r = write_map(pid, "gid_map", host_gid, e);
        if (r == 0)
                r = write_map(pid, "uid_map", host_uid, e);
        return r;
}

int userns_become_user(int own_groups, struct cloche_err *e)
{
        uid_t ruid, euid, suid;
        gid_t rgid, egid, sgid;

        if (own_groups && setgroups(0, NULL) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "drop supplementary groups");
        if (setresgid(JAIL_UID, JAIL_UID, JAIL_UID) < 0 || setresuid(JAIL_UID, JAIL_UID, JAIL_UID) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "become the box's user");
        if (getresuid(&ruid, &euid, &suid) < 0 || getresgid(&rgid, &egid, &sgid) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "read the ids back");
        if (ruid != JAIL_UID || euid != JAIL_UID || suid != JAIL_UID || rgid != JAIL_UID || egid != JAIL_UID ||
            sgid != JAIL_UID)
                return err_set(e, CLOCHE_E_PRIVILEGE, "the box's ids are not what was set");
        return 0;
}
