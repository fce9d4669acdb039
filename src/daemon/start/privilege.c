#include "privilege.h"

#include "base/privilege.h"

int privilege_drop(uid_t uid, struct cloche_err *e)
{
        return uid ? privilege_become(uid, e) : privilege_gain_none(e);
}
