/* The leases of ranges of ids. Keepers know nothing of each other, so the host holds them: a
 * file a range, locked by the one who has it. PID 1 of the box holds the lock too: a keeper that
 * is killed leaves the range taken until the box is gone (pid_namespaces(7): its PID 1 ends
 * last). Runs in: the keeper. */
#include "ids.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Between the users of other boxes and the owners of their user namespaces (keeper/box.h), past
 * the ranges that useradd(8), subuid(5) and systemd give out. */
#define FIRST 0x70400000u
#define END 0x78000000u
#define RANGES ((END - FIRST) / IDS_IN_RANGE)

#define DIRECTORY "/run/cloche-ids"

static int open_directory(struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        struct stat st;

        if (mkdir(DIRECTORY, 0700) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make " DIRECTORY);
        fd = open(DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "open " DIRECTORY);
        if (st.st_uid != 0 || st.st_mode & 077)
                return err_set(e, CLOCHE_E_FORBIDDEN, DIRECTORY " must be root's alone: chown and chmod 0700 it");
        return TAKE_FD(fd);
}

/* Return the locked file, -EWOULDBLOCK for a range that is taken, or -errno. */
static int try_range(int directory_fd, const char *name)
{
        _cleanup_fd_ int fd = openat(directory_fd, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        struct stat locked, now;

        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &locked) < 0)
                return -errno;
        /* Its last owner may have removed it before it was locked. */
        if (fstatat(directory_fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0 || locked.st_ino != now.st_ino)
                return -EWOULDBLOCK;
        return TAKE_FD(fd);
}

static void name_of(uint32_t first, char ret[16])
{
        snprintf(ret, 16, "%u", first);
}

int ids_lease(struct ids_lease *ret, struct cloche_err *e)
{
        _cleanup_fd_ int directory_fd = open_directory(e);
        uint32_t chance;

        if (directory_fd < 0)
                return -(int)e->code;
        if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
                return err_os(e, CLOCHE_E_RESOURCE, errno, "choose ids for a box");
        for (uint32_t i = 0; i < RANGES; i++) {
                uint32_t first = FIRST + (chance % RANGES + i) % RANGES * IDS_IN_RANGE;
                char name[16];
                int fd;

                name_of(first, name);
                fd = try_range(directory_fd, name);
                if (fd >= 0) {
                        *ret = (struct ids_lease){fd, first};
                        return 0;
                }
                if (fd != -EWOULDBLOCK)
                        return err_os(e, CLOCHE_E_RESOURCE, -fd, "lease " DIRECTORY "/%s", name);
        }
        return err_set(e, CLOCHE_E_RESOURCE, "all %u ranges of ids are taken by sandboxes with root: end some of them",
                       (unsigned)RANGES);
}

void ids_release(struct ids_lease *lease)
{
        char path[sizeof(DIRECTORY) + 16], name[16];

        if (lease->fd < 0)
                return;
        name_of(lease->first, name);
        snprintf(path, sizeof(path), DIRECTORY "/%s", name);
        (void)unlink(path); /* before the lock ends: see try_range */
        fd_close(&lease->fd);
}
