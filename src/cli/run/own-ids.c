/* A user namespace for programs of others that want to be root, such as the scripts of packages.
 * Runs in: the CLI, as root, and in its children. */
#include "own-ids.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

int own_ids_open(const char *parent, struct own_ids *ret, struct cloche_err *e)
{
        int r;

        *ret = (struct own_ids){.lease.fd = -EBADF};
        r = ids_lease(&ret->lease, e);
        if (r < 0)
                return r;
        if (snprintf(ret->directory, sizeof(ret->directory), "%s/cloche-XXXXXX", parent) >=
                    (int)sizeof(ret->directory) ||
            !mkdtemp(ret->directory)) {
                ret->directory[0] = '\0';
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "make a directory in %s", parent);
        }
        /* Also apt enters it, as a user of the namespace without rights. */
        if (chmod(ret->directory, 0711) < 0 || lchown(ret->directory, ret->lease.first, ret->lease.first) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "give away %s", ret->directory);
        return 0;
}

void own_ids_keep(const struct own_ids *ids)
{
        (void)fcntl(ids->lease.fd, F_SETFD, 0);
}

/* Mounts in this namespace end with it. */
int own_ids_enter(int socket_fd)
{
        struct cloche_err e;
        int error = unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ? errno : 0;
        char is_mapped = 0;

        if (write(socket_fd, &error, sizeof(error)) != sizeof(error))
                return errno;
        if (error)
                return error;
        if (read(socket_fd, &is_mapped, 1) != 1 || !is_mapped)
                return EPERM;
        if (userns_become_user(0, 0, 1, &e) < 0)
                return EPERM;
        return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? errno : 0;
}

int own_ids_map(const struct own_ids *ids, pid_t child, int socket_fd, struct cloche_err *e)
{
        const struct userns_range range = {.first = ids->lease.first, .count = IDS_IN_RANGE};
        _cleanup_fd_ int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int error = EPIPE, r;

        if (read(socket_fd, &error, sizeof(error)) != sizeof(error) || error)
                return userns_refused(error, e);
        if (proc_fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open /proc");
        r = userns_map_range(proc_fd, child, &range, e);
        if (r == 0 && write(socket_fd, "1", 1) != 1)
                r = err_os(e, CLOCHE_E_NAMESPACE, errno, "start a program in a user namespace");
        return r;
}

void own_ids_close(struct own_ids *ids)
{
        if (ids->directory[0])
                (void)rmdir(ids->directory);
        if (ids->lease.fd >= 0)
                ids_release(&ids->lease);
}
