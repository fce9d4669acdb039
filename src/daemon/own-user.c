#include "own-user.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"

#include <fcntl.h>
#include <sys/random.h>

#define LOCKS "/run/cloche-daemons" /* one byte a user. Only root can open it, so no other user can hold a lock */
#define DRAWS 64

_Static_assert(OWN_USERS_FIRST == PRIVILEGE_UIDS_FIRST, "privilege_is_root() says that they can be had");

int own_user_is_any(uid_t uid)
{
        return (uid >= OWN_USERS_FIRST && uid < OWN_USERS_FIRST + OWN_USERS_COUNT) || uid == OWN_USER_OF_ALL;
}

static int open_locks(struct daemon *d, struct cloche_err *e)
{
        if (d->users_fd >= 0)
                return 0;
        d->users_fd = open(LOCKS, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        return d->users_fd < 0 ? err_os(e, CLOCHE_E_PRIVILEGE, errno, "open " LOCKS ", by which each daemon of root has a user of its own") : 0;
}

int own_user_take(struct daemon *d, uid_t uid, struct cloche_err *e)
{
        struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(uid - OWN_USERS_FIRST), .l_len = 1};
        int r = open_locks(d, e);

        if (r < 0)
                return r;
        if (fcntl(d->users_fd, F_OFD_SETLK, &byte) < 0)
                return errno == EAGAIN || errno == EACCES ? -EBUSY : err_os(e, CLOCHE_E_PRIVILEGE, errno, "lock " LOCKS);
        d->uid = uid;
        return 0;
}

int own_user_draw(struct daemon *d, struct cloche_err *e)
{
        int r = -EBUSY;

        for (unsigned i = 0; r == -EBUSY && i < DRAWS; i++) {
                uint32_t lot;

                if (getrandom(&lot, sizeof(lot), 0) != sizeof(lot))
                        return err_os(e, CLOCHE_E_PRIVILEGE, errno, "draw a user");
                r = own_user_take(d, OWN_USERS_FIRST + lot % OWN_USERS_DRAWN, e);
        }
        return r == -EBUSY ? err_set(e, CLOCHE_E_PRIVILEGE, "no free user for this daemon was found in %d draws of %u", DRAWS, OWN_USERS_DRAWN) : r;
}

int own_user_settle(struct daemon *d, struct cloche_err *e)
{
        int r = d->uid ? 0 : -EBUSY;

        if (!privilege_is_root())
                return 0;
        for (uid_t uid = OWN_USERS_FIRST + OWN_USERS_DRAWN; r == -EBUSY && uid < OWN_USERS_FIRST + OWN_USERS_COUNT; uid++)
                r = own_user_take(d, uid, e);
        d->options.engine.becomes_uid = d->uid;
        return r == -EBUSY ? err_set(e, CLOCHE_E_PRIVILEGE, "%u daemons of root without a state directory run already", OWN_USERS_COUNT - OWN_USERS_DRAWN) : r;
}
