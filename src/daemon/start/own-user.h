/* The user of one daemon of root. Another daemon cannot signal or trace it, or read its saved
 * sandboxes. Runs in: cloched-engine, as root.
 *
 *   a daemon with a state directory  the directory's owner; for a new one drawn at random
 *   a daemon without                 the lowest free one of 240 users, with the builds that the
 *                                    daemon before it has kept
 *
 * All are in one range of 65536, the unit in which container tools assign ranges; they are
 * unnamed. */
#ifndef CLOCHE_DAEMON_START_OWN_USER_H
#define CLOCHE_DAEMON_START_OWN_USER_H

#include "daemon/core/daemon.h"

#define OWN_USERS_FIRST 0x6fff0000u /* PRIVILEGE_UIDS_FIRST */
#define OWN_USERS_DRAWN 0xff00u     /* for state directories */
#define OWN_USERS_COUNT 0xfff0u     /* the last 240 are for daemons without one */
#define OWN_USER_OF_ALL 0x6ffffffdu /* formerly the user of every daemon of root */

/* True if this is, or was, the user of a daemon. */
int own_user_is_any(uid_t uid);
/* Reserve the user while this process lives, and set d->uid. -EBUSY: another daemon has it. */
int own_user_take(struct daemon *d, uid_t uid, struct cloche_err *e);
/* Reserve a user that no daemon has, and that no state directory is likely to have. */
CLOCHE_MUST_CHECK int own_user_draw(struct daemon *d, struct cloche_err *e);
/* Reserve a user if there is no state directory, and pass it to the engine. In a daemon of an
 * ordinary user d->uid stays 0. */
CLOCHE_MUST_CHECK int own_user_settle(struct daemon *d, struct cloche_err *e);

#endif
