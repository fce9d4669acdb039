/* The user that one daemon of root has for itself. Another daemon's neither signals nor traces it, nor reads what it saved. Runs in: cloched-engine, as root.
 *
 *   a daemon with a state directory  the directory's owner; else drawn by lot, and then its owner
 *   one without                      the lowest of a few that is free: the builds that one of them kept are the next one's
 *
 * The users are those of one range of 65536, as tools that give away ranges count. None of them has a name. */
#ifndef CLOCHE_DAEMON_OWN_USER_H
#define CLOCHE_DAEMON_OWN_USER_H

#include "daemon.h"

#define OWN_USERS_FIRST 0x6fff0000u /* PRIVILEGE_UIDS_FIRST */
#define OWN_USERS_DRAWN 0xff00u     /* for state directories */
#define OWN_USERS_COUNT 0xfff0u     /* the last are for daemons without */
#define OWN_USER_OF_ALL 0x6ffffffdu /* of every daemon of root, before each had its own */

/* Whether what this user owns is a daemon's. */
int own_user_is_any(uid_t uid);
/* Take it for as long as this process lives: d->uid. 0, -EBUSY: another daemon has it. */
int own_user_take(struct daemon *d, uid_t uid, struct cloche_err *e);
/* Take one that no daemon has, and that no state directory is likely to have. */
CLOCHE_MUST_CHECK int own_user_draw(struct daemon *d, struct cloche_err *e);
/* Take one if the state directory brought none, and have the engine expect it. Of a daemon that is not root's d->uid stays 0. */
CLOCHE_MUST_CHECK int own_user_settle(struct daemon *d, struct cloche_err *e);

#endif
