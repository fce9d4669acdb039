/* Giving up what only the keeper needs. */
#ifndef CLOCHE_DAEMON_PRIVILEGE_H
#define CLOCHE_DAEMON_PRIVILEGE_H

#include <cloche/cloche.h>
#include <sys/types.h>

/* Root becomes that user, a daemon's own (own-user.h), and proves that it cannot go back; anyone else (0) stays who he is. Nobody gains rights by an exec
 * any more. */
int privilege_drop(uid_t uid, struct cloche_err *e);

#endif
