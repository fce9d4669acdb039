#include "privilege.h"

#include "base/privilege.h"

#include <unistd.h>

int privilege_drop(struct cloche_err *e)
{
        return geteuid() == 0 ? privilege_become(DAEMON_UID, e) : privilege_gain_none(e);
}
