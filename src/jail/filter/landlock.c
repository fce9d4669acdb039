#include "landlock.h"

#include "base/err.h"
#include "base/fd.h"

#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Numbers of the kernel's interface, newer than the distribution's headers. */
#define CREATE_VERSION 1u
#define RULE_PATH_BENEATH 1

enum {
        FS_EXECUTE = 1 << 0,
        FS_WRITE_FILE = 1 << 1,
        FS_READ_FILE = 1 << 2,
        FS_READ_DIR = 1 << 3,
        FS_REMOVE_DIR = 1 << 4,
        FS_REMOVE_FILE = 1 << 5,
        FS_MAKE_DIR = 1 << 7,
        FS_MAKE_REG = 1 << 8,
        FS_MAKE_SYM = 1 << 12,
        FS_ABI_1 = (1 << 13) - 1,
        FS_REFER = 1 << 13,     /* ABI 2 */
        FS_TRUNCATE = 1 << 14,  /* ABI 3 */
        FS_IOCTL_DEV = 1 << 15, /* ABI 5 */
        FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
};
#define NET_BIND 1u  /* ABI 4: TCP */
#define NET_ALL 3u   /* bind and connect */
#define SCOPE_ALL 3u /* ABI 6: abstract sockets and signals */

struct ruleset_attr {
        uint64_t fs, net, scoped;
};

struct beneath_attr {
        uint64_t allowed;
        int32_t parent_fd;
} __attribute__((packed));

static uint64_t handled_fs(int abi)
{
        uint64_t all = FS_ABI_1;

        if (abi >= 2)
                all |= FS_REFER;
        if (abi >= 3)
                all |= FS_TRUNCATE;
        if (abi >= 5)
                all |= FS_IOCTL_DEV;
        return all;
}

static size_t attr_size(int abi)
{
        return abi >= 6 ? sizeof(struct ruleset_attr) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
}

static int allow(int ruleset_fd, const struct landlock_place *place, uint64_t handled)
{
        struct beneath_attr attr = {.allowed = FS_READ_FILE | FS_READ_DIR, .parent_fd = place->fd};
        struct stat st;

        if (place->writable)
                attr.allowed |= FS_WRITE_FILE | FS_MAKE_REG | FS_REMOVE_FILE | FS_TRUNCATE;
        if (place->writable == LANDLOCK_TREE)
                attr.allowed |= FS_MAKE_DIR | FS_REMOVE_DIR | FS_MAKE_SYM | FS_REFER;
        attr.allowed &= handled;
        if (fstat(place->fd, &st) < 0)
                return -1;
        if (!S_ISDIR(st.st_mode)) /* the kernel accepts rights of directories for directories only */
                attr.allowed &= FS_OF_FILES;
        return (int)syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &attr, 0);
}

static int enter(const struct landlock_place *places, size_t count, uint64_t net, int *ret_abi, struct cloche_err *e)
{
        int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);
        struct ruleset_attr attr = {.fs = handled_fs(abi),
                                    .net = abi >= 4 ? net : 0,
                                    .scoped = abi >= 6 ? SCOPE_ALL : 0};
        _cleanup_fd_ int ruleset_fd = -EBADF;

        if (abi < 1)
                return err_os(e, CLOCHE_E_GUARD_MISSING, errno, "landlock");
        ruleset_fd = (int)syscall(SYS_landlock_create_ruleset, &attr, attr_size(abi), 0);
        if (ruleset_fd < 0)
                return err_os(e, CLOCHE_E_GUARD_MISSING, errno, "make a landlock ruleset");
        for (size_t i = 0; i < count; i++)
                if (allow(ruleset_fd, &places[i], attr.fs) < 0)
                        return err_os(e, CLOCHE_E_GUARD_MISSING, errno, "allow a directory with landlock");
        if (syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0)
                return err_os(e, CLOCHE_E_GUARD_MISSING, errno, "enter landlock");
        *ret_abi = abi;
        return 0;
}

int landlock_enter(const struct landlock_place *places, size_t count, int *ret_abi, struct cloche_err *e)
{
        return enter(places, count, NET_ALL, ret_abi, e);
}

int landlock_leave_connections(int *ret_abi, struct cloche_err *e)
{
        return enter(NULL, 0, NET_BIND, ret_abi, e);
}
