/* Which daemon serves this user when none is named: the system's, if the user may use it, else the user's own, which is started on
 * demand (cloched --on-demand). Runs in: the CLI, cloched; as the user who started them. */
#ifndef CLOCHE_USER_DAEMON_FIND_H
#define CLOCHE_USER_DAEMON_FIND_H

#include <cloche/cloche.h>

#define DAEMON_SYSTEM_SOCKET "/run/cloche/socket" /* as packaging/systemd/cloched.socket has it */
#define DAEMON_SOCKET_BYTES 108

/* A stream socket connected to path. A descriptor; -CLOCHE_E_NOT_FOUND: no daemon listens there; -CLOCHE_E_FORBIDDEN. */
CLOCHE_MUST_CHECK int daemon_connect(const char *path, struct cloche_err *e);
/* The user's own daemon: 1, its socket and a connection to it, owned by the caller; 0: there is none. */
CLOCHE_MUST_CHECK int daemon_find_own(char ret[DAEMON_SOCKET_BYTES], int *ret_fd, struct cloche_err *e);
/* The system's or the user's own: 1 and its socket; 0: there is neither. An error: the system's does not answer as it should, or the
 * directory of the user's own is not safe. */
CLOCHE_MUST_CHECK int daemon_find(char ret[DAEMON_SOCKET_BYTES], struct cloche_err *e);

#endif
