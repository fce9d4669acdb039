/* Where the daemon is that a command uses, and starting the user's own. */
#ifndef CLOCHE_CLI_DAEMON_LOCATE_H
#define CLOCHE_CLI_DAEMON_LOCATE_H

#include "user/daemon-find.h"

/* LOCATE_ONLY starts nothing. LOCATE_THEN_START starts cloched when no daemon answers. START_ONLY runs cloched, which waits for a
 * daemon that is ending. */
enum locate { LOCATE_ONLY, LOCATE_THEN_START, START_ONLY };

/* Whether --socket (said, or NULL) or CLOCHE_SOCKET names one. */
int daemon_is_named(const char *said);
/* 1: *ret is its socket; 0: there is none. An error with code 0: cloched printed why it could not start. */
CLOCHE_MUST_CHECK int daemon_locate(const char *said, enum locate how, char ret[DAEMON_SOCKET_BYTES], struct cloche_err *e);

#endif
