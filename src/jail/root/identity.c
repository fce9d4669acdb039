/* The host name and the boot id of a sandbox, where its programs look for them. A box beneath
 * a template is born in a copy of that one's root, which nobody can write to, so the files are
 * in a file system of their own. Runs in: the child the keeper cloned, until it becomes
 * box-init (jail/enter.c). */
#include "mount.h"
#include "root.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>

#define BOOT_ID "proc/sys/kernel/random/boot_id"

static int write_text(int tree_fd, const char *name, const char *text, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(tree_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        int r = fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));

        return r < 0 ? err_os(e, CLOCHE_E_MOUNT, -r, "write the %s of the box", name) : 0;
}

static int write_all(const struct jail_plan *plan, int tree_fd, struct cloche_err *e)
{
        char text[JAIL_HOSTS_SIZE];
        int r;

        snprintf(text, sizeof(text), "%s\n", plan->boot_id);
        r = write_text(tree_fd, "boot_id", text, e);
        if (r == 0)
                r = write_text(tree_fd, "hosts", root_hosts_text(plan, text), e);
        snprintf(text, sizeof(text), "%s\n", plan->host_name);
        return r < 0 ? r : write_text(tree_fd, "hostname", text, e);
}

const char *root_hosts_text(const struct jail_plan *plan, char ret[JAIL_HOSTS_SIZE])
{
        snprintf(ret, JAIL_HOSTS_SIZE, "127.0.0.1 localhost %s\n::1 localhost\n", plan->host_name);
        return ret;
}

int root_show_boot_id(const struct jail_plan *plan, struct cloche_err *e)
{
        return plan->boot_id[0] ? mount_bind(ROOT_IDENTITY "/boot_id", BOOT_ID, e) : 0;
}

int root_identify(const struct jail_plan *plan, struct cloche_err *e)
{
        static const char *const options[] = {"mode", "755", "size", "32k", "nr_inodes", "8", NULL};
        _cleanup_fd_ int tree_fd = -EBADF;
        int r;

        if (!plan->boot_id[0])
                return 0;
        tree_fd = mount_make("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (tree_fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, -tree_fd, "make the files about the box");
        r = write_all(plan, tree_fd, e);
        if (r == 0)
                r = mount_attach(tree_fd, ROOT_IDENTITY, e);
        if (r == 0)
                r = mount_restrict(ROOT_IDENTITY, MOUNT_ATTR_RDONLY, e);
        if (r == 0)
                r = root_show_boot_id(plan, e);
        /* A box with a root of its own has these two in its /etc. */
        if (r == 0 && plan->nested)
                r = mount_bind(ROOT_IDENTITY "/hosts", "etc/hosts", e);
        if (r == 0 && plan->nested)
                r = mount_bind(ROOT_IDENTITY "/hostname", "etc/hostname", e);
        return r;
}
