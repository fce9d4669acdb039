#include "caps.h"

#include "base/err.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Root inside means nothing, exec gives nothing, and neither can be switched back. */
#define LOCKED_SECURE_BITS                                                                                        \
        (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |          \
         SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

static int drop_bounding(struct cloche_err *e)
{
        /* The kernel says where its list ends: EINVAL past the last capability. */
        for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        return err_os(e, CLOCHE_E_PRIVILEGE, errno, "drop capability %d", cap);
        return 0;
}

static int set_empty(struct cloche_err *e)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

        if (syscall(SYS_capset, &header, none) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "empty the capability sets");
        return 0;
}

static int prove_gone(struct cloche_err *e)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3], all[_LINUX_CAPABILITY_U32S_3];

        if (syscall(SYS_capget, &header, now) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "read the capability sets back");
        for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
                if (now[i].effective | now[i].permitted | now[i].inheritable)
                        return err_set(e, CLOCHE_E_PRIVILEGE, "capabilities are left after dropping all");
                all[i] = (struct __user_cap_data_struct){.effective = 1u, .permitted = 1u};
        }
        for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
                if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 0)
                        return err_set(e, CLOCHE_E_PRIVILEGE, "capability %d is left in the bounding set", cap);
        if (syscall(SYS_capset, &header, all) == 0)
                return err_set(e, CLOCHE_E_PRIVILEGE, "dropped capabilities could be taken back");
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
                return err_set(e, CLOCHE_E_PRIVILEGE, "no_new_privs is not in force");
        return 0;
}

int caps_drop_all(struct cloche_err *e)
{
        int r;

        /* The secure bits and the bounding set want CAP_SETPCAP, so they come before the sets are emptied. */
        if (prctl(PR_SET_SECUREBITS, LOCKED_SECURE_BITS, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "lock the secure bits");
        r = drop_bounding(e);
        if (r < 0)
                return r;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "clear ambient capabilities");
        r = set_empty(e);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set no_new_privs");
        return prove_gone(e);
}
