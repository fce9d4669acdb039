/* Rights that only the keeper needs, given up for good. Runs in: the keeper, the
 * engine, cloched and the CLI. */
#include "privilege.h"

#include "err.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int maps_all(const char *path)
{
        unsigned inside, outside, count;
        FILE *map = fopen(path, "re");
        int found = !map;

        while (map && !found && fscanf(map, "%u %u %u", &inside, &outside, &count) == 3)
                found = inside <= PRIVILEGE_UIDS_FIRST &&
                        (uint64_t)inside + count >= (uint64_t)PRIVILEGE_UIDS_FIRST + PRIVILEGE_UIDS_COUNT;
        if (map)
                fclose(map);
        return found;
}

static int may_administer(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};

        return syscall(SYS_capget, &header, sets) < 0 ||
               sets[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN);
}

int privilege_is_root(void)
{
        return geteuid() == 0 && may_administer() && maps_all("/proc/self/uid_map") && maps_all("/proc/self/gid_map");
}

int privilege_gain_none(struct cloche_err *e)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

        if (syscall(SYS_capset, &header, none) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "give up capabilities");
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? err_os(e, CLOCHE_E_PRIVILEGE, errno, "set no_new_privs")
                                                          : 0;
}

int privilege_become(uid_t uid, struct cloche_err *e)
{
        int r;

        if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "become the user %u", (unsigned)uid);
        r = privilege_gain_none(e);
        if (r < 0)
                return r;
        if (setuid(0) == 0 || setgid(0) == 0 || seteuid(0) == 0)
                return err_set(e, CLOCHE_E_PRIVILEGE, "privilege could be taken back after dropping it");
        return 0;
}
