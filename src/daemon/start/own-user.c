/* The user of one daemon of root. Runs in: cloched-engine, at its start, with the rights of its
 * starter. */
#include "own-user.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#define LOCKS \
        "/run/cloche-users" /* one file per user; only root can open them, and an engine holds no other daemon's */
#define DRAWS 64

_Static_assert(OWN_USERS_FIRST == PRIVILEGE_UIDS_FIRST, "privilege_is_root() says that they can be had");

int own_user_is_any(uid_t uid)
{
        return (uid >= OWN_USERS_FIRST && uid < OWN_USERS_FIRST + OWN_USERS_COUNT) || uid == OWN_USER_OF_ALL;
}

/* Open the lock read-only: an engine that holds it cannot write to it, and fill the disk. */
static int open_lock(uid_t uid)
{
        char path[64];
        int fd;

        if (mkdir(LOCKS, 0700) < 0 && errno != EEXIST)
                return -errno;
        snprintf(path, sizeof(path), LOCKS "/%u", (unsigned)uid);
        fd = open(path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd;
}

int own_user_take(struct daemon *d, uid_t uid, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open_lock(uid);

        if (fd < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, -fd,
                              "open a file in " LOCKS ", by which each daemon of root has a user of its own");
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? -EBUSY : err_os(e, CLOCHE_E_PRIVILEGE, errno, "lock a file in " LOCKS);
        fd_close(&d->users_fd);
        d->users_fd = TAKE_FD(fd);
        d->uid = uid;
        return 0;
}

int own_user_draw(struct daemon *d, struct cloche_err *e)
{
        int r = -EBUSY;

        for (unsigned i = 0; r == -EBUSY && i < DRAWS; i++) {
                uint32_t lot;

                if (getrandom(&lot, sizeof(lot), 0) != sizeof(lot))
                        return err_os(e, CLOCHE_E_PRIVILEGE, errno, "choose a user for this daemon");
                r = own_user_take(d, OWN_USERS_FIRST + lot % OWN_USERS_DRAWN, e);
        }
        return r == -EBUSY ? err_set(e, CLOCHE_E_PRIVILEGE,
                                     "no free user for this daemon was found in %d attempts among %u", DRAWS,
                                     OWN_USERS_DRAWN)
                           : r;
}

int own_user_settle(struct daemon *d, struct cloche_err *e)
{
        int r = d->uid ? 0 : -EBUSY;

        if (!privilege_is_root())
                return 0;
        for (uid_t uid = OWN_USERS_FIRST + OWN_USERS_DRAWN; r == -EBUSY && uid < OWN_USERS_FIRST + OWN_USERS_COUNT;
             uid++)
                r = own_user_take(d, uid, e);
        d->options.engine.becomes_uid = d->uid;
        return r == -EBUSY ? err_set(e, CLOCHE_E_PRIVILEGE,
                                     "%u daemons of root without a state directory run already: end one, or start this "
                                     "one with --state-dir",
                                     OWN_USERS_COUNT - OWN_USERS_DRAWN)
                           : r;
}
