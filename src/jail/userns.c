/* The mapping of a box's user namespace. Runs in: the keeper and its helpers. */
#include "userns.h"

#include "base/err.h"
#include "base/fd.h"
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
        /* /proc belongs to another pid namespace, so the pid of the box is not found there. */
        if (fd < 0 && (errno == EACCES || errno == ENOENT))
                return err_set(e, CLOCHE_E_NAMESPACE,
                               "/proc is not of this pid namespace: mount a new one there, or leave the outer pid "
                               "namespace in place "
                               "(bwrap: without --unshare-pid and --unshare-all)");
        if (fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open %s of the box", file);
        r = fd_write_full(fd, text, strlen(text));
        /* Mapping uid 0 into a user namespace needs CAP_SETFCAP there (Linux 5.12,
         * user_namespaces(7)). */
        if (r == -EPERM && geteuid() == 0 && strcmp(file, "uid_map") == 0)
                return err_set(e, CLOCHE_E_NAMESPACE,
                               "root of this container may not hand its user on: give it CAP_SETFCAP, or run as an "
                               "ordinary user");
        return r < 0 ? err_os(e, CLOCHE_E_NAMESPACE, -r, "write %s of the box", file) : 0;
}

int userns_refused(int os_errno, struct cloche_err *e)
{
        /* If the file is absent, the setting does not exist. user_namespaces(7); the second exists
         * in Debian's kernels. */
        static const struct {
                const char *name, *path;
                int permits;
        } rows[] = {
                {"user.max_user_namespaces", "/proc/sys/user/max_user_namespaces", 10000},
                {"kernel.unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone", 1},
        };
        int is_refusal = os_errno == EPERM || os_errno == ENOSPC || os_errno == EUSERS;

        for (size_t i = 0; is_refusal && i < sizeof(rows) / sizeof(rows[0]); i++) {
                FILE *file = fopen(rows[i].path, "re");
                int value = -1, has_value = file && fscanf(file, "%d", &value) == 1;

                if (file)
                        fclose(file);
                if (has_value && value == 0)
                        return err_set(e, CLOCHE_E_NAMESPACE,
                                       "this host forbids user namespaces, which every box needs: %s is 0; sysctl -w "
                                       "%s=%d permits them",
                                       rows[i].name, rows[i].name, rows[i].permits);
        }
        if (os_errno == EAGAIN || os_errno == ENOMEM)
                return err_os(e, CLOCHE_E_RESOURCE, os_errno, "make the box's first process");
        return err_os(e, CLOCHE_E_NAMESPACE, os_errno, "make the box's namespaces%s",
                      os_errno == ENOSPC || os_errno == EUSERS
                              ? ", of which this user has as many as permitted, or which are nested 32 deep"
                              : "");
}

static uint32_t next_taken(const struct userns_ids *ids, uint32_t own, uint32_t from, uint32_t end)
{
        uint32_t next = own >= from && own < end ? own : end;

        for (size_t i = 0; i < ids->taken_count; i++)
                if (ids->taken[i] >= from && ids->taken[i] < next)
                        next = ids->taken[i];
        return next;
}

/* Map one id, and for a template the rest of the range, under the same numbers inside and outside.
 * Its own id and the ids of the templates above are left out, because they appear as inside
 * there. The kernel accepts only ranges that the parent maps in one piece. */
static void map_text(char *text, size_t size, const struct userns_ids *ids, uint32_t inside, uint32_t own)
{
        size_t n = (size_t)snprintf(text, size, "%u %u 1\n", inside, own);
        uint32_t from = ids->beneath.first, end = from + ids->beneath.count;

        while (from < end && n < size) {
                uint32_t next = next_taken(ids, own, from, end);

                if (next > from)
                        n += (size_t)snprintf(text + n, size - n, "%u %u %u\n", from, from, next - from);
                from = next + 1;
        }
}

int userns_map(int proc_fd, pid_t pid, const struct userns_ids *ids, struct cloche_err *e)
{
        char text[2048]; /* 32 bytes for a line, and one more line for each template above */
        int r = ids->own_groups ? 0 : write_proc(proc_fd, pid, "setgroups", "deny", e);

        map_text(text, sizeof(text), ids, ids->inside_gid, ids->gid);
        if (r == 0)
                r = write_proc(proc_fd, pid, "gid_map", text, e);
        map_text(text, sizeof(text), ids, ids->inside_uid, ids->uid);
        if (r == 0)
                r = write_proc(proc_fd, pid, "uid_map", text, e);
        return r;
}

int userns_map_range(int proc_fd, pid_t pid, const struct userns_range *range, struct cloche_err *e)
{
        char text[40];
        int r;

        snprintf(text, sizeof(text), "%u %u %u\n", range->inside, range->first, range->count);
        r = write_proc(proc_fd, pid, "gid_map", text, e);
        return r < 0 ? r : write_proc(proc_fd, pid, "uid_map", text, e);
}

int userns_become_user(uid_t uid, gid_t gid, int own_groups, struct cloche_err *e)
{
        uid_t ruid, euid, suid;
        gid_t rgid, egid, sgid;

        if (own_groups && setgroups(0, NULL) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "drop supplementary groups");
        if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "become the box's user");
        if (getresuid(&ruid, &euid, &suid) < 0 || getresgid(&rgid, &egid, &sgid) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "read the ids back");
        if (ruid != uid || euid != uid || suid != uid || rgid != gid || egid != gid || sgid != gid)
                return err_set(e, CLOCHE_E_PRIVILEGE, "the box's user and group ids differ from those that were set");
        return 0;
}
