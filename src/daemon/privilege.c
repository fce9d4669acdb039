#include "privilege.h"

#include "base/privilege.h"

#include <unistd.h>

int privilege_drop(struct cloche_err *e)
{
        return privilege_is_root() ? privilege_become(DAEMON_UID, e) : privilege_gain_none(e);
}
