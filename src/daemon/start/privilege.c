/* Dropping the rights that only the keeper needs. Runs in: cloched-engine, at its start: before it
 * the rights of its starter, after it those of the daemon's user. */
#include "privilege.h"

#include "base/privilege.h"

int privilege_drop(uid_t uid, struct cloche_err *e)
{
        return uid ? privilege_become(uid, e) : privilege_gain_none(e);
}
