/* Giving up what only the keeper needs. */
#ifndef CLOCHE_DAEMON_PRIVILEGE_H
#define CLOCHE_DAEMON_PRIVILEGE_H

#include <cloche/cloche.h>

/* Of the engine as root starts it: not nobody's, which others run as, and who could then reach into it. */
#define DAEMON_UID 0x6ffffffdu

/* Root becomes that user and proves that it cannot go back; anyone else stays who he is. Nobody gains rights by an exec any more. */
int privilege_drop(struct cloche_err *e);

#endif
