/* Capabilities emptied for good, and proven empty. Runs in: the child the keeper cloned, a forked
 * child that joins its box, and our own programs at their start. */
#include "caps.h"

#include "base/err.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Root inside has no rights, exec(2) gives none, and neither can be switched back. */
#define LOCKED_SECURE_BITS                                                                               \
        (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | \
         SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

/* Root inside has the rights of its bounding set, which a change to another user ends at the
 * next exec(2) at the latest, and nothing raises. setpriv(1) keeps them until then
 * (PR_SET_KEEPCAPS). */
#define ROOT_SECURE_BITS (SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

/* Over files, processes and ports of its box. CAP_SETFCAP, CAP_MKNOD, CAP_SYS_PTRACE,
 * CAP_SYS_CHROOT and all rights over mounts, networks and limits are left out. */
static const int root_caps[] = {CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID,
                                CAP_SETUID, CAP_SETGID,       CAP_KILL,   CAP_NET_BIND_SERVICE};

static uint64_t bit(int cap)
{
        return UINT64_C(1) << cap;
}

static int drop_bounding(uint64_t keep, struct cloche_err *e)
{
        /* The list of the kernel ends where it returns EINVAL. */
        for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
                if (!(keep & bit(cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        return err_os(e, CLOCHE_E_PRIVILEGE, errno, "drop capability %d", cap);
        return 0;
}

static int set_sets(uint64_t keep, uint64_t inherit, struct cloche_err *e)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

        for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
                uint32_t word = (uint32_t)(keep >> 32 * i);

                sets[i] = (struct __user_cap_data_struct){word, word, (uint32_t)(inherit >> 32 * i)};
        }
        if (syscall(SYS_capset, &header, sets) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set the capability sets");
        return 0;
}

static int check_dropped(uint64_t keep, struct cloche_err *e)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3], all[_LINUX_CAPABILITY_U32S_3];

        if (syscall(SYS_capget, &header, now) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "read the capability sets back");
        for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
                if ((now[i].effective | now[i].permitted | now[i].inheritable) & ~(uint32_t)(keep >> 32 * i))
                        return err_set(e, CLOCHE_E_PRIVILEGE, "capabilities are left after dropping them");
                all[i] = (struct __user_cap_data_struct){.effective = 1u, .permitted = 1u};
        }
        for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
                if (!(keep & bit(cap)) && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 0)
                        return err_set(e, CLOCHE_E_PRIVILEGE, "capability %d is left in the bounding set", cap);
        if (syscall(SYS_capset, &header, all) == 0)
                return err_set(e, CLOCHE_E_PRIVILEGE, "dropped capabilities could be taken back");
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
                return err_set(e, CLOCHE_E_PRIVILEGE, "no_new_privs is not in force");
        return 0;
}

/* secure_bits: 0 sets none, for one whose capabilities survive exec(2). */
static int drop(uint64_t keep, unsigned long secure_bits, struct cloche_err *e)
{
        int over_exec = secure_bits == 0;

        int r;

        r = drop_bounding(keep, e);
        if (r < 0)
                return r;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "clear ambient capabilities");
        /* Setting the secure bits needs CAP_SETPCAP, so they come before the sets are lowered.
         * Raising the ambient set needs the lowered sets, and no lock. */
        if (!over_exec && prctl(PR_SET_SECUREBITS, secure_bits, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "lock the secure bits");
        r = set_sets(keep, over_exec ? keep : 0, e);
        for (int cap = 0; r == 0 && over_exec && cap < 64; cap++)
                if (keep & bit(cap) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
                        r = err_os(e, CLOCHE_E_PRIVILEGE, errno, "hand capability %d on", cap);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set no_new_privs");
        return check_dropped(keep, e);
}

int caps_drop_all(struct cloche_err *e)
{
        return drop(0, LOCKED_SECURE_BITS, e);
}

int caps_keep_admin(int over_exec, struct cloche_err *e)
{
        return drop(bit(CAP_SYS_ADMIN), over_exec ? 0 : LOCKED_SECURE_BITS, e);
}

int caps_keep_root(struct cloche_err *e)
{
        uint64_t keep = 0;

        for (size_t i = 0; i < sizeof(root_caps) / sizeof(root_caps[0]); i++)
                keep |= bit(root_caps[i]);
        return drop(keep, ROOT_SECURE_BITS, e);
}

int caps_keep_files(struct cloche_err *e)
{
        return drop(bit(CAP_CHOWN) | bit(CAP_FOWNER) | bit(CAP_DAC_OVERRIDE), LOCKED_SECURE_BITS, e);
}

int caps_keep_reading(struct cloche_err *e)
{
        return drop(bit(CAP_DAC_READ_SEARCH), LOCKED_SECURE_BITS, e);
}

int caps_give_up(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return -1;
        return (int)syscall(SYS_capset, &header, none);
}

int caps_become(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count, struct cloche_err *e)
{
        uid_t ruid, euid, suid;
        int r = drop_bounding(0, e);

        if (r < 0)
                return r;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "clear ambient capabilities");
        if (setgroups(group_count, groups) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "become the user %u", (unsigned)uid);
        if (getresuid(&ruid, &euid, &suid) < 0 || ruid != uid || euid != uid || suid != uid)
                return err_set(e, CLOCHE_E_PRIVILEGE, "the user and group ids differ from those that were set");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set no_new_privs");
        r = set_sets(0, 0, e);
        return r < 0 ? r : check_dropped(0, e);
}

int caps_open_as(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count, struct cloche_err *e)
{
        int r = drop_bounding(0, e);

        if (r < 0)
                return r;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "clear ambient capabilities");
        if (setgroups(group_count, groups) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "take the groups of user %u", (unsigned)uid);
        setfsgid(gid);
        setfsuid(uid);
        /* -1 changes nothing, and the call returns the id in force: setfsuid(2). */
        if ((uid_t)setfsuid((uid_t)-1) != uid || (gid_t)setfsgid((gid_t)-1) != gid)
                return err_set(e, CLOCHE_E_PRIVILEGE, "the user and group ids differ from those that were set");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set no_new_privs");
        r = set_sets(0, 0, e);
        return r < 0 ? r : check_dropped(0, e);
}
