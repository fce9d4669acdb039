#include "privilege.h"

#include "err.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

int privilege_gain_none(struct cloche_err *e)
{
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? err_os(e, CLOCHE_E_PRIVILEGE, errno, "set no_new_privs") : 0;
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
