/* A small process that removes the unix socket when the daemon is gone, however it went: the daemon itself may not write there any
 * more once it gave up its privilege, and does nothing any more once it was killed. */
#ifndef CLOCHE_DAEMON_BROOM_H
#define CLOCHE_DAEMON_BROOM_H

#include <cloche/cloche.h>

/* ret_fd: held open as long as the daemon lives. Before threads and privilege are an issue. */
int broom_start(const char *socket_path, int *ret_fd, struct cloche_err *e);

#endif
