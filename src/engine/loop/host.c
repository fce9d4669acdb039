/* Kernel features of this host. Runs in: the engine. Each feature is tried, not guessed from a
 * release number: distributions backport some and leave out others. */
#include "base/fd.h"
#include "engine.h"
#include "jail/subids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Linux/fuse.h of Linux 6.9: struct fuse_backing_map, 16 bytes. */
#define FUSE_DEV_IOC_BACKING_OPEN _IOW(229, 1, uint64_t[2])
#define LANDLOCK_CREATE_VERSION 1u
#define WRITES 5

static int try_control_groups(const cloche_engine *engine, char *detail, size_t size)
{
        const struct cgroup_place *place = &keeper_groups(engine->keeper)->places[CGROUP_MEMORY];

        if (place->version)
                snprintf(detail, size, "version %d, in %.180s", place->version, place->base);
        else
                snprintf(detail, size, "%s", place->reason);
        return place->version > 0;
}

/* landlock(7); landlock_create_ruleset(2) lists the rights of each version. */
static int try_landlock(const cloche_engine *engine, char *detail, size_t size)
{
        long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_VERSION);

        (void)engine;
        if (abi > 0)
                snprintf(detail, size, "ABI %ld%s", abi,
                         abi >= 6 ? ""
                                  : ": only call filters refuse what later versions refuse too (3 truncation, 4 TCP, 6 "
                                    "signals)");
        return abi > 0;
}

/* Root's keeper makes its own node; an ordinary user's opens the host's. */
static int try_fuse(const cloche_engine *engine, char *detail, size_t size)
{
        _cleanup_fd_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        int error = errno;
        struct stat st;

        (void)engine;
        if (fd >= 0)
                return 1;
        if (error == ENOENT)
                snprintf(detail, size, "there is no /dev/fuse: root can load it (modprobe fuse)");
        else if (error == EACCES && stat("/dev/fuse", &st) == 0)
                snprintf(detail, size,
                         "this user may not open /dev/fuse (mode %04o, of user %u): chmod 0666, which gives no right "
                         "over the host, or a daemon of root's",
                         st.st_mode & 07777, st.st_uid);
        else
                snprintf(detail, size, "/dev/fuse: %s", strerror(error));
        return 0;
}

/* A device without a mount refuses a known request with EPERM and an unknown one with ENOTTY. */
static int try_passthrough(const cloche_engine *engine, char *detail, size_t size)
{
        _cleanup_fd_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        uint64_t map[2] = {0};

        if (cloche_engine_guard(engine, CLOCHE_GUARD_PRIVATE_UID, NULL) != CLOCHE_GUARD_ENFORCED)
                snprintf(detail, size, "root's keeper alone may use it");
        if (fd < 0) {
                snprintf(detail, size, "/dev/fuse: %s", strerror(errno));
                return 0;
        }
        return ioctl(fd, FUSE_DEV_IOC_BACKING_OPEN, map) < 0 && errno != ENOTTY && errno != EOPNOTSUPP;
}

/* Two writes in a row get different times (Documentation/filesystems/multigrain-ts.rst). */
static int try_times(const cloche_engine *engine, char *detail, size_t size)
{
        _cleanup_fd_ int fd = memfd_create("times", MFD_CLOEXEC);
        struct stat before, after;

        (void)engine;
        (void)detail;
        (void)size;
        if (fd < 0 || fstat(fd, &before) < 0)
                return 0;
        for (int i = 0; i < WRITES; i++, before = after)
                if (write(fd, "x", 1) != 1 || fstat(fd, &after) < 0 ||
                    (after.st_ctim.tv_sec == before.st_ctim.tv_sec && after.st_ctim.tv_nsec == before.st_ctim.tv_nsec))
                        return 0;
        return 1;
}

/* The same is needed by the keeper (keeper/box-make.c). */
static int try_root(const cloche_engine *engine, char *detail, size_t size)
{
        const struct cgroup_host *groups = keeper_groups(engine->keeper);
        const struct cgroup_place *missing = !groups->places[CGROUP_MEMORY].version ? &groups->places[CGROUP_MEMORY]
                                             : !groups->places[CGROUP_PIDS].version ? &groups->places[CGROUP_PIDS]
                                                                                    : NULL;

        const int is_users = cloche_engine_guard(engine, CLOCHE_GUARD_PRIVATE_UID, NULL) != CLOCHE_GUARD_ENFORCED;
        struct cloche_err e = {0};
        struct subids lent;

        if (is_users && !keeper_memory_has_attributes(engine->keeper))
                snprintf(detail, size, "an ordinary user's daemon has writable roots from Linux 6.6 on");
        else if (missing)
                snprintf(detail, size, "groups for memory and pids must hold it: %.150s", missing->reason);
        else if (is_users && subids_find(&lent, &e) < 0)
                snprintf(detail, size, "%s", e.msg);
        return !detail[0];
}

void cloche_engine_host(const cloche_engine *engine, struct cloche_host_report *ret)
{
        static int (*const tries[CLOCHE_HOST_COUNT])(const cloche_engine *engine, char *detail, size_t size) = {
                [CLOCHE_HOST_CONTROL_GROUPS] = try_control_groups,
                [CLOCHE_HOST_LANDLOCK] = try_landlock,
                [CLOCHE_HOST_FUSE] = try_fuse,
                [CLOCHE_HOST_FUSE_PASSTHROUGH] = try_passthrough,
                [CLOCHE_HOST_FINE_TIMES] = try_times,
                [CLOCHE_HOST_SANDBOX_ROOT] = try_root,
        };
        static const struct cloche_host_report rows[CLOCHE_HOST_COUNT] = {
#define CLOCHE_HOST(symbol, feature, release, instead) \
        [CLOCHE_HOST_##symbol] = {.name = feature, .since = release, .without = instead},
#include <cloche/host.def>
#undef CLOCHE_HOST
        };

        for (int f = 0; f < CLOCHE_HOST_COUNT; f++) {
                ret[f] = rows[f];
                ret[f].is_present = tries[f](engine, ret[f].detail, sizeof(ret[f].detail));
        }
}
