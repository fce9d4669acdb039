#include "userns.h"

#include "base/err.h"
#include "base/fd.h"
#include "plan.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>

static int write_proc(int proc_fd, pid_t pid, const char *file, const char *text, struct cloche_err *e)
{
        char path[64];
        _cleanup_fd_ int fd = -EBADF;
        int r;

        snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
        fd = openat(proc_fd, path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open %s of the box", file);
        r = fd_write_full(fd, text, strlen(text));
        return r < 0 ? err_os(e, CLOCHE_E_NAMESPACE, -r, "write %s of the box", file) : 0;
}

/* One id, and for a template the rest of the range around it, under the same numbers inside and outside. */
static void map_text(char *text, size_t size, uint32_t outside, const struct userns_range *beneath)
{
        size_t n = (size_t)snprintf(text, size, "%u %u 1\n", JAIL_UID, outside);
        uint32_t end = beneath ? beneath->first + beneath->count : 0;

        if (!beneath)
                return;
        if (outside < beneath->first || outside >= end) {
                snprintf(text + n, size - n, "%u %u %u\n", beneath->first, beneath->first, beneath->count);
                return;
        }
        if (outside > beneath->first)
                n += (size_t)snprintf(text + n, size - n, "%u %u %u\n", beneath->first, beneath->first, outside - beneath->first);
        if (outside + 1 < end)
                snprintf(text + n, size - n, "%u %u %u\n", outside + 1, outside + 1, end - outside - 1);
}

int userns_map(int proc_fd, pid_t pid, const struct userns_ids *ids, struct cloche_err *e)
{
        char text[128];
        int r = ids->own_groups ? 0 : write_proc(proc_fd, pid, "setgroups", "deny", e);

        map_text(text, sizeof(text), ids->gid, ids->beneath);
        if (r == 0)
                r = write_proc(proc_fd, pid, "gid_map", text, e);
        map_text(text, sizeof(text), ids->uid, ids->beneath);
        if (r == 0)
                r = write_proc(proc_fd, pid, "uid_map", text, e);
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
