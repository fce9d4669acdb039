/* Find the daemon for a command, and start the user's own. */
#ifndef CLOCHE_CLI_SANDBOX_DAEMON_LOCATE_H
#define CLOCHE_CLI_SANDBOX_DAEMON_LOCATE_H

#include "user/daemon-find.h"

#include <stddef.h>

/* LOCATE_ONLY starts nothing. LOCATE_THEN_START starts cloched when no daemon answers.
 * START_ONLY runs cloched, which waits for a daemon that is exiting. */
enum locate { LOCATE_ONLY, LOCATE_THEN_START, START_ONLY };

/* The program cloched, by which a private daemon is started. */
CLOCHE_MUST_CHECK int daemon_find_program(char *ret, size_t size, struct cloche_err *e);
/* True if --socket (socket, or NULL) or CLOCHE_SOCKET names a daemon. */
int daemon_is_named(const char *socket);
/* 1: *ret is its socket; 0: none. An error with code 0: cloched has printed the reason. */
CLOCHE_MUST_CHECK int daemon_locate(const char *socket, enum locate how, char ret[DAEMON_SOCKET_BYTES],
                                    struct cloche_err *e);

#endif
