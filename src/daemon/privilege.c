#include "privilege.h"

#include "base/err.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

int privilege_drop(struct cloche_err *e)
{
        int was_root = geteuid() == 0;

        if (was_root && (setgroups(0, NULL) < 0 || setresgid(DAEMON_UID, DAEMON_UID, DAEMON_UID) < 0 ||
                         setresuid(DAEMON_UID, DAEMON_UID, DAEMON_UID) < 0))
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "become the daemon's user");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set no_new_privs");
        if (was_root && (setuid(0) == 0 || setgid(0) == 0 || seteuid(0) == 0))
                return err_set(e, CLOCHE_E_PRIVILEGE, "privilege could be taken back after dropping it");
        return 0;
}
