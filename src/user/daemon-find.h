/* Find the daemon for this user when none is named: the system's, if the user may use it; otherwise
 * the user's own, which is started on demand (cloched --on-demand). Runs in: the CLI, cloched; as
 * the user who started them. */
#ifndef CLOCHE_USER_DAEMON_FIND_H
#define CLOCHE_USER_DAEMON_FIND_H

#include <cloche/error.h>

#define DAEMON_SYSTEM_SOCKET "/run/cloche/socket" /* equals packaging/systemd/cloched.socket */
#define DAEMON_SOCKET_BYTES 108

/* Check that a socket can have this path. */
CLOCHE_MUST_CHECK int daemon_check_path(const char *path, struct cloche_err *e);
/* Connect a stream socket to path. A descriptor; -CLOCHE_E_NOT_FOUND: no daemon listens there;
 * -CLOCHE_E_FORBIDDEN. */
CLOCHE_MUST_CHECK int daemon_connect(const char *path, struct cloche_err *e);
/* Find the user's own daemon: 1, its socket and a connection to it, owned by the caller; 0:
 * none. */
CLOCHE_MUST_CHECK int daemon_find_own(char ret[DAEMON_SOCKET_BYTES], int *ret_fd, struct cloche_err *e);
/* Find the system's or the user's own: 1 and its socket; 0: neither. An error: the system's answers
 * wrongly, or the directory of the user's own is unsafe. */
CLOCHE_MUST_CHECK int daemon_find(char ret[DAEMON_SOCKET_BYTES], struct cloche_err *e);

#endif
