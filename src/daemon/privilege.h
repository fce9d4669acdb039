/* Giving up what only the keeper needs. */
#ifndef CLOCHE_DAEMON_PRIVILEGE_H
#define CLOCHE_DAEMON_PRIVILEGE_H

#include <cloche/cloche.h>
#include <sys/types.h>

/* Root becomes uid, a daemon's own user (own-user.h), and proves that it cannot go back; with uid 0 the process stays who it is. It gains no rights by an
 * exec any more. */
int privilege_drop(uid_t uid, struct cloche_err *e);

#endif
