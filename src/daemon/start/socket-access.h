/* The users whom the kernel lets connect to the daemon's socket: those whom the daemon serves
 * (auth_peer). A user who is not served is refused at once, also while the daemon hangs, and takes
 * a daemon of its own. */
#ifndef CLOCHE_DAEMON_START_SOCKET_ACCESS_H
#define CLOCHE_DAEMON_START_SOCKET_ACCESS_H

#include "daemon/core/options.h"

/* Set the access control list of the socket file. 0 or -errno; on -EOPNOTSUPP, by a file system
 * without such lists, the file stays as it was. */
int socket_access_set(const char *path, const struct daemon_options *o);
/* The same for a listening unix socket that a service manager passed; others are left alone. */
int socket_access_set_passed(int fd, const struct daemon_options *o);

#endif
