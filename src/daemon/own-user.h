/* The user of one daemon of root. Another daemon cannot signal or trace it, or read the sandboxes it saved. Runs in: cloched-engine, as root.
 *
 *   a daemon with a state directory  has the directory's owner as its user; the owner of a new one is drawn by lot
 *   a daemon without                 has the lowest of 240 users that is free, and with it the builds that one before has kept
 *
 * All of them are in one range of 65536, the unit in which container tools give ranges away. They have no names. */
#ifndef CLOCHE_DAEMON_OWN_USER_H
#define CLOCHE_DAEMON_OWN_USER_H

#include "daemon.h"

#define OWN_USERS_FIRST 0x6fff0000u /* PRIVILEGE_UIDS_FIRST */
#define OWN_USERS_DRAWN 0xff00u     /* for state directories */
#define OWN_USERS_COUNT 0xfff0u     /* the last 240 are for daemons without */
#define OWN_USER_OF_ALL 0x6ffffffdu /* formerly the user of every daemon of root */

/* Whether this is, or was, a daemon's user. */
int own_user_is_any(uid_t uid);
/* Take it for as long as this process lives: d->uid. 0, -EBUSY: another daemon has it. */
int own_user_take(struct daemon *d, uid_t uid, struct cloche_err *e);
/* Take one that no daemon has, and that no state directory is likely to have. */
CLOCHE_MUST_CHECK int own_user_draw(struct daemon *d, struct cloche_err *e);
/* Take one if there is no state directory, and name it to the engine. In a daemon that is not root's d->uid stays 0. */
CLOCHE_MUST_CHECK int own_user_settle(struct daemon *d, struct cloche_err *e);

#endif
