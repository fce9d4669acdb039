/* Dropping the rights that only the keeper needs. */
#ifndef CLOCHE_DAEMON_START_PRIVILEGE_H
#define CLOCHE_DAEMON_START_PRIVILEGE_H

#include <cloche/error.h>
#include <sys/types.h>

/* Root becomes uid, a daemon's own user (own-user.h), and checks that it cannot go back; with uid 0
 * the user stays. Afterwards the process gains no rights by exec. */
int privilege_drop(uid_t uid, struct cloche_err *e);

#endif
